// where_bl_f32e_f32c_f32e2, bindings rrrw, 40 parameter bytes
struct P {
    n: u32,
    d0: u32,
    a_o: u32,
    b_o: u32,
    b_s0: u32,
    b_s1: u32,
    c_o: u32,
    out0_o: u32,
    out0_s0: u32,
    out0_s1: u32,
}
@group(0) @binding(0) var<storage, read> b_a: array<u32>;
@group(0) @binding(1) var<storage, read> b_b: array<f32>;
@group(0) @binding(2) var<storage, read> b_c: array<f32>;
@group(0) @binding(3) var<storage, read_write> b_out0: array<f32>;

fn op(a: bool, b: f32, c: f32) -> f32 {
    let out0 = select(c, b, a);
    return out0;
}

@compute @workgroup_size(512)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
    @builtin(num_workgroups) nwg: vec3<u32>,
) {
    let wg = wid.x + wid.y * nwg.x;
    let g = wg * 512u + lid;
    if (g >= (p.n + 3u) / 4u) {
        return;
    }
    var r0 = min(g * 4u + 0u, p.n - 1u);
    let c00 = r0 % p.d0;
    r0 = r0 / p.d0;
    let c10 = r0;
    var r1 = min(g * 4u + 1u, p.n - 1u);
    let c01 = r1 % p.d0;
    r1 = r1 / p.d0;
    let c11 = r1;
    var r2 = min(g * 4u + 2u, p.n - 1u);
    let c02 = r2 % p.d0;
    r2 = r2 / p.d0;
    let c12 = r2;
    var r3 = min(g * 4u + 3u, p.n - 1u);
    let c03 = r3 % p.d0;
    r3 = r3 / p.d0;
    let c13 = r3;
    let av_w = b_a[g + p.a_o];
    let av = (vec4<u32>(av_w, av_w >> 8u, av_w >> 16u, av_w >> 24u) & vec4<u32>(255u)) != vec4<u32>(0u);
    let bi0 = p.b_o + c00 * p.b_s0 + c10 * p.b_s1;
    let bv0 = b_b[bi0];
    let bi1 = p.b_o + c01 * p.b_s0 + c11 * p.b_s1;
    let bv1 = b_b[bi1];
    let bi2 = p.b_o + c02 * p.b_s0 + c12 * p.b_s1;
    let bv2 = b_b[bi2];
    let bi3 = p.b_o + c03 * p.b_s0 + c13 * p.b_s1;
    let bv3 = b_b[bi3];
    let ci = p.c_o;
    let cv = b_c[ci];
    let y0 = op(av.x, bv0, cv);
    let y1 = op(av.y, bv1, cv);
    let y2 = op(av.z, bv2, cv);
    let y3 = op(av.w, bv3, cv);
    let out0i0 = p.out0_o + c00 * p.out0_s0 + c10 * p.out0_s1;
    let out0w0 = y0;
    if (g * 4u + 0u < p.n) { b_out0[out0i0] = out0w0; }
    let out0i1 = p.out0_o + c01 * p.out0_s0 + c11 * p.out0_s1;
    let out0w1 = y1;
    if (g * 4u + 1u < p.n) { b_out0[out0i1] = out0w1; }
    let out0i2 = p.out0_o + c02 * p.out0_s0 + c12 * p.out0_s1;
    let out0w2 = y2;
    if (g * 4u + 2u < p.n) { b_out0[out0i2] = out0w2; }
    let out0i3 = p.out0_o + c03 * p.out0_s0 + c13 * p.out0_s1;
    let out0w3 = y3;
    if (g * 4u + 3u < p.n) { b_out0[out0i3] = out0w3; }
}
