// float64 on adapters with shader-f64 and shader-int64. Built-in f64 exp, log and sin are garbage on one driver, while
// + - * / sqrt, floor and ceil are right: everything here is made of those and of the bits, to within 2 units in the last
// place. Compilers may contract a*b+c, factor sums and cancel (a+b)-a: where an exact remainder is needed the high part
// goes through a bit mask, as in math_f32.wgsl, and what is left of it through `f64_hold`. Names ending in h have 26 bits,
// so that products of two of them are exact.

fn f64_load(lo: u32, hi: u32) -> f64 {
  return bitcast<f64>((u64(hi) << 32u) | u64(lo));
}

fn f64_bits(x: f64) -> u64 {
  return bitcast<u64>(x);
}

fn f64_magnitude_bits(x: f64) -> u64 {
  return bitcast<u64>(x) & 0x7ffffffffffffffflu;
}

fn f64_isnan(x: f64) -> bool {
  return f64_magnitude_bits(x) > 0x7ff0000000000000lu;
}

fn f64_isinf(x: f64) -> bool {
  return f64_magnitude_bits(x) == 0x7ff0000000000000lu;
}

fn f64_isfinite(x: f64) -> bool {
  return f64_magnitude_bits(x) < 0x7ff0000000000000lu;
}

fn f64_signbit(x: f64) -> bool {
  return (bitcast<u64>(x) >> 63u) != 0lu;
}

fn f64_nan() -> f64 {
  return f64(f32_nan());
}

fn f64_inf() -> f64 {
  return f64(f32_inf());
}

fn f64_eq(a: f64, b: f64) -> bool {
  return a == b && !f64_isnan(a) && !f64_isnan(b);
}

fn f64_min(a: f64, b: f64) -> f64 {
  return select(select(b, a, a < b), f64_nan(), f64_isnan(a) || f64_isnan(b));
}

fn f64_max(a: f64, b: f64) -> f64 {
  return select(select(b, a, a > b), f64_nan(), f64_isnan(a) || f64_isnan(b));
}

fn f64_fmin(a: f64, b: f64) -> f64 {
  return select(select(select(b, a, a <= b), b, f64_isnan(a)), a, f64_isnan(b));
}

fn f64_fmax(a: f64, b: f64) -> f64 {
  return select(select(select(b, a, a >= b), b, f64_isnan(a)), a, f64_isnan(b));
}

fn f64_sign(x: f64) -> f64 {
  return select(0.0lf, 1.0lf, x > 0.0lf) - select(0.0lf, 1.0lf, x < 0.0lf);
}

fn f64_copysign(x: f64, s: f64) -> f64 {
  return bitcast<f64>(f64_magnitude_bits(x) | (bitcast<u64>(s) & 0x8000000000000000lu));
}

// Without its bits below 1. The built-in trunc and round of f64 are f32's on llvmpipe where vectors of eight f64 are no
// registers of the processor's (AVX2 without AVX-512, Mesa 22.3): 1.5 was rounded to 1.
fn f64_trunc(x: f64) -> f64 {
  let bits = bitcast<u64>(x);
  let e = clamp(i32(u32(bits >> 52u) & 0x7ffu) - 1023, -1, 52);
  let kept = select(0xfffffffffffffffflu << u32(52 - max(e, 0)), 0x8000000000000000lu, e < 0);
  return bitcast<f64>(bits & kept);
}

// To the nearest, halves to the even one.
fn f64_round(x: f64) -> f64 {
  let low = f64_trunc(x);
  let d = abs(x - low);
  let half = 0.5lf * low;
  let away = d > 0.5lf || (d == 0.5lf && f64_trunc(half) != half);
  return select(low, low + f64_copysign(1.0lf, x), away);
}

fn f64_frac(x: f64) -> f64 {
  return x - f64_trunc(x);
}

fn f64_sqrt(x: f64) -> f64 {
  return sqrt(x);
}

fn f64_rsqrt(x: f64) -> f64 {
  return 1.0lf / sqrt(x);
}

fn f64_nextafter(a: f64, b: f64) -> f64 {
  let u = bitcast<u64>(a);
  let up = (a < b) == !f64_signbit(a);
  let step = bitcast<f64>(select(u - 1lu, u + 1lu, up));
  let tiny = bitcast<f64>(1lu | (bitcast<u64>(b) & 0x8000000000000000lu));
  let r = select(select(step, tiny, f64_magnitude_bits(a) == 0lu), b, a == b);
  return select(r, f64_nan(), f64_isnan(a) || f64_isnan(b));
}

