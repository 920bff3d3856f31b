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
{# The four elements of load l: along k of row rt + 16 l, or along the rows at k 2 kt + l. #}
{% macro fetch(l) %}
{% if along_k %}
        let row{{ l }} = first + rt + {{ 16 * l }}u;
        let base{{ l }} = start + min(row{{ l }}, p.rows - 1u) * p.x_r;
{% if order == "k" %}
        let v{{ l }} = select(vec4<f32>(), {{ read4("base%d + min(k0 + kt, p.k - 4u) / 4u" % l) }}, k0 + kt < p.k);
{% else %}
        var v{{ l }} = vec4<f32>();
{% for c in range(4) %}
        let at{{ l }}_{{ c }} = base{{ l }} + min(k0 + kt + {{ c }}u, p.k - 1u) * p.x_k;
        v{{ l }}[{{ c }}] = select(0.0, {{ read("at%d_%d" % (l, c)) }}, k0 + kt + {{ c }}u < p.k);
{% endfor %}
{% endif %}
{% else %}
        let at_k{{ l }} = k0 + 2u * kt + {{ l }}u;
        let base{{ l }} = start + min(at_k{{ l }}, p.k - 1u) * p.x_k;
{% if order == "r" %}
        let v{{ l }} = select(vec4<f32>(), {{ read4("base%d + min(first + rt, p.rows - 4u) / 4u" % l) }}, at_k{{ l }} < p.k);
{% else %}
        var v{{ l }} = vec4<f32>();
{% for c in range(4) %}
        let at{{ l }}_{{ c }} = base{{ l }} + min(first + rt + {{ c }}u, p.rows - 1u) * p.x_r;
        v{{ l }}[{{ c }}] = select(0.0, {{ read("at%d_%d" % (l, c)) }}, at_k{{ l }} < p.k);
{% endfor %}
{% endif %}
{% endif %}
{% endmacro %}
{% set count = 2 if along_k else 4 %}
{% for i in range(count) %}
    var m{{ i }} = 0.0;
{% endfor %}
    for (var k0 = 0u; k0 < p.k; k0 += {{ step }}u) {
{% for l in range(2) %}
{{ fetch(l) }}
{% for c in range(4) %}
        m{{ l if along_k else c }} = max(m{{ l if along_k else c }}, magnitude(v{{ l }}[{{ c }}]));
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
    for (var k0 = 0u; k0 < p.depth; k0 += {{ step }}u) {
{% for l in range(2) %}
{{ fetch(l) }}
{% if along_k %}
        let live{{ l }} = row{{ l }} < p.rows;
{% for c in range(4) %}
        turned[(kt + {{ c }}u) * {{ rows + 1 }}u + rt + {{ 16 * l }}u] = select(0.0, shrink(v{{ l }}[{{ c }}], s{{ l }}), live{{ l }});
{% endfor %}
{% else %}
{% for c in range(4) %}
        let y{{ l }}_{{ c }} = select(0.0, shrink(v{{ l }}[{{ c }}], s{{ c }}), first + rt + {{ c }}u < p.rows);
{% endfor %}
{% endif %}
{% endfor %}
{% if along_k %}
        workgroupBarrier();
{% for l in range(2) %}
{% if not pairs %}
        {
            let k = lid / 8u + {{ 32 * l }}u;
            let r = (lid % 8u) * 4u;
            let e = k * {{ rows + 1 }}u + r;
            out[to + (k0 + k) * p.wide + (first + r) / 4u] = vec4<f16>(vec4<f32>(turned[e], turned[e + 1u], turned[e + 2u], turned[e + 3u]));
        }
{% else %}
        {
            let k = (lid / 16u + {{ 16 * l }}u) * 2u;
            let r = (lid % 16u) * 2u;
            let e = k * {{ rows + 1 }}u + r;
            let at = to + (k0 + k) * p.wide + (first + r) / 2u;
            out[at] = vec4<f16>(vec4<f32>(turned[e], turned[e + {{ rows + 1 }}u], turned[e + 1u], turned[e + {{ rows + 2 }}u]));
        }
{% endif %}
{% endfor %}
        workgroupBarrier();
{% elif not pairs %}
{% for l in range(2) %}
        out[to + at_k{{ l }} * p.wide + (first + rt) / 4u] = vec4<f16>(vec4<f32>(y{{ l }}_0, y{{ l }}_1, y{{ l }}_2, y{{ l }}_3));
{% endfor %}
{% else %}
        let at = to + (k0 + 2u * kt) * p.wide + (first + rt) / 2u;
        out[at] = vec4<f16>(vec4<f32>(y0_0, y1_0, y0_1, y1_1));
        out[at + 1u] = vec4<f16>(vec4<f32>(y0_2, y1_2, y0_3, y1_3));
{% endif %}
    }
}
