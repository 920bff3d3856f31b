// f32 maths that gives the same answer on every driver. Built-in exp, log, tanh, sin, pow, %, min, max and != are wrong by
// thousands of ulp or for NaN on some of them, so only + - * / sqrt, rounding, bit operations and integers are used here.
// Compilers may contract a*b+c, factor sums and cancel (a+b)-a: where an exact remainder is needed the high part goes
// through a bit mask, which they can't see through.

const F32_TWO_OVER_PI = array<u32, 8>(0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0x7f9458eau, 0xf7aef158u);

fn f32_isnan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn f32_isinf(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}

fn f32_isfinite(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u;
}

fn f32_signbit(x: f32) -> bool {
  return (bitcast<u32>(x) >> 31u) != 0u;
}

// A `var` is not a constant expression: browsers refuse a bitcast that they can evaluate to NaN or inf.
fn f32_nan() -> f32 {
  var bits = 0x7fc00000u;
  return bitcast<f32>(bits);
}

fn f32_inf() -> f32 {
  var bits = 0x7f800000u;
  return bitcast<f32>(bits);
}

fn f32_eq(a: f32, b: f32) -> bool {
  return a == b && !f32_isnan(a) && !f32_isnan(b);
}

fn f32_ne(a: f32, b: f32) -> bool {
  return !f32_eq(a, b);
}

fn f32_lt(a: f32, b: f32) -> bool {
  return a < b && !f32_isnan(a) && !f32_isnan(b);
}

fn f32_le(a: f32, b: f32) -> bool {
  return a <= b && !f32_isnan(a) && !f32_isnan(b);
}

fn f32_gt(a: f32, b: f32) -> bool {
  return f32_lt(b, a);
}

fn f32_ge(a: f32, b: f32) -> bool {
  return f32_le(b, a);
}

fn f32_min(a: f32, b: f32) -> f32 {
  return select(select(select(b, a, a < b), a, f32_isnan(a)), b, f32_isnan(b));
}

fn f32_max(a: f32, b: f32) -> f32 {
  return select(select(select(b, a, a > b), a, f32_isnan(a)), b, f32_isnan(b));
}

fn f32_fmin(a: f32, b: f32) -> f32 {
  return select(select(select(b, a, a <= b), b, f32_isnan(a)), a, f32_isnan(b));
}

fn f32_fmax(a: f32, b: f32) -> f32 {
  return select(select(select(b, a, a >= b), b, f32_isnan(a)), a, f32_isnan(b));
}

fn f32_sign(x: f32) -> f32 {
  return select(0.0, 1.0, f32_gt(x, 0.0)) - select(0.0, 1.0, f32_lt(x, 0.0));
}

fn f32_sgn(x: f32) -> f32 {
  return f32_sign(x);
}

fn f32_copysign(x: f32, s: f32) -> f32 {
  return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(s) & 0x80000000u));
}

fn f32_trunc(x: f32) -> f32 {
  return trunc(x);
}

fn f32_round(x: f32) -> f32 {
  return round(x);
}

fn f32_floor(x: f32) -> f32 {
  return floor(x);
}

fn f32_ceil(x: f32) -> f32 {
  return ceil(x);
}

fn f32_frac(x: f32) -> f32 {
  return select(x - trunc(x), f32_nan(), !f32_isfinite(x));
}

fn f32_sqrt(x: f32) -> f32 {
  return sqrt(x);
}

fn f32_rsqrt(x: f32) -> f32 {
  return 1.0 / sqrt(x);
}

fn f32_nextafter(a: f32, b: f32) -> f32 {
  let u = bitcast<i32>(a);
  let away = (a < b) == (u >= 0);
  let step = bitcast<f32>(u + select(-1, 1, away));
  let tiny = bitcast<f32>(1u | (bitcast<u32>(b) & 0x80000000u));
  let r = select(select(step, tiny, (u & 0x7fffffff) == 0), b, a == b);
  return select(r, f32_nan(), f32_isnan(a) || f32_isnan(b));
}

// 2^n for n in [-126, 127].
fn f32_exp2i(n: i32) -> f32 {
  return bitcast<f32>((n + 127) << 23u);
}