// 2^n for n in [-1022, 1023].
fn f64_exp2i(n: i32) -> f64 {
  return bitcast<f64>(u64(u32(n + 1023)) << 52u);
}

// x * 2^n in three factors, so that n may cross the whole range.
fn f64_ldexp(x: f64, n: i32) -> f64 {
  let c = clamp(n, -2200, 2200);
  let a = clamp(c, -1000, 1000);
  let b = clamp(c - a, -1000, 1000);
  return x * f64_exp2i(a) * f64_exp2i(b) * f64_exp2i(c - a - b);
}

// The exponent e of a finite x that is not 0, with x = m * 2^e and m in [0.5, 1).
fn f64_exponent(x: f64) -> i32 {
  let e = i32(u32(f64_magnitude_bits(x) >> 52u));
  let low = i32(u32(f64_magnitude_bits(x * 18014398509481984.0lf) >> 52u)) - 54;
  return select(e, low, e == 0) - 1022;
}

fn f64_frexp_exponent(x: f64) -> i32 {
  return select(f64_exponent(x), 0, f64_magnitude_bits(x) == 0lu || !f64_isfinite(x));
}

fn f64_frexp_mantissa(x: f64) -> f64 {
  let plain = f64_magnitude_bits(x) == 0lu || !f64_isfinite(x);
  return select(f64_ldexp(x, -f64_exponent(x)), x, plain);
}

// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2: the Taylor series, whose next term is below 1e-18.
fn f64_exp_poly(r: f64) -> f64 {
  var s = 1.0lf / 87178291200.0lf;
  s = s * r + 1.0lf / 6227020800.0lf;
  s = s * r + 1.0lf / 479001600.0lf;
  s = s * r + 1.0lf / 39916800.0lf;
  s = s * r + 1.0lf / 3628800.0lf;
  s = s * r + 1.0lf / 362880.0lf;
  s = s * r + 1.0lf / 40320.0lf;
  s = s * r + 1.0lf / 5040.0lf;
  s = s * r + 1.0lf / 720.0lf;
  s = s * r + 1.0lf / 120.0lf;
  s = s * r + 1.0lf / 24.0lf;
  s = s * r + 1.0lf / 6.0lf;
  return s * r + 0.5lf;
}

// e^(h + l) 2^k for |l| far below |h|: the sum's rounding error is never made.
fn f64_exp_sum(h: f64, l: f64, k: i32) -> f64 {
  let c = select(select(h, 1500.0lf, h > 1500.0lf), -1500.0lf, h < -1500.0lf);
  let n = f64_round(c * 1.4426950408889634lf);
  let first = c - n * 0.6931471803691238lf;
  let rest = l - n * 1.9082149292705877e-10lf;
  let r = first + rest;
  let lead = f64_head(first);
  return f64_ldexp((1.0lf + lead) + ((first - lead) + (rest + r * r * f64_exp_poly(r))), i32(n) + k);
}

fn f64_exp_scaled(x: f64, k: i32) -> f64 {
  return select(f64_exp_sum(x, 0.0lf, k), x, f64_isnan(x));
}

fn f64_exp(x: f64) -> f64 {
  return f64_exp_scaled(x, 0);
}

fn f64_exp2(x: f64) -> f64 {
  let c = select(select(x, 1100.0lf, x > 1100.0lf), -1100.0lf, x < -1100.0lf);
  let n = f64_round(c);
  let r = c - n;
  let h = f64_head(r);
  let y = f64_exp_sum(h * 0.6931471675634384lf, h * 1.2996506893889889e-08lf + (r - h) * 0.6931471805599453lf, i32(n));
  return select(y, x, f64_isnan(x));
}

fn f64_expm1(x: f64) -> f64 {
  if (f64_isnan(x) || f64_magnitude_bits(x) < 0x3c90000000000000lu) {
    return x;
  }
  if (x > 40.0lf) {
    return f64_exp(x);
  }
  let c = select(x, -100.0lf, x < -100.0lf);
  let n = f64_round(c * 1.4426950408889634lf);
  let first = c - n * 0.6931471803691238lf;
  let rest = -n * 1.9082149292705877e-10lf;
  let r = first + rest;
  let power = f64_exp2i(i32(n));
  let lead = f64_head(first);
  return ((power - 1.0lf) + power * lead) + power * ((first - lead) + (rest + r * r * f64_exp_poly(r)));
}

// The first 26 bits of x.
fn f64_head(x: f64) -> f64 {
  return bitcast<f64>(bitcast<u64>(x) & 0xfffffffff8000000lu);
}

