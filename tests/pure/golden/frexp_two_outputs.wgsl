// frexp_f32l_f32l_i32l1, bindings rww, 20 parameter bytes
fn f32_frexp_exponent(x: f32) -> i32 {
  let u = bitcast<u32>(x) & 0x7fffffffu;
  let e = i32(u >> 23u) - 126;
  let low = i32(firstLeadingBit(u)) - 148;
  return select(select(e, low, u < 0x00800000u), 0, u == 0u || u >= 0x7f800000u);
}
fn f32_frexp_mantissa(x: f32) -> f32 {
  let u = bitcast<u32>(x);
  let a = u & 0x7fffffffu;
  let shift = 23u - min(firstLeadingBit(a | 1u), 23u);
  let m = (u & 0x80000000u) | 0x3f000000u | ((a << shift) & 0x007fffffu);
  return select(bitcast<f32>(m), x, a == 0u || a >= 0x7f800000u);
}
struct P {
    n: u32,
    turn: u32,
    a_o: u32,
    out0_o: u32,
    out1_o: u32,
}
@group(0) @binding(0) var<storage, read> b_a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> b_out0: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> b_out1: array<vec4<i32>>;
struct R {
    out0: f32,
    out1: i32,
}

fn op(a: f32) -> R {
    let out0 = f32_frexp_mantissa(a);
    let out1 = f32_frexp_exponent(a);
    return R(out0, out1);
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
    let y0 = op(av.x);
    let y1 = op(av.y);
    let y2 = op(av.z);
    let y3 = op(av.w);
    let out0w0 = y0.out0;
    let out0w1 = y1.out0;
    let out0w2 = y2.out0;
    let out0w3 = y3.out0;
    b_out0[g + p.out0_o] = vec4<f32>(out0w0, out0w1, out0w2, out0w3);
    let out1w0 = y0.out1;
    let out1w1 = y1.out1;
    let out1w2 = y2.out1;
    let out1w3 = y3.out1;
    b_out1[g + p.out1_o] = vec4<i32>(out1w0, out1w1, out1w2, out1w3);
}