// x * 2^n. Three factors, so that n may cross the whole range; at most one of them rounds.
fn f32_ldexp(x: f32, n: i32) -> f32 {
  let c = clamp(n, -300, 300);
  let a = clamp(c, -100, 100);
  let b = clamp(c - a, -100, 100);
  return x * f32_exp2i(a) * f32_exp2i(b) * f32_exp2i(c - a - b);
}

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

// e^r for |r| <= ln(2)/2, to 2^-28.
fn f32_exp_poly(r: f32) -> f32 {
  let q = (((1.39422145e-3 * r + 8.36884882e-3) * r + 4.16663848e-2) * r + 1.66665196e-1) * r + 0.5;
  return (q * r) * r + r + 1.0;
}

// x - n ln(2) for n = round(x / ln 2); the high part of ln(2) has few bits, so its product with n is exact.
fn f32_exp_rest(x: f32, n: f32) -> f32 {
  return (x - n * 0.693359375) + n * 2.12194440e-4;
}

// e^x for |x| < 87, without the care that the ends need.
fn f32_exp_bounded(x: f32) -> f32 {
  let n = round(x * 1.44269504);
  return f32_exp_poly(f32_exp_rest(x, n)) * f32_exp2i(i32(n));
}

// e^x * 2^k, with one rounding where the result is denormal. The built-in clamp may lose a NaN: it is put back at the end.
fn f32_exp_scaled(x: f32, k: i32) -> f32 {
  let c = clamp(x, -106.0, 91.0);
  let f = round(c * 1.44269504);
  let n = i32(f) + k;
  let h = n >> 1u;
  let r = f32_exp_poly(f32_exp_rest(c, f)) * f32_exp2i(h) * f32_exp2i(n - h);
  return select(r, x, f32_isnan(x));
}

fn f32_exp(x: f32) -> f32 {
  return f32_exp_scaled(x, 0);
}

// 2^r for |r| <= 1/2.
fn f32_exp2_poly(r: f32) -> f32 {
  return (((((1.54633025e-4 * r + 1.33912021e-3) * r + 9.61806160e-3) * r + 5.55035919e-2) * r + 2.40226507e-1) * r + 6.93147182e-1) * r + 1.0;
}

fn f32_exp2(x: f32) -> f32 {
  let c = clamp(x, -152.0, 130.0);
  let f = round(c);
  let n = i32(f);
  let h = n >> 1u;
  let r = f32_exp2_poly(c - f) * f32_exp2i(h) * f32_exp2i(n - h);
  return select(r, x, f32_isnan(x));
}

// e^r - 1 for |r| <= ln(2)/2.
fn f32_expm1_poly(r: f32) -> f32 {
  let q = ((((1.99442374e-4 * r + 1.39327091e-3) * r + 8.33320804e-3) * r + 4.16664891e-2) * r + 1.66666672e-1) * r + 0.5;
  return (q * r) * r + r;
}

// Computed as half the result, so that 2^128 is never needed.
fn f32_expm1(x: f32) -> f32 {
  let c = clamp(x, -30.0, 89.0);
  let n = round(c * 1.44269504);
  let t = f32_exp2i(i32(n) - 1);
  let r = (f32_expm1_poly(f32_exp_rest(c, n)) * t + (t - 0.5)) * 2.0;
  return select(r, x, f32_isnan(x) || abs(x) < 1e-9);
}

// log(1 + f) + e ln(2) for f in [sqrt(1/2) - 1, sqrt(2) - 1].
fn f32_log_poly(f: f32, e: f32) -> f32 {
  let p = ((((((-7.63644055e-2 * f + 1.27622217e-1) * f - 1.31596118e-1) * f + 1.42015800e-1) * f - 1.66234091e-1) * f + 2.00012416e-1) * f - 2.50008196e-1) * f + 3.33333313e-1;
  let z = f * f;
  return ((p * f) * z + e * -2.12194440e-4 - 0.5 * z) + f + e * 0.693359375;
}

// Bits of |x| less those of sqrt(1/2): the exponent of x relative to [sqrt(1/2), sqrt(2)) in the upper bits.
fn f32_log_exponent(x: f32) -> i32 {
  return (bitcast<i32>(x) - 0x3f3504f3) >> 23u;
}