// x, of at most 52 bits, as a whole: without this a - (b - c), where a + c is at hand, may become (a + c) - b.
fn f64_hold(x: f64) -> f64 {
  return bitcast<f64>(bitcast<u64>(x) & 0xfffffffffffffffelu);
}

// (2 atanh(s) - 2 s - 2/3 s^3) / (s z^2) for z = s^2 and |s| <= 0.172.
fn f64_log_poly(z: f64) -> f64 {
  var p = 0.10762867428099888lf;
  p = p * z + 0.10456278375220623lf;
  p = p * z + 0.11766815303434805lf;
  p = p * z + 0.13333296483972507lf;
  p = p * z + 0.15384615761812623lf;
  p = p * z + 0.18181818179652515lf;
  p = p * z + 0.22222222222228444lf;
  p = p * z + 0.28571428571428564lf;
  p = p * z + 0.4lf;
  return p;
}

// log(1 + f) for f in [-0.293, 0.4143] as h + l, of about 65 bits: 2 atanh(s) = 2/3 s (3 + s^2 + ...), s = f / (2 + f).
fn f64_log1p_parts(f: f64) -> vec2<f64> {
  let d = f + 2.0lf;
  let dh = f64_head(d);
  let dl = f - f64_hold(dh - 2.0lf);
  let s = f / d;
  let sh = f64_head(s);
  let sl = (f64_hold(f - sh * dh) - sh * dl) / d;
  let z = s * s;
  let zh = sh * sh;
  let rest = 1.5lf * (z * z) * f64_log_poly(z) + sl * (sh + s);
  let th = f64_head((3.0lf + zh) + rest);
  let tl = rest - f64_hold((th - 3.0lf) - zh);
  let u = sh * th;
  let w = sl * th + tl * s;
  let gh = f64_head(u + w);
  let gl = w - f64_hold(gh - u);
  return vec2<f64>(gh * 0.6666666567325592lf, gh * 9.934107462565104e-09lf + gl * 0.6666666666666666lf);
}

// The exponent e and log(m) = h + l of a finite x = m 2^e > 0, with m in [0.707, 1.414].
fn f64_log_parts(x: f64) -> vec3<f64> {
  let e = f64_exponent(x);
  let m = f64_ldexp(x, -e);
  let small = m < 0.7071067811865476lf;
  let v = f64_log1p_parts(select(m, m + m, small) - 1.0lf);
  return vec3<f64>(f64(select(e, e - 1, small)), v.x, v.y);
}

fn f64_log_special(r: f64, x: f64) -> f64 {
  let negative = select(r, f64_nan(), x < 0.0lf || f64_isnan(x));
  return select(select(negative, -f64_inf(), x == 0.0lf), x, f64_isinf(x) && x > 0.0lf);
}

fn f64_log(x: f64) -> f64 {
  let v = f64_log_parts(x);
  let r = (v.x * 0.6931471803691238lf + v.y) + (v.z + v.x * 1.9082149292705877e-10lf);
  return f64_log_special(r, x);
}

fn f64_log2(x: f64) -> f64 {
  let v = f64_log_parts(x);
  let h = f64_head(v.y);
  let l = (v.y - h) + v.z;
  let r = (v.x + h * 1.4426950216293335lf) + (h * 1.9259629911266175e-08lf + l * 1.4426950408889634lf);
  return f64_log_special(r, x);
}

fn f64_log10(x: f64) -> f64 {
  let v = f64_log_parts(x);
  let h = f64_head(v.y);
  let l = (v.y - h) + v.z;
  let rest = h * 4.798111141615973e-09lf + (l * 0.4342944819032518lf + v.x * 1.1451100898021838e-10lf);
  let r = (v.x * 0.3010299955494702lf + h * 0.4342944771051407lf) + rest;
  return f64_log_special(r, x);
}

// log(1 + h + l), for |l| far below |h|.
fn f64_log1p_sum(h: f64, l: f64) -> f64 {
  if (h > -0.2929lf && h < 0.4142lf) {
    let v = f64_log1p_parts(h);
    return v.x + (v.y + l / (1.0lf + h));
  }
  let u = f64_head(1.0lf + h);
  let rest = select(f64_hold(1.0lf - u) + h, f64_hold(h - u) + 1.0lf, h > 1.0lf) + l;
  let q = rest / u;
  let v = f64_log_parts(u);
  return (v.x * 0.6931471803691238lf + v.y) + ((v.z + v.x * 1.9082149292705877e-10lf) + (q - 0.5lf * q * q));
}

