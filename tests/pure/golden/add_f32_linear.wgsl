// add_f32l_f32l_f32l1, bindings rrw, 24 parameter bytes
struct P {
    n: u32,
    turn: u32,
    a_o: u32,
    b_o: u32,
    out0_o: u32,
    s_alpha: f32,
}
@group(0) @binding(0) var<storage, read> b_a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b_b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> b_out0: array<vec4<f32>>;

fn op(a: f32, b: f32) -> f32 {
    let out0 = (a + (b * p.s_alpha));
    return out0;
}

@compute @workgroup_size(512)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
    @builtin(num_workgroups) nwg: vec3<u32>,
) {
    let wg = u32(abs(i32(wid.x + wid.y * nwg.x) - i32(p.turn)));
    let g = wg * 512u + lid;
    if (g >= (p.n + 3u) / 4u) {
        return;
    }
    let av = b_a[g + p.a_o];
    let bv = b_b[g + p.b_o];
    let y0 = op(av.x, bv.x);
    let y1 = op(av.y, bv.y);
    let y2 = op(av.z, bv.z);
    let y3 = op(av.w, bv.w);
    let out0w0 = y0;
    let out0w1 = y1;
    let out0w2 = y2;
    let out0w3 = y3;
    b_out0[g + p.out0_o] = vec4<f32>(out0w0, out0w1, out0w2, out0w3);
}
