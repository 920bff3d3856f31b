{% include "linalg/head.wgsl" %}
var<workgroup> rows: array<u32, {{ width }}>;
var<workgroup> other: array<u32, {{ width }}>;

// Row exchanges of an LU factorisation, in order or backwards, as what they make of the rows' numbers.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let b = wid.x + wid.y * nwg.x;
    if (b >= p.batch) {
        return;
    }
    for (var i = t; i < p.rows; i += {{ workgroup }}u) {
        rows[i] = i;
        // A pivot that is no row cannot be raised from here: it must not lead outside of the matrix.
        if (i < p.count) { other[i] = min(u32(pivots[b * p.count + i] - 1), p.rows - 1u); }
    }
    workgroupBarrier();
    if (t == 0u) {
        for (var s = 0u; s < p.count; s++) {
            let k = select(s, p.count - 1u - s, p.backwards != 0u);
            let x = rows[k];
            rows[k] = rows[other[k]];
            rows[other[k]] = x;
        }
    }
    workgroupBarrier();
    for (var i = t; i < p.rows; i += {{ workgroup }}u) {
        numbers[b * p.rows + i] = vec2<u32>(rows[i], 0u);
    }
}
