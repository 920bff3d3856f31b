{% include "text/interface.wgsl" %}

// The parts of each row, every one with its own maximum and sum, brought to one maximum and added up.
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let i = gid.x + gid.y * nwg.x * 64u;
    if (i >= p.rows * p.v4) {
        return;
    }
    let row = i / p.v4;
    let e = i % p.v4;
    var top = -1.0e38;
    for (var k = 0u; k < p.splits; k++) {
        top = max(top, part_stats[row * p.splits + k].x);
    }
    var total = 0.0;
    var sum = vec4<f32>(0.0);
    for (var k = 0u; k < p.splits; k++) {
        let at = row * p.splits + k;
        let part = part_stats[at];
        let fade = exp2(part.x - top);
        total += fade * part.y;
        sum += fade * part_out[at * p.v4 + e];
    }
    let r = sum * select(1.0 / total, 0.0, total == 0.0);
    if (e == 0u) {
        stats[row] = select(top + log2(total), 3.0e38, total == 0.0);
    }
    {{ write4 }}
}
