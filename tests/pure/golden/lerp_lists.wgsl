// lerp_list2_f32_bf16_n, bindings wrwr, 24 parameter bytes
struct P {
    count0: u32,
    count1: u32,
    stop0: u32,
    stop1: u32,
    s_w0: f32,
    s_w1: f32,
}
@group(0) @binding(0) var<storage, read_write> b0_a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b0_b: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> b1_a: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> b1_b: array<vec2<u32>>;

struct R {
    out0: f32,
}

fn op(a: f32, b: f32, w: f32) -> R {
    let out0 = (a + ((b - a) * w));
    return R(out0);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
    @builtin(num_workgroups) nwg: vec3<u32>,
) {
    let wg = wid.x + wid.y * nwg.x;
    // Which tensor of the list this workgroup has, its first workgroup, and how much there is.
    var slot = 0u;
    var start = 0u;
    var count = p.count0;
    if (wg >= p.stop0) {
        slot = 1u;
        start = p.stop0;
        count = p.count1;
    }
    let first = ((wg - start) * 64u + lid) * 4u;
    for (var g = first; g < min(first + 4u, count); g++) {
        var in_a: vec4<f32>;
        var in_b: vec4<f32>;
        var in_w: vec4<f32>;
        switch (slot) {
case 0u: {
                {
                let got = b0_a[g];
                    in_a = vec4<f32>(got.x, got.y, got.z, got.w);
                }
                {
                let got_w = b0_b[g];
                let got = bitcast<vec4<f32>>(vec4<u32>(got_w.x << 16u, got_w.x & 0xffff0000u, got_w.y << 16u, got_w.y & 0xffff0000u));
                    in_b = vec4<f32>(got.x, got.y, got.z, got.w);
                }
                in_w = vec4<f32>(p.s_w0);
            }
default: {
                {
                let got = b1_a[g];
                    in_a = vec4<f32>(got.x, got.y, got.z, got.w);
                }
                {
                let got_w = b1_b[g];
                let got = bitcast<vec4<f32>>(vec4<u32>(got_w.x << 16u, got_w.x & 0xffff0000u, got_w.y << 16u, got_w.y & 0xffff0000u));
                    in_b = vec4<f32>(got.x, got.y, got.z, got.w);
                }
                in_w = vec4<f32>(p.s_w1);
            }
        }
// One copy of the operator, whatever the slot: only loads and stores are the slots' own.
        let y0 = op(in_a.x, in_b.x, in_w.x);
        let y1 = op(in_a.y, in_b.y, in_w.y);
        let y2 = op(in_a.z, in_b.z, in_w.z);
        let y3 = op(in_a.w, in_b.w, in_w.w);
        switch (slot) {
case 0u: {
                b0_a[g] = vec4<f32>(y0.out0, y1.out0, y2.out0, y3.out0);
            }
default: {
                b1_a[g] = vec4<f32>(y0.out0, y1.out0, y2.out0, y3.out0);
            }
        }
}
}
