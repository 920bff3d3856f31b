{% include "text/interface.wgsl" %}
var<workgroup> norms: array<vec2<f32>, 256>;
var<workgroup> tops: array<atomic<u32>, 5>;

{# The squares of a thread's part of a row, and the largest element. #}
{% macro walk(x, limit, dim4, n) %}
        {
            let row = first + lid / 4u;
            let at = p.{{ x }}_o + batch * p.{{ x }}_b + head * p.{{ x }}_h + min(row, {{ limit }} - 1u) * p.{{ x }}_r;
            var high = vec4<f32>(0.0);
            var square = vec4<f32>(0.0);
            for (var e = lid % 4u; e < {{ dim4 }}; e += 4u) {
                let v = {{ read4(x, "at + e") }};
                high = max(high, abs(v));
                square += v * v;
            }
            squares[{{ n }}] = (square.x + square.y) + (square.z + square.w);
            atomicMax(&tops[{{ 2 * n + 1 }}], bitcast<u32>(max(max(high.x, high.y), max(high.z, high.w))));
        }
{% endmacro %}
// For each 64 rows: the largest squared norm and the largest element, of keys and values or of queries and their
// gradients; with these the largest sum of grad * out.
@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
    if (lid < 5u) {
        atomicStore(&tops[lid], 0u);
    }
    workgroupBarrier();
    var squares = vec2<f32>(0.0);
    if (group < p.k_total) {
        let first = group % p.k_blocks * 64u;
        let head = group / p.k_blocks % p.shared_heads;
        let batch = group / p.k_blocks / p.shared_heads;
{{ walk("k", "p.s", "p.e4", 0) }}
{{ walk("v", "p.s", "p.v4", 1) }}
    } else {
        let i = group - p.k_total;
        let first = i % p.q_blocks * 64u;
        let head = i / p.q_blocks % p.heads;
        let batch = i / p.q_blocks / p.heads;
{{ walk("q", "p.l", "p.e4", 0) }}
{% if backward %}
{{ walk("g", "p.l", "p.v4", 1) }}
        if (lid < 64u) {
            let row = (batch * p.heads + head) * p.l + min(first + lid, p.l - 1u);
            atomicMax(&tops[4], bitcast<u32>(abs(stats[p.rows_total + row])));
        }
{% endif %}
    }
    norms[lid] = squares;
    workgroupBarrier();
    if (lid < 64u) {
        let norm = (norms[4u * lid] + norms[4u * lid + 1u]) + (norms[4u * lid + 2u] + norms[4u * lid + 3u]);
        atomicMax(&tops[0], bitcast<u32>(norm.x));
        atomicMax(&tops[2], bitcast<u32>(norm.y));
    }
    workgroupBarrier();
    if (lid < 5u) {
        bounds[group * 8u + lid] = bitcast<f32>(atomicLoad(&tops[lid]));
    }
}