fn f32_log_special(r: f32, x: f32) -> f32 {
  let low = select(r, f32_nan(), x < 0.0);
  let zero = select(low, -f32_inf(), x == 0.0);
  return select(zero, x, (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u || bitcast<u32>(x) == 0x7f800000u);
}

fn f32_log(x: f32) -> f32 {
  let tiny = x < 1.17549435e-38;
  let v = select(x, x * 8388608.0, tiny);
  let e = f32_log_exponent(v);
  let m = bitcast<f32>(bitcast<i32>(v) - (e << 23u));
  return f32_log_special(f32_log_poly(m - 1.0, f32(e) - select(0.0, 23.0, tiny)), x);
}

// log(m) / ln(b) + e * log_b(2) where c = 1/ln(b) - k for a short k: c's rounding error then does not show.
fn f32_log2(x: f32) -> f32 {
  let tiny = x < 1.17549435e-38;
  let v = select(x, x * 8388608.0, tiny);
  let e = f32_log_exponent(v);
  let f = bitcast<f32>(bitcast<i32>(v) - (e << 23u)) - 1.0;
  let p = ((((((-7.63644055e-2 * f + 1.27622217e-1) * f - 1.31596118e-1) * f + 1.42015800e-1) * f - 1.66234091e-1) * f + 2.00012416e-1) * f - 2.50008196e-1) * f + 3.33333313e-1;
  let z = f * f;
  let y = (p * f) * z - 0.5 * z;
  let r = ((y * 0.442695041 + f * 0.442695041) + y) + f + (f32(e) - select(0.0, 23.0, tiny));
  return f32_log_special(r, x);
}

fn f32_log10(x: f32) -> f32 {
  let tiny = x < 1.17549435e-38;
  let v = select(x, x * 8388608.0, tiny);
  let n = f32_log_exponent(v);
  let e = f32(n) - select(0.0, 23.0, tiny);
  let f = bitcast<f32>(bitcast<i32>(v) - (n << 23u)) - 1.0;
  let p = ((((((-7.63644055e-2 * f + 1.27622217e-1) * f - 1.31596118e-1) * f + 1.42015800e-1) * f - 1.66234091e-1) * f + 2.00012416e-1) * f - 2.50008196e-1) * f + 3.33333313e-1;
  let z = f * f;
  let y = (p * f) * z - 0.5 * z;
  let r = (((f * 7.00731903e-4 + y * 7.00731903e-4) + e * 2.48745663e-4) + y * 0.43359375) + f * 0.43359375 + e * 0.30078125;
  return f32_log_special(r, x);
}

// 1 + x = 2^e (1 + f), with f from x itself so that the digits which 1 + x rounds away are kept.
fn f32_log1p(x: f32) -> f32 {
  let e = f32_log_exponent(1.0 + x);
  let scaled = bitcast<f32>(bitcast<i32>(x) - (e << 23u));
  let f = scaled + (f32_exp2i(clamp(-e, -126, 127)) - 1.0);
  let r = select(f32_log_poly(f, f32(e)), x, abs(x) < 1e-9);
  let low = select(select(r, -f32_inf(), x == -1.0), f32_nan(), x < -1.0);
  return select(low, x, f32_isnan(x) || bitcast<u32>(x) == 0x7f800000u);
}

fn f32_sigmoid(x: f32) -> f32 {
  return 1.0 / (1.0 + f32_exp(-x));
}

// expm1(2a) / (expm1(2a) + 2): one path for all |x|.
fn f32_tanh(x: f32) -> f32 {
  let c = min(abs(x), 10.0) * 2.0;
  let n = round(c * 1.44269504);
  let t = f32_exp2i(i32(n));
  let e = f32_expm1_poly(f32_exp_rest(c, n)) * t + (t - 1.0);
  let r = bitcast<f32>(bitcast<u32>(e / (e + 2.0)) | (bitcast<u32>(x) & 0x80000000u));
  return select(r, x, f32_isnan(x) || abs(x) < 1e-4);
}

// Near 0 a polynomial, beyond it 1 - e^q(|x|), which is exact to rounding because e^q is then small.
fn f32_erf(x: f32) -> f32 {
  let t = min(abs(x), 4.0);
  let z = t * t;
  let q = (((((-1.12317695e-5 * t + 3.22812324e-4) * t - 3.64250573e-3) * t + 2.37621833e-2) * t - 1.06237039e-1) * t - 6.35151207e-1) * t - 1.12864852;
  let p = ((((-5.98021376e-4 * z + 4.99176187e-3) * z - 2.67662313e-2) * z + 1.12818271e-1) * z - 3.76124978e-1) * z + 1.28379151e-1;
  let r = select(p * t + t, 1.0 - f32_exp_bounded(q * t), t > 0.925);
  return select(f32_copysign(r, x), x, f32_isnan(x));
}

fn f32_gelu(x: f32) -> f32 {
  return 0.5 * x * (1.0 + f32_erf(x * 0.707106781));
}

fn f32_gelu_tanh(x: f32) -> f32 {
  return 0.5 * x * (1.0 + f32_tanh(0.797884561 * (x + 0.044715 * (x * x) * x)));
}

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
  let r = (((x - q * 1.5703125) - q * 4.837512969970703e-4) - q * 7.549533620476723e-8) - q * 2.56334415e-12;
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
  return select(select(r, f32_nan(), !(a <= 1.0)), x, a < 1e-4);
}