fn f64_log1p(x: f64) -> f64 {
  if (abs(x) < 1e-18lf || f64_isnan(x) || x > 1e300lf) {
    return select(x, f64_log(x), x > 1.0lf);
  }
  if (x <= -1.0lf) {
    return select(-f64_inf(), f64_nan(), x < -1.0lf);
  }
  return f64_log1p_sum(x, 0.0lf);
}

fn f64_sigmoid(x: f64) -> f64 {
  return 1.0lf / (1.0lf + f64_exp(-x));
}

fn f64_tanh(x: f64) -> f64 {
  let t = f64_expm1(2.0lf * select(abs(x), 20.0lf, abs(x) > 20.0lf));
  return select(f64_copysign(t / (t + 2.0lf), x), x, f64_isnan(x));
}

fn f64_sinh(x: f64) -> f64 {
  let a = abs(x);
  let t = f64_expm1(select(a, 0.0lf, a > 40.0lf));
  let y = select(0.5lf * (t + t / (t + 1.0lf)), f64_exp_scaled(a, -1), a > 40.0lf);
  return f64_copysign(select(y, x, f64_isnan(x)), x);
}

fn f64_cosh(x: f64) -> f64 {
  let h = f64_exp_scaled(abs(x), -1);
  return h + 0.25lf / h;
}

// sqrt(w + l) as h + l', where w is a double and l small beside it.
fn f64_sqrt_sum(w: f64, l: f64) -> vec2<f64> {
  let s = sqrt(w);
  let h = f64_head(s);
  return vec2<f64>(h, ((w - h * h) + l) / (s + h));
}

fn f64_asinh(x: f64) -> f64 {
  let a = abs(x);
  if (f64_isnan(x) || a < 1e-9lf) {
    return x;
  }
  if (a > 1e9lf) {
    return f64_copysign(f64_log(a) + 0.6931471805599453lf, x);
  }
  // x + (sqrt(1 + x^2) - 1), and the square root less 1 as x^2 / (1 + sqrt(1 + x^2)).
  let ah = f64_head(a);
  let square = a * a;
  let left = f64_hold(ah * ah - square) + (a - ah) * (a + ah);
  let d = 1.0lf + sqrt(1.0lf + square);
  let dh = f64_head(d);
  let dl = f64_hold(1.0lf - dh) + sqrt(1.0lf + square);
  let q = square / d;
  let qh = f64_head(q);
  let sh = f64_head(square);
  let ql = ((f64_hold(sh - qh * dh) + (square - sh)) - qh * dl + left) / d;
  let sum = a + qh;
  let th = f64_head(sum);
  return f64_copysign(f64_log1p_sum(th, (f64_hold(qh - th) + a) + ql), x);
}

fn f64_acosh(x: f64) -> f64 {
  if (!(x >= 1.0lf)) {
    return select(f64_nan(), x, f64_isnan(x));
  }
  if (x > 1e9lf) {
    return f64_log(x) + 0.6931471805599453lf;
  }
  // log(1 + t + sqrt(t (t + 2))) for t = x - 1.
  let t = x - 1.0lf;
  let th = f64_head(t);
  let tl = t - th;
  let w = th * th + 2.0lf * th;
  let wh = f64_head(w);
  let root = f64_sqrt_sum(w, (f64_hold(th * th - wh) + 2.0lf * th) + f64_hold(wh - w) + tl * (t + th + 2.0lf));
  let sum = th + root.x;
  let h = f64_head(sum);
  return select(f64_log1p_sum(h, (f64_hold(th - h) + root.x) + (root.y + tl)), 0.0lf, t == 0.0lf);
}

fn f64_atanh(x: f64) -> f64 {
  let a = abs(x);
  if (f64_isnan(x) || a < 1e-9lf) {
    return x;
  }
  if (!(a < 1.0lf)) {
    return select(f64_nan(), f64_copysign(f64_inf(), x), a == 1.0lf);
  }
  // log(1 + q) / 2 for q = 2 a / (1 - a).
  let d = 1.0lf - a;
  let dh = f64_head(d);
  let dl = select(f64_hold(1.0lf - dh) - a, d - dh, a > 0.5lf);  // above, d is exact
  let q = 2.0lf * a / d;
  let qh = f64_head(q);
  let ah = f64_head(a);
  let ql = ((f64_hold(2.0lf * ah - qh * dh) - qh * dl) + 2.0lf * (a - ah)) / d;
  return f64_copysign(0.5lf * f64_log1p_sum(qh, ql), x);
}

