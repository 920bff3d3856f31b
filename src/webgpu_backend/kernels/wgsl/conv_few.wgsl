// Convolutions with few outputs a group: a thread has all of them at {{ pixels }} positions, whose neighbours are its neighbours'.
// Of a transposed convolution the outputs are those of {{ parts }} phases of the stride, which meet the same image.
struct P {
{% for field in fields %}
    {{ field }},
{% endfor %}
}
{% for name, access, type in bindings %}
@group(0) @binding({{ loop.index0 }}) var<storage, {{ access }}> {{ name }}: {{ type }};
{% endfor %}
{% set quads = (rows + 3) // 4 %}
{% set pitch = parts * quads %}
{% if stage %}
var<workgroup> kept: array<vec4<f32>, {{ stage * pitch }}>;
{% endif %}
{# `count` channels from c on: read at every position, then multiplied into each part. #}
{% macro channels(count) %}
{% for u in range(count) %}
{% for j in range(pixels) %}
                let v{{ j }}_{{ u }} = select(0.0, {{ read("x", "at%d + x_at + %du * p.xs_c" % (j, u)) }}, in{{ j }});
{% endfor %}
{% endfor %}
{% for g in range(parts) %}
                {{ "if (live%d) " % g if parts > 1 else "" }}{
{% for u in range(count) %}
{% for q in range(quads) %}
                    let w{{ u }}_{{ q }} = {{ "kept" if stage else "w_in" }}[w_at + {{ u * pitch + g * quads + q }}u];
{% endfor %}
{% for j in range(pixels) %}
{% for r in range(rows) %}
                    s{{ j }}_{{ g * rows + r }} += v{{ j }}_{{ u }} * w{{ u }}_{{ r // 4 }}.{{ "xyzw"[r % 4] }};
{% endfor %}
{% endfor %}
{% endfor %}
                }
{% endfor %}
                x_at += {{ count }}u * p.xs_c;
                w_at += {{ count * pitch }}u;
{% endmacro %}
@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    var t = wid.x + wid.y * nwg.x;
    if (t >= p.total) {
        return;
    }
    // Neighbours read the same part of the image.
    let block = t % p.blocks;
    t /= p.blocks;
    let tile = t % p.tiles;
    t /= p.tiles;
    let split = t % p.splits;
    let group = t / p.splits;
    let c_first = split * p.chunk;
    let c_last = min(c_first + p.chunk, p.channels);
    let places = p.pos_d * p.pos_h * p.pos_w;
{% for j in range(pixels) %}
    let n{{ j }} = tile * {{ threads * pixels }}u + {{ j * threads }}u + lid;
    let image{{ j }} = min(n{{ j }}, p.n - 1u) / places;
    let place{{ j }} = min(n{{ j }}, p.n - 1u) % places;
    let z{{ j }} = place{{ j }} / (p.pos_h * p.pos_w) * p.step_d + p.first_d;
    let y{{ j }} = place{{ j }} / p.pos_w % p.pos_h * p.step_h + p.first_h;
    let x{{ j }} = place{{ j }} % p.pos_w * p.step_w + p.first_w;
    let base{{ j }} = p.x_o + image{{ j }} * p.xs_n + z{{ j }} * p.xs_d + y{{ j }} * p.xs_h + x{{ j }} * p.xs_w;
{% for r in range(parts * rows) %}
    var s{{ j }}_{{ r }} = 0.0;
{% endfor %}
{% endfor %}
{% for g in range(parts) %}
    let phase{{ g }} = block * {{ parts }}u + {{ g }}u;
    let phase{{ g }}_d = phase{{ g }} / (p.by_h * p.by_w);
    let phase{{ g }}_h = phase{{ g }} / p.by_w % p.by_h;
    let phase{{ g }}_w = phase{{ g }} % p.by_w;
{% endfor %}
    var tap = (group * p.blocks + block) * p.taps_d * p.taps_h * p.taps_w;
    for (var kz = 0u; kz < p.taps_d; kz++) {
        for (var ky = 0u; ky < p.taps_h; ky++) {
            for (var kx = 0u; kx < p.taps_w; kx++) {
                let away_d = kz * p.tap_d;
                let away_h = ky * p.tap_h;
                let away_w = kx * p.tap_w;
                let away = away_d * p.xs_d + away_h * p.xs_h + away_w * p.xs_w;
{% for j in range(pixels) %}
                let in{{ j }} = z{{ j }} + away_d < p.x_d && y{{ j }} + away_h < p.x_h && x{{ j }} + away_w < p.x_w;
                let at{{ j }} = select(p.x_o, base{{ j }} + away, in{{ j }});
{% endfor %}
{% if parts > 1 %}
{% for g in range(parts) %}
                let live{{ g }} = phase{{ g }}_d + kz * p.by_d < p.win_d && phase{{ g }}_h + ky * p.by_h < p.win_h && phase{{ g }}_w + kx * p.by_w < p.win_w;
{% endfor %}
{% endif %}
                var x_at = (group * p.channels + c_first) * p.xs_c;
                let w_first = (tap * p.channels + c_first) * {{ pitch }}u;
                tap++;
{% if stage %}
                for (var c0 = c_first; c0 < c_last; c0 += {{ stage }}u) {
                let last = min(c0 + {{ stage }}u, c_last);
                workgroupBarrier();
                for (var i = lid; i < (last - c0) * {{ pitch }}u; i += {{ threads }}u) {
                    kept[i] = w_in[w_first + (c0 - c_first) * {{ pitch }}u + i];
                }
                workgroupBarrier();
                var c = c0;
                var w_at = 0u;
{% else %}
                {
                let last = c_last;
                var c = c_first;
                var w_at = w_first;
{% endif %}
                for (; c + {{ unroll }}u <= last; c += {{ unroll }}u) {
{{ channels(unroll) }}
                }
                for (; c < last; c++) {
{{ channels(1) }}
                }
                }
            }
        }
    }
{% for j in range(pixels) %}
    if (n{{ j }} < p.n) {
        let qz = place{{ j }} / (p.pos_h * p.pos_w) * p.by_d + p.origin_d;
        let qy = place{{ j }} / p.pos_w % p.pos_h * p.by_h + p.origin_h;
        let qx = place{{ j }} % p.pos_w * p.by_w + p.origin_w;
        let plane = p.out_d * p.out_h * p.out_w;
        let to = split * p.o_s + image{{ j }} * p.o_n + group * {{ rows }}u * plane;
{% for g in range(parts) %}
        {
            let oz = qz + phase{{ g }}_d;
            let oy = qy + phase{{ g }}_h;
            let ox = qx + phase{{ g }}_w;
            if (oz < p.out_d && oy < p.out_h && ox < p.out_w && phase{{ g }}_d < p.by_d) {
                let at = to + (oz * p.out_h + oy) * p.out_w + ox;
{% for r in range(rows) %}
                {
                    let o = at + {{ r }}u * plane;
                    let v = s{{ j }}_{{ g * rows + r }}{% if bias %} + {{ read("c", "p.c_o + (group * %du + %du) * p.c_s" % (rows, r)) }}{% endif %};
                    {{ write("o", "v") }}
                }
{% endfor %}
            }
        }
{% endfor %}
    }
{% endfor %}
}
