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
  let u = bitcast<u32>(x);
  let one = bitcast<f32>((u & 0x80000000u) | 0x3f800000u);
  return select(one, 0.0, (u & 0x7fffffffu) - 1u >= 0x7f800000u);
}

fn f32_sgn(x: f32) -> f32 {
  return f32_sign(x);
}

// Chosen, not put together by masks: llvmpipe (LLVM 15) merges those with a later select(copysign(r, x), x, ...) into
// x & ~r, as in tanh(exp(x)). Chosen among bits, not among numbers: to NVIDIA's compiler 0.0 and -0.0 are the same.
fn f32_copysign(x: f32, s: f32) -> f32 {
  let magnitude = bitcast<u32>(x) & 0x7fffffffu;
  return bitcast<f32>(select(magnitude, magnitude | 0x80000000u, bitcast<i32>(s) < 0));
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

// On the bits alone: where denormals are flushed, a float comparison takes them for 0.
fn f32_nextafter(a: f32, b: f32) -> f32 {
  let u = bitcast<i32>(a);
  let v = bitcast<i32>(b);
  let up = (v ^ ((v >> 31u) & 0x7fffffff)) > (u ^ ((u >> 31u) & 0x7fffffff));
  let step = bitcast<f32>(u + select(-1, 1, up == (u >= 0)));
  let tiny = bitcast<f32>(1u | (bitcast<u32>(b) & 0x80000000u));
  let same = u == v || ((u | v) & 0x7fffffff) == 0;
  let r = select(select(step, tiny, (u & 0x7fffffff) == 0), b, same);
  return select(r, f32_nan(), f32_isnan(a) || f32_isnan(b));
}

// a / b. GPUs multiply by 1/b, which is flushed to 0 for |b| > 2^126.
fn f32_div(a: f32, b: f32) -> f32 {
  let s = select(1.0, 5.96046448e-8, abs(b) > 4e37);
  return (a * s) / (b * s);
}

// a / b rounded once, where neither is near the ends of the range: GPUs are off by up to 2.5 units in the last place.
// Without its last bits q is a number of its own: a driver that multiplies by 1/b would else take q + rest / b for
// a / b + rest / b, and not round q in between.
fn f32_quotient(a: f32, b: f32) -> f32 {
  let q = bitcast<f32>(bitcast<u32>(a / b) & 0xfffffff0u);
  let qh = f32_head(q);
  let bh = f32_head(b);
  let rest = ((a - qh * bh) - qh * (b - bh)) - (q - qh) * bh - (q - qh) * (b - bh);
  let better = q + rest / b;
  return select(a / b, better, f32_isfinite(better));
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
  let c = clamp(x, -130.0, 110.0);
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

// The exponent of x > 0 relative to [sqrt(1/2), sqrt(2)).
fn f32_log_exponent(x: f32) -> i32 {
  return (bitcast<i32>(x) - 0x3f3504f3) >> 23u;
}

// (f, e) with x = 2^e (1 + f), for x > 0. A denormal is read as an integer: many GPUs flush it in any arithmetic.
fn f32_log_split(x: f32) -> vec2<f32> {
  let u = bitcast<i32>(x);
  let tiny = u < 0x00800000;
  let v = bitcast<i32>(select(x, f32(u), tiny));
  let e = (v - 0x3f3504f3) >> 23u;
  return vec2<f32>(bitcast<f32>(v - (e << 23u)) - 1.0, f32(e) - select(0.0, 149.0, tiny));
}

// r, or what a logarithm is for x = 0, x < 0, inf and NaN.
fn f32_log_special(r: f32, x: f32) -> f32 {
  let u = bitcast<u32>(x);
  let top = select(r, x, u >= 0x7f800000u);
  return select(select(top, f32_nan(), u > 0x80000000u), -f32_inf(), (u << 1u) == 0u);
}

fn f32_log(x: f32) -> f32 {
  let v = f32_log_split(x);
  return f32_log_special(f32_log_poly(v.x, v.y), x);
}

// log(1 + f) - f for f in [sqrt(1/2) - 1, sqrt(2) - 1].
fn f32_log1p_rest(f: f32) -> f32 {
  let p = ((((((-7.63644055e-2 * f + 1.27622217e-1) * f - 1.31596118e-1) * f + 1.42015800e-1) * f - 1.66234091e-1) * f + 2.00012416e-1) * f - 2.50008196e-1) * f + 3.33333313e-1;
  let z = f * f;
  return (p * f) * z - 0.5 * z;
}

// 1/ln(2) = 1 + 0.4427 and 1/ln(10) = 0.43359375 + 0.0007: the rounding error of the constant then does not show.
fn f32_log2(x: f32) -> f32 {
  let v = f32_log_split(x);
  let y = f32_log1p_rest(v.x);
  return f32_log_special(((y * 0.442695041 + v.x * 0.442695041) + y) + v.x + v.y, x);
}

fn f32_log10(x: f32) -> f32 {
  let v = f32_log_split(x);
  let y = f32_log1p_rest(v.x);
  let low = (v.x * 7.00731903e-4 + y * 7.00731903e-4) + v.y * 2.48745663e-4;
  return f32_log_special((low + y * 0.43359375) + v.x * 0.43359375 + v.y * 0.30078125, x);
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

// expm1(2a) / (expm1(2a) + 2): one path for all |x|. A GPU's division may give a little more than 1.
fn f32_tanh(x: f32) -> f32 {
  let c = min(abs(x), 10.0) * 2.0;
  let n = round(c * 1.44269504);
  let t = f32_exp2i(i32(n));
  let e = f32_expm1_poly(f32_exp_rest(c, n)) * t + (t - 1.0);
  let r = f32_copysign(min(e / (e + 2.0), 1.0), x);
  return select(r, x, f32_isnan(x) || abs(x) < 1e-4);
}

// erf(|x|): near 0 a polynomial, beyond it 1 - e^q(|x|), which is exact to rounding because e^q is then small. A NaN may
// become a number.
fn f32_erf_abs(x: f32) -> f32 {
  let t = min(abs(x), 4.0);
  let z = t * t;
  let q = (((((-1.12317695e-5 * t + 3.22812324e-4) * t - 3.64250573e-3) * t + 2.37621833e-2) * t - 1.06237039e-1) * t - 6.35151207e-1) * t - 1.12864852;
  let p = ((((-5.98021376e-4 * z + 4.99176187e-3) * z - 2.67662313e-2) * z + 1.12818271e-1) * z - 3.76124978e-1) * z + 1.28379151e-1;
  return select(p * t + t, 1.0 - f32_exp_bounded(q * t), t > 0.925);
}

fn f32_erf(x: f32) -> f32 {
  return select(f32_copysign(f32_erf_abs(x), x), x, f32_isnan(x));
}

// The normal distribution as 1 / (1 + 2^-t), t a polynomial in x. The built-in power is good enough: an error of its
// counts by the smaller of the two probabilities, and in the lower tail the result itself is small.
fn f32_gelu_exp(x: f32) -> f32 {
  let z = min(x * x, 36.0);
  let p = (((((((((-2.38326069e-14 * z + 2.9634099e-12) * z - 1.53079369e-10) * z + 4.18885371e-9) * z - 6.02571149e-8) * z + 2.09512692e-7) * z + 8.38029064e-6) * z - 1.50938271e-4) * z - 1.06174462e-4) * z + 1.04842141e-1) * z + 2.30220819;
  return 1.0 + exp2(-x * p);
}

fn f32_gelu(x: f32) -> f32 {
  return x / f32_gelu_exp(x);
}

fn f32_gelu_slope(x: f32) -> f32 {
  return 1.0 / f32_gelu_exp(x) + x * 0.398942280 * f32_exp(x * x * -0.5);
}

// gelu for results of 16 bits: the normal distribution as 1 / (1 + 2^-t), t a polynomial in x, to 5e-5 of the result.
fn f32_gelu_half_exp(x: f32) -> f32 {
  let z = min(x * x, 36.0);
  let p = ((((((-4.56236264e-11 * z + 6.02842842e-9) * z - 3.28787650e-7) * z + 9.36070501e-6) * z - 1.32270347e-4) * z - 2.52677914e-4) * z + 1.05220206e-1) * z + 2.30193305;
  return 1.0 + exp2(-x * p);
}

fn f32_gelu_half(x: f32) -> f32 {
  return x / f32_gelu_half_exp(x);
}

// Its derivative, to the same precision.
fn f32_gelu_half_slope(x: f32) -> f32 {
  return 1.0 / f32_gelu_half_exp(x) + x * 0.398942280 * exp2(x * x * -0.721347520);
}

// (1 + tanh(u)) / 2 = 1 / (1 + e^-2u) keeps its digits where tanh(u) is near -1.
fn f32_gelu_tanh(x: f32) -> f32 {
  let u = 1.59576912 * (x + 0.044715 * (x * x) * x);
  return x / (1.0 + f32_exp(-u));
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
  let v = f32_log_split(ax);
  let f = v.x;
  let e = v.y;
  let d = f + 2.0;
  let dh = f32_head(d);
  let dl = f - (dh - 2.0);
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
  let edge = bitcast<u32>(ax) == 0u || f32_isinf(x);
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
  let q = f32_div(x, y);
  let r = f32_fmod(x, y);
  let wrong = (bitcast<u32>(r) & 0x7fffffffu) != 0u && (r < 0.0) != (y < 0.0);
  let d = f32_div(x - r, y) - select(0.0, 1.0, wrong);
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

// e^(c x^2) with x^2 taken apart, as its rounding error would be multiplied by itself. |x| < 30 and |c| <= 1.
fn f32_exp_square(x: f32, c: f32) -> f32 {
  let h = f32_head(x);
  return f32_exp(c * (h * h)) * f32_exp_poly(c * ((x - h) * (x + h)));
}

// e^(x^2) erfc(x) for x >= 0.
fn f32_erfcx_positive(x: f32) -> f32 {
  let c = min(x, 1e6);
  let t = (c - 2.0) / (c + 2.0);
  let p = ((((((((((6.07629772e-05 * t + 0.000163524528) * t - 0.000351399562) * t - 0.00140287238) * t + 0.00121178781) * t + 0.00869592931) * t - 0.00801709108) * t - 0.0542146973) * t + 0.164049298) * t - 0.16603066) * t - 0.0927637741) * t + 1.27697837;
  return select(p / (1.0 + 2.0 * c), 0.564189584 / x, x > 1e6);
}

fn f32_erfcx(x: f32) -> f32 {
  let p = f32_erfcx_positive(abs(x));
  let r = select(p, 2.0 * f32_exp_square(max(x, -15.0), 1.0) - p, x < 0.0);
  return select(select(r, f32_inf(), x < -15.0), x, f32_isnan(x));
}

fn f32_erfc(x: f32) -> f32 {
  let a = min(abs(x), 15.0);
  let p = f32_erfcx_positive(a) * f32_exp_square(a, -1.0);
  let r = select(select(p, 2.0 - p, x < 0.0), 1.0 - f32_erf(x), a < 0.5);
  return select(r, x, f32_isnan(x));
}

// A polynomial in w = -log(1 - x^2), after M. Giles, Approximating the erfinv function.
fn f32_erfinv(x: f32) -> f32 {
  let a = abs(x);
  let w = -f32_log((1.0 - a) * (1.0 + a));
  let t = w - 3.0;
  let s = sqrt(max(w, 0.0)) - 3.0;
  let p = (((((((((3.16649568e-10 * t - 5.21312993e-09) * t - 1.07501634e-08) * t + 4.4394352e-07) * t - 1.84120097e-06) * t - 1.26849372e-05) * t + 0.00019535789) * t - 0.000836233725) * t - 0.00573847722) * t + 0.24163042) * t + 1.62354207;
  let q = ((((((((7.62494092e-05 * s - 0.000228249861) * s - 6.88554646e-05) * s + 0.00142501108) * s - 0.00357514201) * s + 0.00570120662) * s - 0.00764260441) * s + 0.00944414176) * s + 1.00167525) * s + 2.83297682;
  let r = select(p, q, w > 6.0) * x;
  return select(select(r, f32_copysign(f32_inf(), x), a == 1.0), f32_nan(), !(a <= 1.0));
}

// Phi(x) for x <= 0.
fn f32_ndtr_negative(x: f32) -> f32 {
  let c = max(x, -16.0);
  return 0.5 * f32_erfcx_positive(c * -0.707106781) * f32_exp_square(c, -0.5);
}

fn f32_ndtr(x: f32) -> f32 {
  let p = f32_ndtr_negative(-abs(x));
  let r = select(p, 1.0 - p, x > 0.0);
  return select(select(r, 0.5 + 0.5 * f32_erf(x * 0.707106781), abs(x) < 1.0), x, f32_isnan(x));
}

fn f32_log_ndtr(x: f32) -> f32 {
  let c = max(x, -1e30);
  let low = f32_log(0.5 * f32_erfcx_positive(-c * 0.707106781)) - 0.5 * c * c;
  let r = select(f32_log1p(-f32_ndtr_negative(-abs(x))), low, x < 0.0);
  return select(r, x, f32_isnan(x));
}

fn f32_ndtri(y: f32) -> f32 {
  let upper = y > 0.5;
  let p = select(y, 1.0 - y, upper);
  let w = sqrt(-2.0 * f32_log(clamp(p, 1e-45, 0.1354)));
  let z = 1.0 / w;
  let tail = (w - f32_log(w) * z) - (((((((1.38144982 * z - 3.28248525) * z + 3.25709701) * z - 1.71278846) * z + 0.425757706) * z + 0.360133082) * z + 0.908461094) * z + 0.000184544362);
  let r = select(1.41421356 * f32_erfinv(2.0 * y - 1.0), select(-tail, tail, upper), p < 0.135335283);
  let edge = select(r, select(-f32_inf(), f32_inf(), upper), p == 0.0);
  return select(edge, f32_nan(), !(y >= 0.0 && y <= 1.0));
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

// Stirling's series less its leading terms, times x.
fn f32_stirling(x: f32) -> f32 {
  let z = 1.0 / (x * x);
  return ((-0.000475706271 * z + 0.000788847217) * z - 0.00277781463) * z + 0.0833333358;
}

// lgamma(2 + t) / t for t in [-1/2, 1].
fn f32_lgamma_poly(t: f32) -> f32 {
  return ((((((((5.647734e-05 * t - 0.000228365257) * t + 0.000531861559) * t - 0.00119320827) * t + 0.00288679404) * t - 0.00738678081) * t + 0.0205810964) * t - 0.0673520416) * t + 0.322467029) * t + 0.422784328;
}

// lgamma(1 + a) for a >= 0, which 1 + a would round.
fn f32_lgamma_1p(a: f32) -> f32 {
  return select(f32_lgamma_positive(1.0 + a), f32_lgamma_poly(a) * a - f32_log1p(a), a < 1.0);
}

// Below 3 the argument is moved to 2 + t, where the zeros at 1 and 2 keep their digits; above it Stirling's series.
fn f32_lgamma_positive(x: f32) -> f32 {
  let low = x < 0.5;
  let mid = x < 1.5;
  let t = x - select(select(2.0, 1.0, mid), 0.0, low);
  let l = f32_log(select(select(select(x, 1.0, x < 3.0), x, mid), x * (x + 1.0), low));
  let big = (x - 0.5) * (l - 1.0) + (f32_stirling(x) / x + 0.418938533);
  return select(big, f32_lgamma_poly(t) * t - l, x < 3.0);
}

fn f32_lgamma(x: f32) -> f32 {
  let a = abs(x);
  let s = abs(f32_sinpi(a));
  let p = f32_lgamma_positive(a);
  let reflected = select(f32_log(3.14159265 / (a * s)) - p, -f32_log(a), a < 1e-7);
  let r = select(p, reflected, x < 0.0);
  let pole = (x <= 0.0 && trunc(x) == x) || f32_isinf(x);
  return select(select(r, f32_inf(), pole), x, f32_isnan(x));
}

// psi(x) for x > 0: in [1, 2] a polynomial that keeps its zero at 1.4616, from 3 the asymptotic series. The small constant
// is what the zero's rounding is worth; subtracted from y it would be folded into the larger one.
fn f32_digamma_positive(x: f32) -> f32 {
  let y = x + select(select(-1.0, 0.0, x <= 2.0), 1.0, x < 1.0);
  let s = y - 1.5;
  let p = (((((((((0.00941419043 * s - 0.0161324572) * s + 0.0181275159) * s - 0.0259329695) * s + 0.0406039841) * s - 0.0620259717) * s + 0.0950099155) * s - 0.148401245) * s + 0.240541562) * s - 0.423627436) * s + 0.951055884;
  let near = (y - 1.46163213) * p - 1.20354e-8;
  let moved = near + select(select(1.0 / (x - 1.0), 0.0, x <= 2.0), -1.0 / x, x < 1.0);
  let z = 1.0 / (x * x);
  let far = f32_log(x) - (0.5 / x + z * (((-0.00277854293 * z + 0.00385538652) * z - 0.00832946412) * z + 0.0833332911));
  return select(moved, far, x >= 3.0);
}

fn f32_digamma(x: f32) -> f32 {
  let negative = x < 0.0;
  let p = f32_digamma_positive(select(x, 1.0 - x, negative));
  let r = select(p, p - 3.14159265 * f32_cospi(x) / f32_sinpi(x), negative);
  let pole = select(r, f32_nan(), negative && trunc(x) == x);
  return select(select(pole, f32_copysign(f32_inf(), -x), x == 0.0), x, f32_isnan(x) || bitcast<u32>(x) == 0x7f800000u);
}

fn f32_trigamma(x: f32) -> f32 {
  let flip = x < 0.5;
  var y = select(x, 1.0 - x, flip);
  var sum = 0.0;
  for (var i = 0; i < 4; i = i + 1) {
    sum = sum + select(0.0, 1.0 / (y * y), y < 4.0);
    y = select(y, y + 1.0, y < 4.0);
  }
  let z = 1.0 / (y * y);
  let r = sum + (1.0 / y + (0.5 * z + z / y * (((-0.0245001931 * z + 0.0233810376) * z - 0.0333247297) * z + 0.166666612)));
  let s = f32_sinpi(x);
  let v = select(r, 9.86960440 / (s * s) - r, flip);
  let pole = select(v, f32_inf(), flip && trunc(x) == x);
  return select(pole, f32_nan(), f32_isnan(x) || bitcast<u32>(x) == 0xff800000u);
}

// The Hurwitz zeta function for q > 0 by the Euler-Maclaurin formula from the first term past 9 + 0.6 x.
fn f32_zeta_positive(x: f32, q: f32) -> f32 {
  if (x > 500.0) {
    return f32_pow(q, -x);
  }
  var a = q;
  var sum = 0.0;
  for (var i = 0; i < 400; i = i + 1) {
    if (a >= 9.0 + 0.6 * x) {
      break;
    }
    let b = f32_pow(a, -x);
    sum = sum + b;
    if (b < 1e-9 * sum) {
      return sum;
    }
    a = a + 1.0;
  }
  let v = 1.0 / a;
  let z = v * v;
  var t = x * v;
  var s = t * 8.33333333e-2;
  t = t * (x + 1.0) * (x + 2.0) * z;
  s = s - t * 1.38888889e-3;
  t = t * (x + 3.0) * (x + 4.0) * z;
  s = s + t * 3.30687831e-5;
  t = t * (x + 5.0) * (x + 6.0) * z;
  s = s - t * 8.26719577e-7;
  t = t * (x + 7.0) * (x + 8.0) * z;
  s = s + t * 2.08767570e-8;
  t = t * (x + 9.0) * (x + 10.0) * z;
  s = s - t * 5.28419014e-10;
  let b = f32_pow(a, -x);
  return sum + b * (a / (x - 1.0) + (0.5 + s));
}

// For q < 0 the terms below 0 are those of two zeta functions of positive arguments.
fn f32_zeta(x: f32, q: f32) -> f32 {
  if (x == 1.0 || (!(x < 1.0) && q <= 0.0 && floor(q) == q)) {
    return f32_inf();
  }
  if (x < 1.0 || f32_isnan(x) || f32_isnan(q) || f32_isinf(q)) {
    return f32_nan();
  }
  if (q > 0.0) {
    return f32_zeta_positive(x, q);
  }
  if (!(trunc(x) == x)) {
    return f32_nan();
  }
  let g = trunc(q) - q;
  let f = f32_zeta_positive(x, 1.0 - g);
  let b = f32_zeta_positive(x, g);
  let rest = f32_zeta_positive(x, 1.0 - q);
  let odd = x < 16777216.0 && (i32(x) & 1) == 1;
  return select((f + b) - rest, (f - b) + rest, odd);
}

fn f32_polygamma(n: i32, x: f32) -> f32 {
  if (n == 0) {
    return f32_digamma(x);
  }
  if (n == 1) {
    return f32_trigamma(x);
  }
  var f = 1.0;
  for (var i = 2; i <= min(n, 35); i = i + 1) {
    f = f * f32(i);
  }
  return select(-f, f, (n & 1) == 1) * f32_zeta(f32(n + 1), x);
}

// x^a e^-x / Gamma(a + 1). e^-x is kept from becoming denormal while the power is still to come.
fn f32_igamma_factor(a: f32, x: f32) -> f32 {
  if (x > 1e4 && x > 2.0 * a) {
    return 0.0;
  }
  if (a < 3.0) {
    let k = select(0, 30, x > 60.0);
    return f32_pow(x, a) * f32_exp_scaled(-x, k) * f32_exp(-f32_lgamma_1p(a)) * f32_exp2i(-k);
  }
  let s = (x - a) / a;
  let wide = abs(s) > 0.29;
  let l = select(f32_log1p_rest(s), f32_log(x / a) - s, wide);
  return 0.398942280 / sqrt(a) * f32_exp(a * l - f32_stirling(a) / a);
}

// Temme's uniform expansion, DLMF 8.12, for a > 20 and x within 30% of a. side is 1 for the upper function, -1 for the lower.
fn f32_igamma_uniform(a: f32, x: f32, side: f32) -> f32 {
  let s = (x - a) / a;
  let l = f32_log1p_rest(s);
  let e = f32_copysign(sqrt(max(-2.0 * l, 0.0)), s);
  let c0 = ((((((-2.18544847e-06 * e + 3.91926333e-05) * e - 0.000178755145) * e + 0.000352733681) * e + 0.00115740742) * e - 0.0148148146) * e + 0.0833333358) * e - 0.333333343;
  let c1 = (((0.000205761316 * e - 0.000990226283) * e + 0.00264550257) * e - 0.00347222225) * e - 0.00185185182;
  let c2 = (0.000771604944 * e - 0.00268132705) * e + 0.00413359795;
  let c3 = 0.000229472091 * e + 0.000649434165;
  let r = 1.0 / a;
  let sum = (((-8.61888291e-4 * r + c3) * r + c2) * r + c1) * r + c0;
  let main = 0.5 * f32_erfc(side * e * sqrt(0.5 * a));
  return main + side * f32_exp(a * l) * sum * (0.398942280 / sqrt(a));
}

fn f32_igamma_series(a: f32, x: f32) -> f32 {
  var r = a;
  var c = 1.0;
  var sum = 1.0;
  for (var i = 0; i < 300; i = i + 1) {
    r = r + 1.0;
    c = c * (x / r);
    sum = sum + c;
    if (c <= 3e-8 * sum) {
      break;
    }
  }
  return sum * f32_igamma_factor(a, x);
}

// The upper function for small x and a, DLMF 8.7.3.
fn f32_igammac_series(a: f32, x: f32) -> f32 {
  var f = 1.0;
  var sum = 0.0;
  for (var n = 1; n < 100; n = n + 1) {
    f = f * (-x / f32(n));
    let t = f / (a + f32(n));
    sum = sum + t;
    if (abs(t) <= 3e-8 * abs(sum)) {
      break;
    }
  }
  let g = a * f32_log(x) - f32_lgamma_1p(a);
  return -f32_expm1(g) - f32_exp(g) * a * sum;
}

// The upper function by Lentz's continued fraction, for x >= a and x > 1.
fn f32_igammac_fraction(a: f32, x: f32) -> f32 {
  var b = x + 1.0 - a;
  var c = 1e30;
  var d = 1.0 / b;
  var h = d;
  for (var i = 1; i < 300; i = i + 1) {
    let n = -f32(i) * (f32(i) - a);
    b = b + 2.0;
    d = 1.0 / (n * d + b);
    c = b + n / c;
    let t = d * c;
    h = h * t;
    if (abs(t - 1.0) <= 6e-8) {
      break;
    }
  }
  return h * f32_igamma_factor(a, x) * a;
}

// P(a, x) if lower, else Q(a, x) = 1 - P: the smaller of the two is computed, as in Cephes and scipy.
fn f32_igamma_either(a: f32, x: f32, lower: bool) -> f32 {
  if (x < 0.0 || a < 0.0 || (a == 0.0 && !(x > 0.0)) || (f32_isinf(a) && f32_isinf(x))) {
    return f32_nan();
  }
  if (a == 0.0) {
    return select(0.0, 1.0, lower);
  }
  if (x == 0.0 || f32_isinf(a)) {
    return select(1.0, 0.0, lower);
  }
  if (f32_isinf(x)) {
    return select(0.0, 1.0, lower);
  }
  if (f32_isnan(a) || f32_isnan(x)) {
    return f32_nan();
  }
  if (a > 1e30 || x > 1e30) {
    let p = select(select(0.0, 0.5, x == a), 1.0, x > a);
    return select(1.0 - p, p, lower);
  }
  if (a > 20.0 && abs(x - a) < 0.3 * a) {
    return f32_igamma_uniform(a, x, select(1.0, -1.0, lower));
  }
  if (x > 1.1 && x >= a) {
    let q = f32_igammac_fraction(a, x);
    return select(q, 1.0 - q, lower);
  }
  let small = select(x * 1.1 >= a, a * f32_log(x) >= -0.4, x <= 0.5);
  if (x <= 1.1 && small && !lower) {
    return f32_igammac_series(a, x);
  }
  let p = f32_igamma_series(a, x);
  return select(1.0 - p, p, lower);
}

fn f32_igamma(a: f32, x: f32) -> f32 {
  return f32_igamma_either(a, x, true);
}

fn f32_igammac(a: f32, x: f32) -> f32 {
  return f32_igamma_either(a, x, false);
}

fn f32_entr(x: f32) -> f32 {
  let r = select(-x * f32_log(x), 0.0, x == 0.0);
  return select(select(r, -f32_inf(), x < 0.0), x, f32_isnan(x));
}

fn f32_xlogy(x: f32, y: f32) -> f32 {
  return select(select(x * f32_log(y), 0.0, x == 0.0), y, f32_isnan(y));
}

fn f32_xlog1py(x: f32, y: f32) -> f32 {
  return select(select(x * f32_log1p(y), 0.0, x == 0.0), y, f32_isnan(y));
}

fn f32_sinc(x: f32) -> f32 {
  let r = select(f32_sinpi(x) / (x * 3.14159265), 1.0, abs(x) < 1e-5);
  return select(r, f32_nan(), !f32_isfinite(x));
}

// A negative eps means no clamping, as torch's eps=None.
fn f32_logit(x: f32, eps: f32) -> f32 {
  let c = select(select(x, eps, x < eps), 1.0 - eps, x > 1.0 - eps);
  let z = select(x, c, eps >= 0.0 && !f32_isnan(x));
  return f32_log(z / (1.0 - z));
}

// I0(x) for |x| <= 8.
fn f32_i0_small(x: f32) -> f32 {
  let z = 0.25 * x * x;
  return (((((((((1.37373931e-13 * z + 5.56338135e-12) * z + 6.49852561e-10) * z + 3.9024787e-08) * z + 1.93100664e-06) * z + 6.94378396e-05) * z + 0.0017361223) * z + 0.0277777705) * z + 0.25) * z + 1.0) * z + 1.0;
}

// I1(x) for |x| <= 8.
fn f32_i1_small(x: f32) -> f32 {
  let z = 0.25 * x * x;
  return (((((((((1.41394047e-12 * z + 4.7789054e-11) * z + 5.25088906e-09) * z + 2.72561607e-07) * z + 1.15899738e-05) * z + 0.000347175665) * z + 0.00694451155) * z + 0.0833332986) * z + 0.5) * z + 1.0) * (0.5 * x);
}

// sqrt(x) e^-x I0(x) for x >= 8, with w = 1/x.
fn f32_i0_large(w: f32) -> f32 {
  return ((((0.337013274 * w + 0.00347888586) * w + 0.0316501483) * w + 0.028013194) * w + 0.0498671085) * w + 0.398942292;
}

fn f32_i1_large(w: f32) -> f32 {
  return ((((-0.466037333 * w + 0.0146772852) * w - 0.0468252264) * w - 0.0465357192) * w - 0.149606451) * w + 0.398942292;
}

fn f32_i0e(x: f32) -> f32 {
  let a = abs(x);
  let c = min(a, 8.0);
  let r = select(f32_i0_small(c) * f32_exp(-c), f32_i0_large(1.0 / a) / sqrt(a), a > 8.0);
  return select(r, x, f32_isnan(x));
}

fn f32_i1e(x: f32) -> f32 {
  let a = abs(x);
  let c = min(a, 8.0);
  let r = select(f32_i1_small(c) * f32_exp(-c), f32_i1_large(1.0 / a) / sqrt(a), a > 8.0);
  return select(select(r, -r, x < 0.0), x, f32_isnan(x));
}

// e^x / 64 first: I0 is finite a little further than e^x.
fn f32_i0(x: f32) -> f32 {
  let a = abs(x);
  let r = select(f32_i0_small(min(a, 8.0)), f32_exp_scaled(a, -6) * (f32_i0_large(1.0 / a) * 64.0 / sqrt(a)), a > 8.0);
  return select(r, x, f32_isnan(x));
}

fn f32_i1(x: f32) -> f32 {
  let a = abs(x);
  let r = select(f32_i1_small(min(a, 8.0)), f32_exp_scaled(a, -6) * (f32_i1_large(1.0 / a) * 64.0 / sqrt(a)), a > 8.0);
  return select(select(r, -r, x < 0.0), x, f32_isnan(x));
}

fn f32_modified_bessel_i0(x: f32) -> f32 {
  return f32_i0(x);
}

fn f32_modified_bessel_i1(x: f32) -> f32 {
  return f32_i1(x);
}

// (K0(x), K1(x)) for 0 < x <= 2.
fn f32_k_small(x: f32) -> vec2<f32> {
  let z = x * x;
  let tiny = x < 1e-30;
  let l = f32_log(select(0.5 * x, x, tiny)) - select(0.0, 0.693147181, tiny);
  let k0 = (((((1.27719503e-07 * z + 1.01532232e-05) * z + 0.000545334886) * z + 0.0144183422) * z + 0.105696157) * z - 0.577215672) - l * f32_i0_small(x);
  let k1 = 1.0 / x + (l * f32_i1_small(x) + x * (((((-1.10871712e-08 * z - 1.08367919e-06) * z - 7.49458923e-05) * z - 0.00283709005) * z - 0.0420490354) * z + 0.0386078358));
  return vec2<f32>(k0, k1);
}

fn f32_k_special(r: f32, x: f32) -> f32 {
  return select(select(select(r, f32_inf(), x == 0.0), f32_nan(), x < 0.0), x, f32_isnan(x));
}

fn f32_scaled_modified_bessel_k0(x: f32) -> f32 {
  let c = min(x, 2.0);
  let w = 1.0 / x;
  let p = ((((((-0.0522778258 * w + 0.127929583) * w - 0.147593483) * w + 0.11830236) * w - 0.089614667) * w + 0.0880159959) * w - 0.156662419) * w + 1.25331414;
  return f32_k_special(select(f32_k_small(c).x * f32_exp(c), p / sqrt(x), x > 2.0), x);
}

fn f32_scaled_modified_bessel_k1(x: f32) -> f32 {
  let c = min(x, 2.0);
  let w = 1.0 / x;
  let p = (((((((-0.0948319659 * w + 0.250078261) * w - 0.305756807) * w + 0.246208891) * w - 0.167755902) * w + 0.127521232) * w - 0.146834373) * w + 0.46999228) * w + 1.25331414;
  return f32_k_special(select(f32_k_small(c).y * f32_exp(c), p / sqrt(x), x > 2.0), x);
}

fn f32_modified_bessel_k0(x: f32) -> f32 {
  let c = min(x, 2.0);
  let r = select(f32_k_small(c).x, f32_scaled_modified_bessel_k0(x) * f32_exp(-x), x > 2.0);
  return f32_k_special(r, x);
}

fn f32_modified_bessel_k1(x: f32) -> f32 {
  let c = min(x, 2.0);
  let r = select(f32_k_small(c).y, f32_scaled_modified_bessel_k1(x) * f32_exp(-x), x > 2.0);
  return f32_k_special(r, x);
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

// (J0, Y0) for x > 3 from the modulus series; the phase x - pi/4 is never formed, so no digits of x are lost.
fn f32_bessel_0_large(x: f32) -> vec2<f32> {
  let t = 1.0 / x;
  let w = t * t;
  let p = (((((28.7527523 * w - 13.4557571) * w + 2.97375631) * w - 0.499740869) * w + 0.111219145) * w - 0.070308201) * w + 1.0;
  let q = t * (((((10.2409382 * w - 4.72153091) * w + 1.0761894) * w - 0.212830618) * w + 0.0730884597) * w - 0.124999501);
  let v = f32_sincos(x);
  let m = 0.564189584 / sqrt(x);
  let sum = v.y + v.x;
  let difference = v.x - v.y;
  return m * vec2<f32>(p * sum - q * difference, p * difference + q * sum);
}

fn f32_bessel_1_large(x: f32) -> vec2<f32> {
  let t = 1.0 / x;
  let w = t * t;
  let p = (((((-32.7389641 * w + 15.4016047) * w - 3.44274426) * w + 0.595372915) * w - 0.143150464) * w + 0.117182672) * w + 1.0;
  let q = t * (((((-11.7490196 * w + 5.45655823) * w - 1.26469302) * w + 0.26151365) * w - 0.102365375) * w + 0.374999434);
  let v = f32_sincos(x);
  let m = 0.564189584 / sqrt(x);
  let sum = v.y + v.x;
  let difference = v.x - v.y;
  return m * vec2<f32>(p * difference + q * sum, q * difference - p * sum);
}

// J0 for |x| <= 3, keeping its zero.
fn f32_bessel_j0_small(x: f32) -> f32 {
  let z = x * x;
  return (z - 5.78318596) * (((((4.09812351e-10 * z - 6.48600817e-08) * z + 6.40432108e-06) * z - 0.000396989548) * z + 0.0133291511) * z - 0.172915071);
}

fn f32_bessel_j1_small(x: f32) -> f32 {
  let z = x * x;
  return x * (((((-4.81841322e-09 * z + 6.70102793e-07) * z - 5.42175439e-05) * z + 0.00260409643) * z - 0.0624999553) * z + 0.5);
}

fn f32_bessel_j0(x: f32) -> f32 {
  let a = abs(x);
  if (a <= 3.0) {
    return f32_bessel_j0_small(a);
  }
  return f32_bessel_0_large(a).x;
}

fn f32_bessel_j1(x: f32) -> f32 {
  let a = abs(x);
  if (a <= 3.0) {
    return f32_bessel_j1_small(x);
  }
  let r = f32_bessel_1_large(a).x;
  return select(r, -r, x < 0.0);
}

fn f32_bessel_y0(x: f32) -> f32 {
  if (x > 3.0 || f32_isnan(x)) {
    return f32_bessel_0_large(x).y;
  }
  let z = x * x;
  let r = ((((((-6.45094089e-10 * z + 1.02054912e-07) * z - 9.48567231e-06) * z + 0.000538574124) * z - 0.0160739291) * z + 0.177606001) * z - 0.0738042966) + 0.636619772 * f32_log(x) * f32_bessel_j0_small(x);
  return select(select(r, -f32_inf(), x == 0.0), f32_nan(), x < 0.0);
}

fn f32_bessel_y1(x: f32) -> f32 {
  if (x > 3.0 || f32_isnan(x)) {
    return f32_bessel_1_large(x).y;
  }
  let z = x * x;
  let r = x * ((((((-5.12351481e-11 * z + 8.91473828e-09) * z - 9.9300496e-07) * z + 7.16460054e-05) * z - 0.0029553168) * z + 0.0543487035) * z - 0.196057096) + 0.636619772 * (f32_log(x) * f32_bessel_j1_small(x) - 1.0 / x);
  return select(select(r, -f32_inf(), x == 0.0), f32_nan(), x < 0.0);
}

fn f32_spherical_bessel_j0(x: f32) -> f32 {
  let z = x * x;
  let p = ((2.75573192e-6 * z - 1.98412698e-4) * z + 8.33333333e-3) * z - 1.66666667e-1;
  let r = select(f32_sin(x) / x, p * z + 1.0, abs(x) < 0.5);
  return select(select(r, 0.0, f32_isinf(x)), x, f32_isnan(x));
}

fn f32_airy_ai(x: f32) -> f32 {
  let a = abs(x);
  let root = sqrt(a);
  let zeta = a * root * 0.666666667;
  let u = 1.0 / zeta;
  if (x < -2.09) {
    let w = u * u;
    let p = (((((1.6496228 * w - 1.61016917) * w + 0.691928267) * w - 0.193298176) * w + 0.0550271757) * w - 0.0371032432) * w + 0.99999994;
    let q = u * ((((((3.64462137 * w - 3.68994164) * w + 1.62569332) * w - 0.441616327) * w + 0.102848016) * w - 0.0377804376) * w + 0.0694433823);
    let v = f32_sincos(zeta);
    let r = ((v.x + v.y) * p - (v.y - v.x) * q) * (0.398942280 / sqrt(root));
    return select(r, f32_nan(), f32_isinf(x));
  }
  let z = x * x * x;
  let f = (((((3.6125573e-12 * z + 9.8692321e-10) * z + 2.07484049e-07) * z + 2.73944152e-05) * z + 0.00197237916) * z + 0.0591713339) * z + 0.355028063;
  let g = (((((3.69227815e-13 * z + 1.53381585e-10) * z + 3.6582545e-08) * z + 5.70580369e-06) * z + 0.000513530569) * z + 0.0215682853) * z + 0.258819401;
  let p = ((((((-0.0216447283 * u + 0.0527533367) * u - 0.0607066341) * u + 0.0486868359) * u - 0.037119206) * u + 0.037090566) * u - 0.0694437101) * u + 1.0;
  let tail = p * f32_exp(-zeta) * (0.282094792 / sqrt(root));
  return select(select(f - x * g, tail, x >= 2.09), f32_nan(), f32_isnan(x) || f32_isinf(x));
}

// r(k) = 2x r(k-1) - r(k-2) from r(0) = 1 and r(1) = first: all four Chebyshev families. Stops once it is NaN, as torch does.
// Degrees a recurrence reaches; NaN beyond. A thread computes up to 16 elements, some of them past the tensor's end with
// any degree there may be in memory, and one software driver stops a thread after 65,535 iterations in all.
const F32_DEGREES: i32 = 4000;

fn f32_chebyshev_recurrence(x: f32, first: f32, n: i32) -> f32 {
  var p = 1.0;
  var q = first;
  for (var k = 2; k <= min(n, F32_DEGREES); k = k + 1) {
    let r = (x + x) * q - p;
    p = q;
    q = r;
    if (f32_isnan(r)) {
      break;
    }
  }
  return select(select(select(q, 1.0, n == 0), 0.0, n < 0), f32_nan(), n > F32_DEGREES);
}

fn f32_chebyshev_polynomial_t(x: f32, n: i32) -> f32 {
  if (abs(x) == 1.0) {
    return select(select(1.0, -1.0, x < 0.0 && (n & 1) == 1), 0.0, n < 0);
  }
  if (n > 32 && abs(x) < 1.0) {
    return f32_cos(f32(n) * f32_acos(x));
  }
  return f32_chebyshev_recurrence(x, x, n);
}

fn f32_chebyshev_polynomial_u(x: f32, n: i32) -> f32 {
  if (abs(x) == 1.0) {
    return select(select(1.0, -1.0, x < 0.0 && (n & 1) == 1) * f32(n + 1), 0.0, n < 0);
  }
  if (n > 32 && abs(x) < 1.0) {
    return f32_sin(f32(n + 1) * f32_acos(x)) / sqrt((1.0 - x) * (1.0 + x));
  }
  return f32_chebyshev_recurrence(x, x + x, n);
}

fn f32_chebyshev_polynomial_v(x: f32, n: i32) -> f32 {
  if (abs(x) == 1.0) {
    let low = select(1.0, -1.0, (n & 1) == 1) * f32(n + n + 1);
    return select(select(low, 1.0, x > 0.0), 0.0, n < 0);
  }
  if (n > 32 && abs(x) < 1.0) {
    return f32_cos((f32(n) + 0.5) * f32_acos(x)) / sqrt(0.5 + 0.5 * x);
  }
  return f32_chebyshev_recurrence(x, x + x - 1.0, n);
}

fn f32_chebyshev_polynomial_w(x: f32, n: i32) -> f32 {
  if (abs(x) == 1.0) {
    return select(select(select(1.0, -1.0, (n & 1) == 1), f32(n + n + 1), x > 0.0), 0.0, n < 0);
  }
  if (n > 32 && abs(x) < 1.0) {
    return f32_sin((f32(n) + 0.5) * f32_acos(x)) / sqrt(0.5 - 0.5 * x);
  }
  return f32_chebyshev_recurrence(x, x + x + 1.0, n);
}

fn f32_shifted_chebyshev_polynomial_t(x: f32, n: i32) -> f32 {
  return f32_chebyshev_polynomial_t(x + x - 1.0, n);
}

fn f32_shifted_chebyshev_polynomial_u(x: f32, n: i32) -> f32 {
  return f32_chebyshev_polynomial_u(x + x - 1.0, n);
}

fn f32_shifted_chebyshev_polynomial_v(x: f32, n: i32) -> f32 {
  return f32_chebyshev_polynomial_v(x + x - 1.0, n);
}

fn f32_shifted_chebyshev_polynomial_w(x: f32, n: i32) -> f32 {
  return f32_chebyshev_polynomial_w(x + x - 1.0, n);
}

// torch's limit for the degree, NaN beyond it: 512 for float64.
const F32_HERMITE_DEGREES: i32 = 128;

fn f32_hermite_polynomial_h(x: f32, n: i32) -> f32 {
  var p = 1.0;
  var q = x + x;
  for (var k = 2; k <= min(n, F32_HERMITE_DEGREES); k = k + 1) {
    let r = (x + x) * q - f32(2 * k - 2) * p;
    p = q;
    q = r;
  }
  return select(select(select(q, 1.0, n == 0), 0.0, n < 0), f32_nan(), n > F32_HERMITE_DEGREES);
}

fn f32_hermite_polynomial_he(x: f32, n: i32) -> f32 {
  var p = 1.0;
  var q = x;
  for (var k = 1; k < min(n, F32_HERMITE_DEGREES); k = k + 1) {
    let r = x * q - f32(k) * p;
    p = q;
    q = r;
  }
  return select(select(select(q, 1.0, n == 0), 0.0, n < 0), f32_nan(), n > F32_HERMITE_DEGREES);
}

fn f32_laguerre_polynomial_l(x: f32, n: i32) -> f32 {
  var p = 1.0;
  var q = 1.0 - x;
  for (var k = 1; k < min(n, F32_DEGREES); k = k + 1) {
    let r = ((f32(k + k) + (1.0 - x)) * q - f32(k) * p) / f32(k + 1);
    p = q;
    q = r;
    if (f32_isnan(r)) {
      break;
    }
  }
  let inside = select(q, f32_nan(), n > F32_DEGREES);
  return select(select(inside, 1.0, n == 0 || x == 0.0), 0.0, n < 0);
}

fn f32_legendre_polynomial_p(x: f32, n: i32) -> f32 {
  if (abs(x) == 1.0) {
    return select(select(1.0, -1.0, x < 0.0 && (n & 1) == 1), 0.0, n < 0);
  }
  var p = 1.0;
  var q = x;
  for (var k = 1; k < min(n, F32_DEGREES); k = k + 1) {
    let r = (f32(k + k + 1) * x * q - f32(k) * p) / f32(k + 1);
    p = q;
    q = r;
    if (f32_isnan(r)) {
      break;
    }
  }
  return select(select(select(q, 1.0, n == 0), 0.0, n < 0), f32_nan(), n > F32_DEGREES);
}
