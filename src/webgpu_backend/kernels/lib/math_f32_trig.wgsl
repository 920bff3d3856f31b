// Sines, cosines and their inverses in f32, circular and hyperbolic: see math_f32.wgsl.

const F32_TWO_OVER_PI = array<u32, 8>(0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0x7f9458eau, 0xf7aef158u);

fn f32_mulhi(a: u32, b: u32) -> u32 {
  let al = a & 0xffffu;
  let ah = a >> 16u;
  let bl = b & 0xffffu;
  let bh = b >> 16u;
  let m = ah * bl + ((al * bl) >> 16u);
  return ah * bh + (m >> 16u) + ((al * bh + (m & 0xffffu)) >> 16u);
}

// x = q pi/2 + r for |x| >= 2^13 by multiplying with the digits of 2/pi that matter. Returns (r, q mod 4).
fn f32_trig_reduce_large(x: f32) -> vec2<f32> {
  let u = bitcast<u32>(x);
  let m = (u << 8u) | 0x80000000u;
  let e = ((u >> 23u) & 0xffu) - 126u;
  let i = min(e >> 5u, 4u);
  let s = e & 31u;
  let w0 = F32_TWO_OVER_PI[max(i, 1u) - 1u];
  let w1 = F32_TWO_OVER_PI[i];
  let w2 = F32_TWO_OVER_PI[i + 1u];
  let w3 = F32_TWO_OVER_PI[i + 2u];
  let back = 31u - s;
  let hi = (select(w0, 0u, i == 0u) << s) | ((w1 >> 1u) >> back);
  let mid = (w1 << s) | ((w2 >> 1u) >> back);
  let lo = (w2 << s) | ((w3 >> 1u) >> back);
  let p0 = f32_mulhi(m, lo);
  let p1 = m * mid + p0;
  let carry = select(0u, 1u, p1 < p0);
  let p2 = m * hi + f32_mulhi(m, mid) + carry;
  let up = (p2 >> 29u) & 1u;
  let q = (p2 >> 30u) + up;
  let f1 = (p2 << 2u) | (p1 >> 30u);
  let f0 = p1 << 2u;
  let n1 = select(f1, ~f1 + select(0u, 1u, f0 == 0u), up == 1u);
  let n0 = select(f0, 0u - f0, up == 1u);
  let z = min(countLeadingZeros(n1), 31u);
  let top = (n1 << z) | ((n0 >> 1u) >> (31u - z));
  let r = f32(top >> 8u) * 1.57079633 * f32_exp2i(-24 - i32(z));
  let flip = (up == 1u) != (x < 0.0);
  return vec2<f32>(select(r, -r, flip), f32(select(q, 4u - (q & 3u), x < 0.0) & 3u));
}

// x = q pi/2 + r with |r| <= pi/4. Returns (r, q mod 4). pi/2 is cut into pieces whose products with q are exact.
fn f32_trig_reduce(x: f32) -> vec2<f32> {
  let q = round(x * 0.636619772);
  let near = fma(q, -4.837512969970703e-4, fma(-q, 1.5703125, x));
  let r = fma(q, -2.56334415e-12, fma(-q, 7.549533620476723e-8, near));
  var v = vec2<f32>(r, f32(i32(clamp(q, -8192.0, 8192.0)) & 3));
  if (abs(x) >= 8192.0) {
    v = f32_trig_reduce_large(x);
  }
  return v;
}

fn f32_sin_poly(r: f32) -> f32 {
  let z = r * r;
  return (((2.83128270e-6 * z - 1.98530062e-4) * z + 8.33337940e-3) * z - 1.66666672e-1) * (z * r) + r;
}

fn f32_cos_poly(r: f32) -> f32 {
  let z = r * r;
  return ((2.44306703e-5 * z - 1.38873013e-3) * z + 4.16666456e-2) * (z * z) - 0.5 * z + 1.0;
}