fn f64_hypot(a: f64, b: f64) -> f64 {
  if (f64_isinf(a) || f64_isinf(b)) {
    return f64_inf();
  }
  if (f64_isnan(a) || f64_isnan(b)) {
    return f64_nan();
  }
  let larger = select(abs(b), abs(a), abs(a) > abs(b));
  let smaller = select(abs(a), abs(b), abs(a) > abs(b));
  if (larger == 0.0lf) {
    return 0.0lf;
  }
  let e = f64_exponent(larger);
  let x = f64_ldexp(larger, -e);
  let y = f64_ldexp(smaller, -e);
  let h = f64_head(x);
  return f64_ldexp(sqrt(h * h + ((x - h) * (x + h) + y * y)), e);
}

// x^y = e^(y log x), with log x and its product with y as sums of two.
fn f64_pow(x: f64, y: f64) -> f64 {
  let a = abs(x);
  let v = f64_log_parts(a);
  let lead = v.x * 0.6931471803691238lf;
  let lh = f64_head(lead + v.y);
  let ll = (f64_hold(lead - lh) + v.y) + (v.z + v.x * 1.9082149292705877e-10lf);
  let c = select(select(y, 1e20lf, y > 1e20lf), -1e20lf, y < -1e20lf);
  let ch = f64_head(c);
  let ph = ch * lh;
  let pl = (c - ch) * lh + c * ll;
  let far = abs(ph) > 1500.0lf;
  let finite = f64_exp_sum(select(ph, f64_copysign(1500.0lf, ph), far), select(pl, 0.0lf, far), 0);

  let endless = f64_isinf(y);
  let edge = a == 0.0lf || f64_isinf(x);
  var r = select(finite, select(0.0lf, f64_inf(), (a > 1.0lf) == (y > 0.0lf)), edge || endless);
  let whole = y == floor(y);
  let odd = whole && abs(y) < 9007199254740992.0lf && !(floor(0.5lf * y) * 2.0lf == y);
  r = select(r, -r, odd && f64_signbit(x));
  r = select(r, f64_nan(), (x < 0.0lf && !edge && !whole) || f64_isnan(x) || f64_isnan(y));
  return select(r, 1.0lf, x == 1.0lf || y == 0.0lf || (a == 1.0lf && endless));
}

// Long division of the significands, eleven bits a step: exact, as C's fmod.
fn f64_fmod(x: f64, y: f64) -> f64 {
  if (f64_isnan(x) || f64_isnan(y) || f64_isinf(x) || y == 0.0lf) {
    return f64_nan();
  }
  if (abs(x) < abs(y) || x == 0.0lf) {
    return x;
  }
  let ex = f64_exponent(x);
  let ey = f64_exponent(y);
  var m = u64(f64_ldexp(abs(x), 53 - ex));
  let d = u64(f64_ldexp(abs(y), 53 - ey));
  var left = u32(ex - ey);
  m = m % d;
  for (var trip = 0; trip < 200 && left != 0u; trip++) {
    let step = min(left, 11u);
    m = (m << step) % d;
    left -= step;
  }
  return f64_copysign(f64_ldexp(f64(m), ey - 53), x);
}

fn f64_remainder(x: f64, y: f64) -> f64 {
  let r = f64_fmod(x, y);
  return select(r, r + y, !(r == 0.0lf) && ((r < 0.0lf) != (y < 0.0lf)));
}

fn f64_floor_divide(x: f64, y: f64) -> f64 {
  if (y == 0.0lf) {
    return x / y;
  }
  let r = f64_fmod(x, y);
  var q = (x - r) / y;
  q = select(q, q - 1.0lf, !(r == 0.0lf) && ((y < 0.0lf) != (r < 0.0lf)));
  let f = floor(q);
  return select(select(f, f + 1.0lf, q - f > 0.5lf), f64_copysign(0.0lf, x / y), q == 0.0lf);
}

// Out of range and NaN become MIN, as the CPU's conversion.
fn i32_from_f64(x: f64) -> i32 {
  let inside = x > -2147483649.0lf && x < 2147483648.0lf;
  return select(-2147483647 - 1, i32(select(0.0lf, x, inside)), inside);
}

fn n64_from_f64(x: f64) -> i64 {
  let inside = x >= -9223372036854775808.0lf && x < 9223372036854775808.0lf;
  return select(n64_load(0u, 0x80000000u), i64(select(0.0lf, x, inside)), inside);
}

fn u32_from_f64(x: f64) -> u32 {
  return n64_lo(n64_from_f64(x));
}

fn nu64_from_f64(x: f64) -> u64 {
  let high = x >= 9223372036854775808.0lf && x < 18446744073709551616.0lf;
  return select(u64(n64_from_f64(x)), u64(select(0.0lf, x, high)), high);
}
