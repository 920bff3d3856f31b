{% include "text/interface.wgsl" %}
{% set slices = 128 // lanes %}
var<workgroup> tops: array<f32, {{ slices }}>;
var<workgroup> totals: array<f32, {{ slices }}>;
var<workgroup> sums: array<vec4<f32>, 128>;

// The parts of a row, every one with its own maximum and sum, brought to one maximum and added up: {{ slices }} at a time,
// each by {{ lanes }} threads with four elements or none.
@compute @workgroup_size(128)
fn main(
    @builtin(local_invocation_index) lid: u32,
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>,
) {
    let row = wid.x + wid.y * nwg.x;
    if (row >= p.rows) {
        return;
    }
    let e = min(lid % {{ lanes }}u, p.v4 - 1u);
    let slice = lid / {{ lanes }}u;
    var top = -1.0e38;
    var total = 0.0;
    var sum = vec4<f32>(0.0);
    for (var k = slice; k < p.splits; k += {{ slices }}u) {
        let at = row * p.splits + k;
        let part = part_stats[at];
        let now = max(top, part.x);
        let fade = exp2(top - now);
        let share = exp2(part.x - now);
        total = total * fade + share * part.y;
        sum = sum * fade + share * part_out[at * p.v4 + e];
        top = now;
    }
    tops[slice] = top;
    totals[slice] = total;
    sums[lid] = sum;
    workgroupBarrier();
    if (lid >= p.v4) {
        return;
    }
    for (var i = 1u; i < {{ slices }}u; i++) {
        let now = max(top, tops[i]);
        let fade = exp2(top - now);
        let share = exp2(tops[i] - now);
        total = total * fade + share * totals[i];
        sum = sum * fade + share * sums[i * {{ lanes }}u + e];
        top = now;
    }
    {{ "var" if after else "let" }} r = sum * select(1.0 / total, 0.0, total == 0.0);
    if (e == 0u) {
        stats[row] = select(top + log2(total), 3.0e38, total == 0.0);
    }
    let head = row / p.l;
{% if after %}
{% for c in "xyzw" %}
    r.{{ c }} = epilogue(r.{{ c }}, row % p.l, e * 4u + {{ loop.index0 }}u, head / p.heads, head % p.heads);
{% endfor %}
{% endif %}
    let to = head / p.heads * p.out_b + head % p.heads * p.out_h + row % p.l * p.out_r + e;
    {{ write4 }}
}