// pi/2 and pi as two floats: near the ends the low part is worth half an ulp.
fn f32_acos(x: f32) -> f32 {
  let a = abs(x);
  let big = a > 0.5;
  let z = select(a * a, 0.5 - 0.5 * a, big);
  let p = f32_asin_poly(select(a, sqrt(z), big), z);
  let middle = 1.57079637 - (f32_copysign(p, x) + 4.37113883e-8);
  let ends = select(2.0 * p, 3.14159274 - (2.0 * p + 8.74227766e-8), x < 0.0);
  return select(select(middle, ends, big), f32_nan(), !(a <= 1.0));
}

// atan(t) for t in [0, 1].
fn f32_atan_poly(t: f32) -> f32 {
  let z = t * t;
  let p = (((((((-1.78226177e-3 * z + 1.08666476e-2) * z - 3.10939979e-2) * z + 5.78791425e-2) * z - 8.39921534e-2) * z + 1.09508619e-1) * z - 1.42640144e-1) * z + 1.99985296e-1) * z - 3.33332986e-1;
  return p * (z * t) + t;
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
  let edge = select(r, f32_copysign(f32_inf(), x), a == 1.0);
  return select(select(edge, f32_nan(), a > 1.0), x, f32_isnan(x) || a < 1e-4);
}

// The first 12 bits of x: products of two such numbers are exact.
fn f32_head(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
}

// log2|x| as a sum of two floats, times y as two floats, then 2^: a single float would lose log2(y log2 x) bits.
// log2(m) = 2/(3 ln 2) s (3 + s^2 + ...) with s = (m - 1)/(m + 1); names ending in h have 12 bits, so their products are exact.
fn f32_pow(x: f32, y: f32) -> f32 {
  let ax = abs(x);
  let tiny = ax < 1.17549435e-38;
  let v = select(ax, ax * 8388608.0, tiny);
  let n = f32_log_exponent(v);
  let m = bitcast<f32>(bitcast<i32>(v) - (n << 23u));
  let e = f32(n) - select(0.0, 23.0, tiny);
  let f = m - 1.0;
  let d = m + 1.0;
  let dh = f32_head(d);
  let dl = m - (dh - 1.0);
  let s = f / d;
  let sh = f32_head(s);
  let sl = ((f - sh * dh) - sh * dl) / d;
  let z = s * s;
  let r5 = ((0.35129446 * z + 0.42820635) * z + 0.6000023) * (z * z) + sl * (sh + s);
  let zh = sh * sh;
  let th = f32_head(3.0 + zh + r5);
  let tl = r5 - ((th - 3.0) - zh);
  let u = sh * th;
  let w = sl * th + tl * s;
  let gh = f32_head(u + w);
  let gl = w - (gh - u);
  let main = gh * 0.961669921875;
  let rest = gh * 1.26772050976e-4 + gl * 0.961796693926;
  let lh = f32_head(e + main);
  let ll = ((e - lh) + main) + rest;
  let yc = clamp(y, -1e11, 1e11);
  let yh = f32_head(yc);
  let ph = yh * lh;
  let pl = (yc - yh) * lh + yc * ll;
  let t = ph + pl;
  let k = round(clamp(t, -160.0, 160.0));
  let ki = i32(k);
  let h = ki >> 1u;
  let power = f32_exp2_poly((ph - k) + pl) * f32_exp2i(h) * f32_exp2i(ki - h);
  let finite = select(select(power, f32_inf(), t > 129.0), 0.0, t < -151.0);

  let yinf = f32_isinf(y);
  let edge = ax == 0.0 || f32_isinf(x);
  let grows = (ax > 1.0) == (y > 0.0);
  var r = select(finite, select(0.0, f32_inf(), grows), edge || yinf);
  let integer = trunc(y) == y;
  let odd = integer && abs(y) < 16777216.0 && (i32(clamp(y, -2e7, 2e7)) & 1) != 0;
  r = select(r, -r, odd && f32_signbit(x));
  r = select(r, f32_nan(), (x < 0.0 && !edge && !integer) || f32_isnan(x) || f32_isnan(y));
  return select(r, 1.0, y == 0.0 || x == 1.0 || (ax == 1.0 && yinf));
}

