// The gamma function, its derivatives, and incomplete ones in f32: see math_f32.wgsl.

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
  if (b < 1e-35) {  // the first part may still be a number
    return sum + f32_pow(a, 1.0 - x) * (1.0 / (x - 1.0) + (0.5 + s) / a);
  }
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
  if (f32_lt(x, 0.0) || f32_lt(a, 0.0) || (f32_eq(a, 0.0) && !f32_gt(x, 0.0)) || (f32_isinf(a) && f32_isinf(x))) {
    return f32_nan();
  }
  if (f32_eq(a, 0.0)) {
    return select(0.0, 1.0, lower);
  }
  if (f32_eq(x, 0.0) || f32_isinf(a)) {
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
