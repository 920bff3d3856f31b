{% include "text/interface.wgsl" %}

// The sum of grad * out over each row, behind the rows' log-sum-exps.
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let row = gid.x + gid.y * nwg.x * 64u;
    if (row >= p.rows) {
        return;
    }
    let head = row / p.l;
    let at = p.g_o + head / p.heads * p.g_b + head % p.heads * p.g_h + row % p.l * p.g_r;
    let o_at = p.out_o + head / p.heads * p.out_b + head % p.heads * p.out_h + row % p.l * p.out_r;
    var sum = vec4<f32>(0.0);
    for (var e = 0u; e < p.v4; e++) {
        sum += {{ read4("g", "at + e") }} * {{ read4("o", "o_at + e") }};
    }
    stats[row] = lse[row];
    stats[row + p.rows] = (sum.x + sum.y) + (sum.z + sum.w);
}
