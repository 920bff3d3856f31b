// lt_f32l_bl1, bindings rw, 16 parameter bytes
fn f32_isnan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
fn f32_lt(a: f32, b: f32) -> bool {
  return a < b && !f32_isnan(a) && !f32_isnan(b);
}
struct P {
    n: u32,
    a_o: u32,
    out0_o: u32,
    s_b: f32,
}
@group(0) @binding(0) var<storage, read> b_a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> b_out0: array<u32>;

fn op(a: f32) -> bool {
    let out0 = f32_lt(a, p.s_b);
    return out0;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
    @builtin(num_workgroups) nwg: vec3<u32>,
) {
    let wg = wid.x + wid.y * nwg.x;
    for (var u = 0u; u < 4u; u++) {
    let g = (wg * 64u + lid) * 4u + u;
    if (g >= (p.n + 3u) / 4u) {
        return;
    }
    let av = b_a[g + p.a_o];
    let y0 = op(av.x);
    let y1 = op(av.y);
    let y2 = op(av.z);
    let y3 = op(av.w);
    let out0w0 = y0;
    let out0w1 = y1;
    let out0w2 = y2;
    let out0w3 = y3;
    b_out0[g + p.out0_o] = u32(out0w0) | (u32(out0w1) << 8u) | (u32(out0w2) << 16u) | (u32(out0w3) << 24u);
    }
}