fn f32_sin(x: f32) -> f32 {
  let v = f32_trig_reduce(x);
  let q = u32(v.y);
  let r = select(f32_sin_poly(v.x), f32_cos_poly(v.x), (q & 1u) == 1u);
  let s = bitcast<f32>(bitcast<u32>(r) ^ ((q & 2u) << 30u));
  return select(select(s, x, abs(x) < 1e-4), f32_nan(), !f32_isfinite(x));
}

fn f32_cos(x: f32) -> f32 {
  let v = f32_trig_reduce(x);
  let q = u32(v.y);
  let r = select(f32_cos_poly(v.x), f32_sin_poly(v.x), (q & 1u) == 1u);
  let s = bitcast<f32>(bitcast<u32>(r) ^ (((q + 1u) & 2u) << 30u));
  return select(s, f32_nan(), !f32_isfinite(x));
}

fn f32_tan(x: f32) -> f32 {
  let v = f32_trig_reduce(x);
  let z = v.x * v.x;
  let p = (((((4.46246611e-3 * z - 8.55471954e-5) * z + 1.09741446e-2) * z + 2.12288219e-2) * z + 5.40702045e-2) * z + 1.33325741e-1) * z + 3.33333522e-1;
  let t = p * (z * v.x) + v.x;
  let r = select(t, -1.0 / t, (u32(v.y) & 1u) == 1u);
  return select(select(r, x, abs(x) < 1e-4), f32_nan(), !f32_isfinite(x));
}

// asin(r) for r in [0, 1/2], z = r^2.
fn f32_asin_poly(r: f32, z: f32) -> f32 {
  return ((((4.22198214e-2 * z + 2.41481233e-2) * z + 4.54766601e-2) * z + 7.49524906e-2) * z + 1.66667536e-1) * (z * r) + r;
}

fn f32_asin(x: f32) -> f32 {
  let a = abs(x);
  let big = a > 0.5;
  let z = select(a * a, 0.5 - 0.5 * a, big);
  let p = f32_asin_poly(select(a, sqrt(z), big), z);
  let r = f32_copysign(select(p, 1.57079633 - 2.0 * p, big), x);
  return select(select(r, f32_nan(), f32_isnan(x) || a > 1.0), x, a < 1e-4);
}

// pi/2 and pi as two floats: near the ends the low part is worth half an ulp.
fn f32_acos(x: f32) -> f32 {
  let a = abs(x);
  let big = a > 0.5;
  let z = select(a * a, 0.5 - 0.5 * a, big);
  let p = f32_asin_poly(select(a, sqrt(z), big), z);
  let middle = 1.57079637 - (f32_copysign(p, x) + 4.37113883e-8);
  let ends = select(2.0 * p, 3.14159274 - (2.0 * p + 8.74227766e-8), x < 0.0);
  return select(select(middle, ends, big), f32_nan(), f32_isnan(x) || a > 1.0);
}

// atan(t) for t in [0, 1].
fn f32_atan_poly(t: f32) -> f32 {
  let z = t * t;
  let p = (((((((-1.78226177e-3 * z + 1.08666476e-2) * z - 3.10939979e-2) * z + 5.78791425e-2) * z - 8.39921534e-2) * z + 1.09508619e-1) * z - 1.42640144e-1) * z + 1.99985296e-1) * z - 3.33332986e-1;
  return select(p * (z * t) + t, 0.785398185, t == 1.0);  // a quarter of pi is exact, also for two infinities
}

fn f32_atan(x: f32) -> f32 {
  let a = abs(x);
  let big = a > 1.0;
  let p = f32_atan_poly(select(a, 1.0 / a, big));
  let r = f32_copysign(select(p, 1.57079637 - (p + 4.37113883e-8), big), x);
  return select(r, x, f32_isnan(x) || a < 1e-4);
}

