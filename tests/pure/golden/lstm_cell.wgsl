// lstm_f16_4_2, bindings rrrrww, 32 parameter bytes
fn f16_bits(x: f32) -> u32 {
    let u = bitcast<u32>(x);
    let sign = (u >> 16u) & 0x8000u;
    let m = u & 0x7fffffffu;
    let normal = (m - 0x38000000u + 0xfffu + ((m >> 13u) & 1u)) >> 13u;
    let tiny = bitcast<u32>(bitcast<f32>(m) + 0.5) - 0x3f000000u;
    var r = select(normal, tiny, m < 0x38800000u);
    r = select(r, 0x7c00u, m >= 0x477ff000u);
    r = select(r, 0x7e00u, m > 0x7f800000u);
    return sign | r;
}
fn f32_copysign(x: f32, s: f32) -> f32 {
  let magnitude = bitcast<u32>(x) & 0x7fffffffu;
  return bitcast<f32>(select(magnitude, magnitude | 0x80000000u, bitcast<i32>(s) < 0));
}
fn f32_exp(x: f32) -> f32 {
  return f32_exp_scaled(x, 0);
}
fn f32_exp2i(n: i32) -> f32 {
  return bitcast<f32>((n + 127) << 23u);
}
fn f32_exp_poly(r: f32) -> f32 {
  let q = (((1.39422145e-3 * r + 8.36884882e-3) * r + 4.16663848e-2) * r + 1.66665196e-1) * r + 0.5;
  return (q * r) * r + r + 1.0;
}
fn f32_exp_rest(x: f32, n: f32) -> f32 {
  return fma(n, 2.12194440e-4, fma(-n, 0.693359375, x));
}
fn f32_exp_scaled(x: f32, k: i32) -> f32 {
  let c = clamp(x, -130.0, 110.0);
  let f = round(c * 1.44269504);
  let n = i32(f) + k;
  let h = n >> 1u;
  let r = f32_raised(f32_exp_poly(f32_exp_rest(c, f)), h) * f32_exp2i(n - h);
  return select(r, x, f32_isnan(x));
}
fn f32_expm1_poly(r: f32) -> f32 {
  let q = ((((1.99442374e-4 * r + 1.39327091e-3) * r + 8.33320804e-3) * r + 4.16664891e-2) * r + 1.66666672e-1) * r + 0.5;
  return (q * r) * r + r;
}
fn f32_isnan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
fn f32_raised(x: f32, n: i32) -> f32 {
  return bitcast<f32>(bitcast<i32>(x) + (n << 23u));
}
fn f32_sigmoid(x: f32) -> f32 {
  return 1.0 / (1.0 + f32_exp(-x));
}
fn f32_tanh(x: f32) -> f32 {
  let c = min(abs(x), 10.0) * 2.0;
  let n = round(c * 1.44269504);
  let t = f32_exp2i(i32(n));
  let p = f32_expm1_poly(f32_exp_rest(c, n));
  let e = select(p * t + (t - 1.0), p, n == 0.0);
  let r = f32_copysign(min(e / (e + 2.0), 1.0), x);
  return select(r, x, f32_isnan(x) || abs(x) < 1e-4);
}
struct P {
    n: u32,
    width: u32,
    ig_o: u32,
    hg_o: u32,
    cx_o: u32,
    hb_o: u32,
    hy_o: u32,
    cy_o: u32,
}
@group(0) @binding(0) var<storage, read> ig: array<u32>;
@group(0) @binding(1) var<storage, read> hg: array<u32>;
@group(0) @binding(2) var<storage, read> cx: array<u32>;
@group(0) @binding(3) var<storage, read> hb: array<u32>;
@group(0) @binding(4) var<storage, read_write> hy: array<atomic<u32>>;
@group(0) @binding(5) var<storage, read_write> cy: array<atomic<u32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let i = gid.x + gid.y * nwg.x * 64u;
    if (i >= p.n) {
        return;
    }
    let row = i / p.width;
    let h = i % p.width;
    let a0 = f32_sigmoid(unpack2x16float(ig[(p.ig_o + (row * 4u + 0u) * p.width + h) / 2u] >> (((p.ig_o + (row * 4u + 0u) * p.width + h) % 2u) * 16u)).x + unpack2x16float(hg[(p.hg_o + (row * 4u + 0u) * p.width + h) / 2u] >> (((p.hg_o + (row * 4u + 0u) * p.width + h) % 2u) * 16u)).x + 0.0 + unpack2x16float(hb[(p.hb_o + 0u * p.width + h) / 2u] >> (((p.hb_o + 0u * p.width + h) % 2u) * 16u)).x);
    let a1 = f32_sigmoid(unpack2x16float(ig[(p.ig_o + (row * 4u + 1u) * p.width + h) / 2u] >> (((p.ig_o + (row * 4u + 1u) * p.width + h) % 2u) * 16u)).x + unpack2x16float(hg[(p.hg_o + (row * 4u + 1u) * p.width + h) / 2u] >> (((p.hg_o + (row * 4u + 1u) * p.width + h) % 2u) * 16u)).x + 0.0 + unpack2x16float(hb[(p.hb_o + 1u * p.width + h) / 2u] >> (((p.hb_o + 1u * p.width + h) % 2u) * 16u)).x);
    let a2 = f32_tanh(unpack2x16float(ig[(p.ig_o + (row * 4u + 2u) * p.width + h) / 2u] >> (((p.ig_o + (row * 4u + 2u) * p.width + h) % 2u) * 16u)).x + unpack2x16float(hg[(p.hg_o + (row * 4u + 2u) * p.width + h) / 2u] >> (((p.hg_o + (row * 4u + 2u) * p.width + h) % 2u) * 16u)).x + 0.0 + unpack2x16float(hb[(p.hb_o + 2u * p.width + h) / 2u] >> (((p.hb_o + 2u * p.width + h) % 2u) * 16u)).x);
    let a3 = f32_sigmoid(unpack2x16float(ig[(p.ig_o + (row * 4u + 3u) * p.width + h) / 2u] >> (((p.ig_o + (row * 4u + 3u) * p.width + h) % 2u) * 16u)).x + unpack2x16float(hg[(p.hg_o + (row * 4u + 3u) * p.width + h) / 2u] >> (((p.hg_o + (row * 4u + 3u) * p.width + h) % 2u) * 16u)).x + 0.0 + unpack2x16float(hb[(p.hb_o + 3u * p.width + h) / 2u] >> (((p.hb_o + 3u * p.width + h) % 2u) * 16u)).x);
    let c = a1 * unpack2x16float(cx[(p.cx_o + (row * 1u + 0u) * p.width + h) / 2u] >> (((p.cx_o + (row * 1u + 0u) * p.width + h) % 2u) * 16u)).x + a0 * a2;
    let y = a3 * f32_tanh(c);
    let cy_0 = c;
    atomicAnd(&cy[(p.cy_o + (row * 1u + 0u) * p.width + h) / 2u], ~(0xffffu << (((p.cy_o + (row * 1u + 0u) * p.width + h) % 2u) * 16u))); atomicOr(&cy[(p.cy_o + (row * 1u + 0u) * p.width + h) / 2u], f16_bits(cy_0) << (((p.cy_o + (row * 1u + 0u) * p.width + h) % 2u) * 16u));
    let hy_0 = y;
    atomicAnd(&hy[(p.hy_o + (row * 1u + 0u) * p.width + h) / 2u], ~(0xffffu << (((p.hy_o + (row * 1u + 0u) * p.width + h) % 2u) * 16u))); atomicOr(&hy[(p.hy_o + (row * 1u + 0u) * p.width + h) / 2u], f16_bits(hy_0) << (((p.hy_o + (row * 1u + 0u) * p.width + h) % 2u) * 16u));
}