// Exact long division on the mantissas, 8 bits a step: at most 35 steps.
fn f32_fmod(x: f32, y: f32) -> f32 {
  let ux = bitcast<u32>(x) & 0x7fffffffu;
  let uy = bitcast<u32>(y) & 0x7fffffffu;
  if (ux >= 0x7f800000u || uy > 0x7f800000u || uy == 0u) {
    return f32_nan();
  }
  if (ux < uy) {
    return x;
  }
  let my = select((uy & 0x007fffffu) | 0x00800000u, uy, uy < 0x00800000u);
  var m = select((ux & 0x007fffffu) | 0x00800000u, ux, ux < 0x00800000u);
  let ey = max(i32(uy >> 23u), 1);
  var d = max(i32(ux >> 23u), 1) - ey;
  m = m % my;
  while (d > 0) {
    let step = min(d, 8);
    m = (m << u32(step)) % my;
    d = d - step;
  }
  // m < my, so it is scaled back from the exponent of y, without rounding.
  let z = min(u32(ey - 1), 23u - min(firstLeadingBit(m | 1u), 23u));
  let scaled = m << z;
  let bits = select((scaled & 0x007fffffu) | (u32(ey - i32(z)) << 23u), scaled, scaled < 0x00800000u);
  return bitcast<f32>(bits | (bitcast<u32>(x) & 0x80000000u));
}

// Python's %, with the sign of the divisor.
fn f32_remainder(x: f32, y: f32) -> f32 {
  let r = f32_fmod(x, y);
  let wrong = (bitcast<u32>(r) & 0x7fffffffu) != 0u && (r < 0.0) != (y < 0.0);
  return select(r, select(r + y, r, f32_isnan(r)), wrong);
}

fn f32_floor_divide(x: f32, y: f32) -> f32 {
  let q = x / y;
  let r = f32_fmod(x, y);
  let wrong = (bitcast<u32>(r) & 0x7fffffffu) != 0u && (r < 0.0) != (y < 0.0);
  let d = (x - r) / y - select(0.0, 1.0, wrong);
  let low = floor(d);
  let f = select(low, low + 1.0, d - low > 0.5);
  let v = select(f, f32_copysign(0.0, q), d == 0.0);
  return select(select(v, f32_nan(), f32_isnan(r) || f32_isnan(d)), q, y == 0.0);
}

fn f32_hypot(a: f32, b: f32) -> f32 {
  let x = abs(a);
  let y = abs(b);
  let hi = select(y, x, x > y);
  let s = select(select(1.0, 1.23794004e27, hi < 1e-15), 8.07793567e-28, hi > 1e15);
  let u = x * s;
  let w = y * s;
  let r = sqrt(u * u + w * w) * (1.0 / s);
  let n = select(r, f32_nan(), f32_isnan(a) || f32_isnan(b));
  return select(n, f32_inf(), f32_isinf(a) || f32_isinf(b));
}

fn f32_logaddexp(a: f32, b: f32) -> f32 {
  let m = f32_max(a, b);
  return select(m + f32_log1p(f32_exp(-abs(a - b))), m, f32_isinf(m));
}

fn f32_logaddexp2(a: f32, b: f32) -> f32 {
  let m = f32_max(a, b);
  return select(m + f32_log1p(f32_exp2(-abs(a - b))) * 1.44269504, m, f32_isinf(m));
}