fn f32_atan2(y: f32, x: f32) -> f32 {
  let ax = abs(x);
  let ay = abs(y);
  let steep = ay > ax;
  let hi = select(ax, ay, steep);
  let lo = select(ay, ax, steep);
  let scale = select(select(1.0, 1.6777216e7, hi < 1e-30), 5.9604645e-8, hi > 1e30);
  let t = (lo * scale) / (hi * scale);
  let both = f32_isinf(lo);
  let q = select(select(t, 1.0, both), 0.0, hi == 0.0 || (f32_isinf(hi) && !both));
  let p = f32_atan_poly(q);
  let first = select(p, 1.57079637 - (p + 4.37113883e-8), steep);
  let r = select(first, 3.14159274 - (first + 8.74227766e-8), f32_signbit(x));
  return select(f32_copysign(r, y), f32_nan(), f32_isnan(x) || f32_isnan(y));
}

fn f32_cosh(x: f32) -> f32 {
  let h = f32_exp_scaled(abs(x), -1);
  return h + 0.25 / h;
}

fn f32_sinh(x: f32) -> f32 {
  let a = abs(x);
  let z = a * a;
  let h = f32_exp_scaled(a, -1);
  let p = (((2.78392580e-6 * z + 1.98426351e-4) * z + 8.33331142e-3) * z + 1.66666672e-1) * (z * a) + a;
  let r = f32_copysign(select(h - 0.25 / h, p, a < 1.0), x);
  return select(r, x, f32_isnan(x) || a < 1e-4);
}

fn f32_asinh(x: f32) -> f32 {
  let a = abs(x);
  let huge = a > 1e10;
  let c = select(a, 1.0, huge);
  let small = f32_log1p(c + c * c / (1.0 + sqrt(c * c + 1.0)));
  let r = select(small, f32_log(a) + 0.693147181, huge);
  return select(f32_copysign(r, x), x, f32_isnan(x) || a < 1e-4);
}

fn f32_acosh(x: f32) -> f32 {
  let huge = x > 1e10;
  let t = select(x, 2.0, huge) - 1.0;
  let r = select(f32_log1p(t + sqrt(t * t + 2.0 * t)), f32_log(x) + 0.693147181, huge);
  return select(select(r, f32_nan(), x < 1.0), x, f32_isnan(x));
}

fn f32_atanh(x: f32) -> f32 {
  let a = abs(x);
  let r = f32_copysign(0.5 * f32_log1p(2.0 * a / (1.0 - a)), x);
  let edge = select(r, f32_copysign(f32_inf(), x), bitcast<u32>(a) == 0x3f800000u);
  return select(select(edge, f32_nan(), a > 1.0), x, f32_isnan(x) || a < 1e-4);
}

// (r, quadrant) with x = (q + r') / 2 and r = pi r' / 2: exact for every x, unlike a reduction of pi x.
fn f32_pi_reduce(x: f32) -> vec2<f32> {
  let q = round(x * 2.0);
  return vec2<f32>((x - 0.5 * q) * 3.14159265, q - 4.0 * floor(q * 0.25));
}

fn f32_sinpi(x: f32) -> f32 {
  let v = f32_pi_reduce(x);
  let q = u32(v.y);
  let r = select(f32_sin_poly(v.x), f32_cos_poly(v.x), (q & 1u) == 1u);
  return bitcast<f32>(bitcast<u32>(r) ^ ((q & 2u) << 30u));
}

fn f32_cospi(x: f32) -> f32 {
  let v = f32_pi_reduce(x);
  let q = u32(v.y);
  let r = select(f32_cos_poly(v.x), f32_sin_poly(v.x), (q & 1u) == 1u);
  return bitcast<f32>(bitcast<u32>(r) ^ (((q + 1u) & 2u) << 30u));
}

// (sin x, cos x) with one reduction.
fn f32_sincos(x: f32) -> vec2<f32> {
  let v = f32_trig_reduce(x);
  let q = u32(v.y);
  let a = f32_sin_poly(v.x);
  let b = f32_cos_poly(v.x);
  let s = bitcast<u32>(select(a, b, (q & 1u) == 1u)) ^ ((q & 2u) << 30u);
  let c = bitcast<u32>(select(b, a, (q & 1u) == 1u)) ^ (((q + 1u) & 2u) << 30u);
  return select(vec2<f32>(bitcast<f32>(s), bitcast<f32>(c)), vec2<f32>(f32_nan()), !f32_isfinite(x));
}
