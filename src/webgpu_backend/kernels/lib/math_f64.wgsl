// float64 on adapters with shader-f64 and shader-int64. Built-in f64 exp and log are garbage on one driver (see the
// design notes), + - * / sqrt are right: everything here is made of those and of the bits.
// sin, cos and the special functions have no f64 form yet and run on the CPU, counted.

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

fn f64_min(a: f64, b: f64) -> f64 {
  return select(select(select(b, a, a < b), a, f64_isnan(a)), b, f64_isnan(b));
}

fn f64_max(a: f64, b: f64) -> f64 {
  return select(select(select(b, a, a > b), a, f64_isnan(a)), b, f64_isnan(b));
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

fn f64_round(x: f64) -> f64 {
  return round(x);
}

fn f64_frac(x: f64) -> f64 {
  return x - trunc(x);
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

// e^r - 1 for |r| <= ln(2) / 2: the Taylor series, whose next term is below 1e-18.
fn f64_expm1_poly(r: f64) -> f64 {
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
  s = s * r + 0.5lf;
  return s * r * r + r;
}

fn f64_exp(x: f64) -> f64 {
  let c = select(select(x, 710.0lf, x > 710.0lf), -750.0lf, x < -750.0lf);
  let n = round(c * 1.4426950408889634lf);
  let r = (c - n * 0.6931471803691238lf) - n * 1.9082149292705877e-10lf;
  let y = f64_ldexp(1.0lf + f64_expm1_poly(r), i32(n));
  return select(y, x, f64_isnan(x));
}

fn f64_exp2(x: f64) -> f64 {
  let c = select(select(x, 1100.0lf, x > 1100.0lf), -1100.0lf, x < -1100.0lf);
  let n = round(c);
  let y = f64_ldexp(1.0lf + f64_expm1_poly((c - n) * 0.6931471805599453lf), i32(n));
  return select(y, x, f64_isnan(x));
}

fn f64_expm1(x: f64) -> f64 {
  return select(f64_exp(x) - 1.0lf, f64_expm1_poly(x), abs(x) < 0.34lf);
}

// 2 atanh(s) for |s| <= 0.172.
fn f64_log_series(s: f64) -> f64 {
  let z = s * s;
  var p = 1.0lf / 23.0lf;
  p = p * z + 1.0lf / 21.0lf;
  p = p * z + 1.0lf / 19.0lf;
  p = p * z + 1.0lf / 17.0lf;
  p = p * z + 1.0lf / 15.0lf;
  p = p * z + 1.0lf / 13.0lf;
  p = p * z + 1.0lf / 11.0lf;
  p = p * z + 1.0lf / 9.0lf;
  p = p * z + 1.0lf / 7.0lf;
  p = p * z + 0.2lf;
  p = p * z + 1.0lf / 3.0lf;
  return 2.0lf * (s + s * z * p);
}

fn f64_log_special(r: f64, x: f64) -> f64 {
  let negative = select(r, f64_nan(), x < 0.0lf || f64_isnan(x));
  return select(select(negative, -f64_inf(), x == 0.0lf), x, f64_isinf(x) && x > 0.0lf);
}

fn f64_log(x: f64) -> f64 {
  let e0 = f64_exponent(x);
  let m0 = f64_ldexp(x, -e0);
  let small = m0 < 0.7071067811865476lf;
  let m = select(m0, m0 + m0, small);
  let e = f64(select(e0, e0 - 1, small));
  let r = e * 0.6931471803691238lf + (f64_log_series((m - 1.0lf) / (m + 1.0lf)) + e * 1.9082149292705877e-10lf);
  return f64_log_special(r, x);
}

fn f64_log2(x: f64) -> f64 {
  return f64_log(x) * 1.4426950408889634lf;
}

fn f64_log10(x: f64) -> f64 {
  return f64_log(x) * 0.4342944819032518lf;
}

fn f64_log1p(x: f64) -> f64 {
  return select(f64_log(1.0lf + x), f64_log_series(x / (2.0lf + x)), x > -0.29lf && x < 0.41lf);
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
  let t = f64_expm1(a);
  let half = 0.5lf * f64_exp(0.5lf * a);
  let y = select(0.5lf * (t + t / (t + 1.0lf)), half * f64_exp(0.5lf * a), a > 40.0lf);
  return f64_copysign(y, x);
}

fn f64_cosh(x: f64) -> f64 {
  let h = f64_exp(0.5lf * abs(x));
  return 0.5lf * h * h + 0.5lf / h / h;
}

fn f64_hypot(a: f64, b: f64) -> f64 {
  let x = max(abs(a), abs(b));
  let y = min(abs(a), abs(b)) / select(x, 1.0lf, x == 0.0lf);
  let r = select(x * sqrt(1.0lf + y * y), f64_nan(), f64_isnan(a) || f64_isnan(b));
  return select(r, f64_inf(), f64_isinf(a) || f64_isinf(b));
}

fn f64_pow(x: f64, y: f64) -> f64 {
  let a = abs(x);
  let whole = y == floor(y);
  let odd = whole && abs(y) < 9007199254740992.0lf && !(floor(0.5lf * y) * 2.0lf == y);
  var r = select(f64_exp(y * f64_log(a)), 1.0lf, a == 1.0lf);
  r = select(r, -r, odd && f64_signbit(x));
  r = select(r, f64_nan(), x < 0.0lf && !whole && f64_isfinite(x));
  r = select(r, f64_nan(), f64_isnan(x) || f64_isnan(y));
  return select(r, 1.0lf, x == 1.0lf || y == 0.0lf);
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
