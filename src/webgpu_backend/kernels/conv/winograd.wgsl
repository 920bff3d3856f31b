// Steps of a 3x3 convolution by tiles of 2x2 outputs, 4x4 inputs (Winograd): 16 products where there were 36.
// Places of a 4x4 tile are the outermost dimension of everything between the steps.
{% include "text/interface.wgsl" %}
{# Each row of a matrix as (coefficient, index) of the terms that are not zero. #}
{% set matrices = {
    "image": [[(1, 0), (-1, 2)], [(1, 1), (1, 2)], [(-1, 1), (1, 2)], [(1, 1), (-1, 3)]],
    "weight": [[(1, 0)], [(0.5, 0), (0.5, 1), (0.5, 2)], [(0.5, 0), (-0.5, 1), (0.5, 2)], [(1, 2)]],
    "out": [[(1, 0), (1, 1), (1, 2)], [(1, 1), (-1, 2), (-1, 3)]],
    "grad": [[(1, 0)], [(0.5, 0), (0.5, 1)], [(0.5, 0), (-0.5, 1)], [(1, 1)]],
    "back": [[(1, 0), (1, 1), (1, 2)], [(1, 1), (-1, 2)], [(1, 1), (1, 2), (-1, 3)]],
} %}
{% set rows = matrices[kind] %}
{% set size = {"image": 4, "weight": 3, "out": 4, "grad": 2, "back": 4}[kind] %}
{# rows * d * rows^T, from d{y}_{x} to r{y}_{x}. #}
{% macro transform() %}
{% for y in range(rows | length) %}
{% for x in range(size) %}
    let t{{ y }}_{{ x }} = {% for c, i in rows[y] %}{{ "- " if c < 0 else ("" if loop.first else "+ ") }}{{ "0.5 * " if c in (0.5, -0.5) else "" }}d{{ i }}_{{ x }} {% endfor %};
{% endfor %}
{% endfor %}
{% for y in range(rows | length) %}
{% for x in range(rows | length) %}
    let r{{ y }}_{{ x }} = {% for c, i in rows[x] %}{{ "- " if c < 0 else ("" if loop.first else "+ ") }}{{ "0.5 * " if c in (0.5, -0.5) else "" }}t{{ y }}_{{ i }} {% endfor %};
{% endfor %}
{% endfor %}
{% endmacro %}
{% if kind in ("image", "grad") %}
fn at(base: u32, y: u32, x: u32) -> f32 {
    let inside = y < p.height && x < p.width;
    let e = select(0u, base + y * p.s_h + x * p.s_w, inside);
    return select(0.0, {{ read("x_in", "e") }}, inside);
}
{% endif %}

{% if kind == "out" %}

fn is_finite(v: f32) -> bool {
    return (bitcast<u32>(v) & 0x7f800000u) != 0x7f800000u;
}

// The plain sum of one output.
fn direct(image: u32, channel: u32, y: u32, x: u32) -> f32 {
    var sum = 0.0;
    for (var k = 0u; k < p.depth && !f32_isnan(sum); k++) {
        let x_at = p.x_o + image * p.s_n + k * p.s_c;
        let w_at = p.w_o + channel * p.s_m + k * p.s_k;
        for (var n = 0u; n < 9u; n++) {
            let from_y = y + n / 3u - p.pad_h;
            let from_x = x + n % 3u - p.pad_w;
            if (from_y < p.x_height && from_x < p.x_width) {
                let x_e = x_at + from_y * p.s_h + from_x * p.s_w;
                let w_e = w_at + {{ "8u - n" if flip else "n" }};
                sum += {{ read("source", "x_e") }} * {{ read("weight", "w_e") }};
            }
        }
    }
    return sum;
}
{% endif %}
{% if kind == "back" %}
var<workgroup> window: array<f32, 1152>;

{% endif %}
@compute @workgroup_size(128)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
{% if kind == "back" %}
    // A window is nine numbers: they leave in the order of memory.
    let own = gid.x + gid.y * nwg.x * 128u;
    let id = min(own, p.total - 1u);
{% else %}
    let id = gid.x + gid.y * nwg.x * 128u;
    if (id >= p.total) {
        return;
    }
{% endif %}
{% if kind in ("image", "grad") %}
    // Neighbours are the next tile; tiles past the last image are zero.
    let tile = id % p.tiles;
    let channel = id / p.tiles;
    let image = tile / (p.tiles_h * p.tiles_w);
    let y = (tile / p.tiles_w % p.tiles_h) * 2u - p.pad_h;
    let x = (tile % p.tiles_w) * 2u - p.pad_w;
    let base = p.x_o + min(image, p.images - 1u) * p.s_n + channel * p.s_c;
{% for i in range(size) %}
{% for j in range(size) %}
    let d{{ i }}_{{ j }} = at(base, y + {{ i }}u, x + {{ j }}u);
{% endfor %}
{% endfor %}
{{ transform() }}
    let real = image < p.images;
{% for i in range(4) %}
{% for j in range(4) %}
    out[id + {{ 4 * i + j }}u * p.total] = select(0.0, r{{ i }}_{{ j }}, real);
{% endfor %}
{% endfor %}
{% elif kind == "weight" %}
    let base = p.x_o + (id % p.rows) * p.s_m + (id / p.rows) * p.s_k;
{% for i in range(3) %}
{% for j in range(3) %}
    let e{{ i }}_{{ j }} = base + {{ 8 - 3 * i - j if flip else 3 * i + j }}u;
    let d{{ i }}_{{ j }} = {{ read("x_in", "e%d_%d" % (i, j)) }};
{% endfor %}
{% endfor %}
{{ transform() }}
{% for i in range(4) %}
{% for j in range(4) %}
    out[id + {{ 4 * i + j }}u * p.total] = r{{ i }}_{{ j }};
{% endfor %}
{% endfor %}
{% else %}
{% for i in range(4) %}
{% for j in range(4) %}
    let d{{ i }}_{{ j }} = x_in[id + {{ 4 * i + j }}u * p.total];
{% endfor %}
{% endfor %}
{{ transform() }}
{% if kind == "out" %}
    let tile = id % p.tiles;
    let channel = id / p.tiles;
    let image = tile / (p.tiles_h * p.tiles_w);
    let y = (tile / p.tiles_w % p.tiles_h) * 2u;
    let x = (tile % p.tiles_w) * 2u;
    if (image >= p.images) {
        return;
    }
{% if bias %}
    let c_at = p.c_o + channel * p.c_s;
    let add = {{ read("c_in", "c_at") }};
{% endif %}
    let base = ((image * p.channels + channel) * p.height + y) * p.width + x;
    // What is not finite has spread over the tile, and may come of the transforms alone.
    let sound = is_finite(r0_0) && is_finite(r0_1) && is_finite(r1_0) && is_finite(r1_1);
{% for i in range(2) %}
{% for j in range(2) %}
    if (y + {{ i }}u < p.height && x + {{ j }}u < p.width) {
        let e = base + {{ i }}u * p.width + {{ j }}u;
        var v = r{{ i }}_{{ j }};
        if (!sound) {
            v = direct(image, channel, y + {{ i }}u, x + {{ j }}u);
        }
{% if bias %}
        v += add;
{% endif %}
{% if after %}
        v = epilogue(v, channel, (y + {{ i }}u) * p.width + x + {{ j }}u, image, 0u);
{% endif %}
        {{ write("e", "v") }}
    }
{% endfor %}
{% endfor %}
{% else %}
{% for i in range(3) %}
{% for j in range(3) %}
    window[lid * 9u + {{ 3 * i + j }}u] = r{{ i }}_{{ j }};
{% endfor %}
{% endfor %}
    workgroupBarrier();
    let first = (own - lid) * 9u;
{% for i in range(9) %}
    {
        let e = first + {{ 128 * i }}u + lid;
        if (e < p.total * 9u) {
            let v = window[{{ 128 * i }}u + lid];
            {{ write("e", "v") }}
        }
    }
{% endfor %}
{% endif %}
{% endif %}
}
