{% include "matmul_head.wgsl" %}
{# 32 rows of an operand: their largest finite magnitude, then all of them scaled to f16. Two neighbours of k lie together,
   then those of the next row: a vector has two of k of two rows. Rows and k are padded with zeros to whole steps. #}
{% set rows, step, threads = 32, 64, 256 %}
{% set along_k = order in "kK" %}
var<workgroup> largest: array<f32, {{ threads * (1 if along_k else 4) }}>;
var<workgroup> scales: array<f32, {{ rows }}>;
{% if along_k %}
var<workgroup> turned: array<f32, {{ step * (rows + 1) }}>;
{% endif %}

fn magnitude(x: f32) -> f32 {
    // Inf and NaN take no part: they stay what they are under any scale.
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    return select(0.0, bitcast<f32>(bits), bits < 0x7f800000u);
}

fn power(e: i32) -> f32 {
    return bitcast<f32>(u32(e + 127) << 23u);
}

// A number that is not zero stays so: an infinity on the other side must not meet a zero that was none.
fn shrink(x: f32, scale: f32) -> f32 {
    let y = x * scale;
    return select(y, select(-5.9604645e-8, 5.9604645e-8, x > 0.0), abs(y) < 5.9604645e-8 && abs(x) > 0.0);
}

// Four elements from (row, k), along {{ "k" if along_k else "the rows" }}; zero past the end of k.
fn fetch(start: u32, row: u32, k: u32) -> vec4<f32> {
{% if order == "k" %}
    let at = start + min(row, p.rows - 1u) * p.x_r + min(k, p.k - 4u) / 4u;
    return select(vec4<f32>(), {{ read4("at") }}, k < p.k);
{% elif order == "r" %}
    let at = start + min(k, p.k - 1u) * p.x_k + min(row, p.rows - 4u) / 4u;
    return select(vec4<f32>(), {{ read4("at") }}, k < p.k);
{% else %}
    var v = vec4<f32>();
{% for c in range(4) %}
{% set r, q = ("row", "k + %du" % c) if along_k else ("row + %du" % c, "k") %}
    let at{{ c }} = start + min({{ r }}, p.rows - 1u) * p.x_r + min({{ q }}, p.k - 1u) * p.x_k;
    v[{{ c }}] = select(0.0, {{ read("at%d" % c) }}, {{ q }} < p.k);
{% endfor %}
    return v;
{% endif %}
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
    let first = (group % p.tiles) * {{ rows }}u;
    let batch = group / p.tiles;
    let start = p.x_o + (batch / p.inner) * p.x_b + (batch % p.inner) * p.x_i;
    let to = batch * (p.depth + 1u) * p.wide;
{% if along_k %}
    let kt = (lid % 16u) * 4u;
    let rt = lid / 16u;
{% else %}
    let rt = (lid % 8u) * 4u;
    let kt = lid / 8u;
{% endif %}
{# The two loads of a thread in a step: rows rt and rt + 16 at four of k from kt, or four rows from rt at k 2 kt and 2 kt + 1. #}
{% macro load(l, k0) %}
fetch(start, first + rt{{ " + %du" % (16 * l) if along_k }}, {{ k0 }} + {{ "kt" if along_k else "2u * kt + %du" % l }})
{%- endmacro %}
{% set count = 2 if along_k else 4 %}
{% for i in range(count) %}
    var m{{ i }} = 0.0;
{% endfor %}
    // Eight loads under way at once.
    for (var k0 = 0u; k0 < p.k; k0 += {{ 4 * step }}u) {
{% for u in range(4) %}
{% for l in range(2) %}
        let v{{ u }}_{{ l }} = {{ load(l, "k0 + %du" % (u * step)) }};
{% endfor %}
{% endfor %}
{% for u in range(4) %}
{% for l in range(2) %}
{% for c in range(4) %}
        m{{ l if along_k else c }} = max(m{{ l if along_k else c }}, magnitude(v{{ u }}_{{ l }}[{{ c }}]));
{% endfor %}
{% endfor %}
{% endfor %}
    }
{% if along_k %}
    for (var l = 0u; l < 2u; l++) {
        largest[lid] = select(m0, m1, l == 1u);
        workgroupBarrier();
        if (lid < 16u) {
            var x = 0.0;
            for (var i = 0u; i < 16u; i++) {
                x = max(x, largest[lid * 16u + i]);
            }
            scales[l * 16u + lid] = x;
        }
        workgroupBarrier();
    }
{% else %}
{% for c in range(4) %}
    largest[kt * 32u + rt + {{ c }}u] = m{{ c }};
{% endfor %}
    workgroupBarrier();
    if (lid < 32u) {
        var x = 0.0;
        for (var i = 0u; i < 32u; i++) {
            x = max(x, largest[i * 32u + lid]);
        }
        scales[lid] = x;
    }
    workgroupBarrier();
{% endif %}
    // The largest of a row comes to lie in [16, 32): no sum of 32 products can overflow.
    if (lid < 32u) {
        let bits = bitcast<u32>(scales[lid]);
        let e = select(0, clamp(4 - (i32(bits >> 23u) - 127), -126, 126), bits >= 0x00800000u);
        scales[lid] = power(e);
        largest[lid] = f32(e);
    }
    workgroupBarrier();
    if (lid < 8u) {
        let e = lid * 4u;
        out[to + p.depth * p.wide + first / 4u + lid] = vec4<f16>(vec4<f32>(largest[e], largest[e + 1u], largest[e + 2u], largest[e + 3u]));
    }
{% if along_k %}
    let s0 = scales[rt];
    let s1 = scales[rt + 16u];
{% else %}
{% for c in range(4) %}
    let s{{ c }} = scales[rt + {{ c }}u];
{% endfor %}
{% endif %}
{% for l in range(2) %}
    var v{{ l }} = {{ load(l, "0u") }};
{% endfor %}
    for (var k0 = 0u; k0 < p.depth; k0 += {{ step }}u) {
{% for l in range(2) %}
{% for c in range(4) %}
{% if along_k %}
        turned[(kt + {{ c }}u) * {{ rows + 1 }}u + rt + {{ 16 * l }}u] = select(0.0, shrink(v{{ l }}[{{ c }}], s{{ l }}), first + rt + {{ 16 * l }}u < p.rows);
{% else %}
        let y{{ l }}_{{ c }} = select(0.0, shrink(v{{ l }}[{{ c }}], s{{ c }}), first + rt + {{ c }}u < p.rows);
{% endif %}
{% endfor %}
{% endfor %}
{% if along_k %}
        workgroupBarrier();
{% endif %}
        // The next ones are under way while these are written.
{% for l in range(2) %}
        v{{ l }} = {{ load(l, "k0 + %du" % step) }};
{% endfor %}
{% if along_k %}
{% for l in range(2) %}
        {
            let k = (lid / 16u + {{ 16 * l }}u) * 2u;
            let r = (lid % 16u) * 2u;
            let e = k * {{ rows + 1 }}u + r;
            let at = to + (k0 + k) * p.wide + (first + r) / 2u;
            out[at] = vec4<f16>(vec4<f32>(turned[e], turned[e + {{ rows + 1 }}u], turned[e + 1u], turned[e + {{ rows + 2 }}u]));
        }
{% endfor %}
        workgroupBarrier();
{% else %}
        let at = to + (k0 + 2u * kt) * p.wide + (first + rt) / 2u;
        out[at] = vec4<f16>(vec4<f32>(y0_0, y1_0, y0_1, y1_1));
        out[at + 1u] = vec4<f16>(vec4<f32>(y0_2, y1_2, y0_3, y1_3));
{% endif %}
    }
}
