// complex64 as vec2<f32> (real, imaginary), with the branch cuts and special values of C99's annex G, which torch on a
// CPU takes from the C library. Components reach f32 through math_f32.wgsl only: NaN is tested on the bits, since
// drivers may assume it away.
//
// complex128 has the same text with the types exchanged (text/library.py), so that numbers which depend on the precision
// have names; those of complex128 are in math_c128.wgsl.

const C64_LN2: f32 = 0.69314718;
const C64_LN10: f32 = 2.3025851;
// pi, pi / 2, and what is to be subtracted from them.
const C64_PI: f32 = 3.1415927;
const C64_PI_REST: f32 = 8.7422777e-8;
const C64_HALF_PI: f32 = 1.5707964;
const C64_HALF_PI_REST: f32 = 4.3711388e-8;
// e^88 is nearly the largest number.
const C64_LONG_STEP: f32 = 88.0;
const C64_LONG_STEP_EXP: f32 = 1.6516363e38;
// Below the first asinh(z) is z, above the second it is log(2 z).
const C64_TINY: f32 = 2e-4;
const C64_HUGE: f32 = 8e6;
// The last place of 1; its square / 128; itself / 128; 4 over its square; the root of the smallest number.
const C64_EPSILON: f32 = 0x1p-23f;
const C64_TINY_LEG: f32 = 0x1p-53f;
const C64_SMALL_LEG: f32 = 0x1p-30f;
const C64_LARGE_SIDE: f32 = 0x1p48f;
const C64_TINY_SQUARE: f32 = 0x1p-63f;

fn c64_add(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  return a + b;
}

fn c64_sub(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  return a - b;
}

fn c64_mul(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  return vec2<f32>(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// x / y where y may be close to overflow, or to zero: WGSL asks nothing of division by more than 2^126, and some GPUs give
// 0; and compilers multiply by a reciprocal, which may be infinite.
fn c64_ratio(x: f32, y: f32) -> f32 {
  let scale = select(select(1.0, 0x1p-32f, abs(y) > 0x1p100f), 0x1p32f, abs(y) < 0x1p-100f);
  return (x * scale) / (y * scale);
}

// x * ratio of a division: a driver that knows the ratio to be 0 takes infinity times it for 0.
fn c64_scaled(x: f32, ratio: f32) -> f32 {
  return select(x * ratio, f32_nan(), f32_eq(ratio, 0.0) && !f32_isfinite(x));
}

// Smith's scaled division as torch, so that overflow and NaN come at the same operands. torch multiplies by the
// denominator's inverse; where denormals are flushed that inverse may be 0 for a quotient well in range.
fn c64_div(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  let c = abs(b.x);
  let d = abs(b.y);
  if (f32_isnan(c) || f32_isnan(d)) { // a driver that knows b.y to be 0 loses it
    return vec2<f32>(f32_nan());
  }
  if (c == 0.0 && d == 0.0) {
    return vec2<f32>(c64_div_zero(a.x), c64_div_zero(a.y));
  }
  if (c >= d) {
    let ratio = c64_ratio(b.y, b.x);
    let norm = b.x + b.y * ratio;
    return vec2<f32>(c64_ratio(a.x + c64_scaled(a.y, ratio), norm), c64_ratio(a.y - c64_scaled(a.x, ratio), norm));
  }
  let ratio = c64_ratio(b.x, b.y);
  let norm = b.y + b.x * ratio;
  return vec2<f32>(c64_ratio(c64_scaled(a.x, ratio) + a.y, norm), c64_ratio(c64_scaled(a.y, ratio) - a.x, norm));
}

// x / +0, spelled out because WGSL leaves float division by zero to the implementation.
fn c64_div_zero(x: f32) -> f32 {
  return select(f32_copysign(f32_inf(), x), f32_nan(), x == 0.0 || f32_isnan(x));
}

fn c64_neg(a: vec2<f32>) -> vec2<f32> {
  return -a;
}

fn c64_conj(a: vec2<f32>) -> vec2<f32> {
  return vec2<f32>(a.x, -a.y);
}

fn c64_abs(a: vec2<f32>) -> f32 {
  return f32_hypot(a.x, a.y);
}

fn c64_angle(a: vec2<f32>) -> f32 {
  return f32_atan2(a.y, a.x);
}

fn c64_polar(r: f32, angle: f32) -> vec2<f32> {
  return vec2<f32>(r * f32_cos(angle), r * f32_sin(angle));
}

// +0 for -0: what adding 0 does, which compilers drop.
fn c64_unsigned_zero(x: f32) -> f32 {
  return select(x, 0.0, f32_eq(x, 0.0));
}

// c64_div of 1, with its zeros signed as torch's.
fn c64_recip(a: vec2<f32>) -> vec2<f32> {
  let c = abs(a.x);
  let d = abs(a.y);
  if (c64_isnan(a)) {
    return vec2<f32>(f32_nan());
  }
  if (c == 0.0 && d == 0.0) {
    return vec2<f32>(f32_inf(), f32_nan());
  }
  if (c >= d) {
    let ratio = c64_ratio(a.y, a.x);
    let norm = a.x + a.y * ratio;
    return vec2<f32>(c64_ratio(1.0, norm), c64_ratio(c64_unsigned_zero(-ratio), norm));
  }
  let ratio = c64_ratio(a.x, a.y);
  let norm = a.y + a.x * ratio;
  return vec2<f32>(c64_ratio(c64_unsigned_zero(ratio), norm), -c64_ratio(1.0, norm));
}

fn c64_eq(a: vec2<f32>, b: vec2<f32>) -> bool {
  return f32_eq(a.x, b.x) && f32_eq(a.y, b.y);
}

fn c64_ne(a: vec2<f32>, b: vec2<f32>) -> bool {
  return !c64_eq(a, b);
}

fn c64_isnan(a: vec2<f32>) -> bool {
  return f32_isnan(a.x) || f32_isnan(a.y);
}

fn c64_isinf(a: vec2<f32>) -> bool {
  return f32_isinf(a.x) || f32_isinf(a.y);
}

fn c64_isfinite(a: vec2<f32>) -> bool {
  return f32_isfinite(a.x) && f32_isfinite(a.y);
}

// NaN counts as true, as in torch.
fn c64_to_bool(a: vec2<f32>) -> bool {
  return ((bitcast<u32>(a.x) | bitcast<u32>(a.y)) & 0x7fffffffu) != 0u;
}

fn c64_sgn(a: vec2<f32>) -> vec2<f32> {
  if (c64_isnan(a)) {
    return vec2<f32>(f32_nan());
  }
  let r = c64_abs(a);
  return select(vec2<f32>(c64_ratio(a.x, r), c64_ratio(a.y, r)), vec2<f32>(0.0, 0.0), f32_eq(r, 0.0));
}

// The product with i and with -i, without the NaN that a multiplication by 0 would bring.
fn c64_times_i(a: vec2<f32>) -> vec2<f32> {
  return vec2<f32>(-a.y, a.x);
}

fn c64_over_i(a: vec2<f32>) -> vec2<f32> {
  return vec2<f32>(a.y, -a.x);
}

// e^x (c + i s), scaled in steps: it may be in range where e^x is not.
fn c64_exp_times(x: f32, c: f32, s: f32) -> vec2<f32> {
  var v = vec2<f32>(c, s);
  var t = x;
  if (t > C64_LONG_STEP) {
    v *= C64_LONG_STEP_EXP;
    t -= C64_LONG_STEP;
    if (t > C64_LONG_STEP) {
      v *= C64_LONG_STEP_EXP;
      t -= C64_LONG_STEP;
    }
  }
  return v * f32_exp(t);
}

fn c64_exp(a: vec2<f32>) -> vec2<f32> {
  if (f32_eq(a.y, 0.0)) {
    return vec2<f32>(f32_exp(a.x), a.y);
  }
  if (!f32_isfinite(a.y)) {
    // e^-inf is 0 whatever the angle, e^inf is an infinity of unknown angle, everything else is unknown.
    if (f32_isinf(a.x)) {
      let zero = vec2<f32>(0.0, f32_copysign(0.0, a.y));
      return select(vec2<f32>(a.x, f32_nan()), zero, a.x < 0.0);
    }
    return vec2<f32>(f32_nan(), f32_nan());
  }
  return c64_exp_times(a.x, f32_cos(a.y), f32_sin(a.y));
}

fn c64_exp2(a: vec2<f32>) -> vec2<f32> {
  return c64_exp(a * C64_LN2);
}

fn c64_expm1(a: vec2<f32>) -> vec2<f32> {
  let s = f32_sin(0.5 * a.y);
  return vec2<f32>(f32_expm1(a.x) * f32_cos(a.y) - 2.0 * s * s, f32_exp(a.x) * f32_sin(a.y));
}

// h^2 + l^2 - 1 for h in [0.5, 1.5] and l <= h, accurate to 2^-34 where it cancels: the leading halves of h and l have
// 12 bits, so their squares and the first sum are exact. With a small l the plain form loses less.
fn c64_norm_minus_one(h: f32, l: f32) -> f32 {
  if (l < 0.03) {
    return (h - 1.0) * (h + 1.0) + l * l;
  }
  let h1 = f32_head(h);
  let h2 = h - h1;
  let l1 = f32_head(l);
  let l2 = l - l1;
  return fma(l1, l1, fma(h1, h1, -1.0)) + ((2.0 * h1 * h2 + 2.0 * l1 * l2) + (h2 * h2 + l2 * l2));
}

// log|a|, without overflow on the way and with small relative error on both sides of the unit circle.
fn c64_log_abs(a: vec2<f32>) -> f32 {
  let x = abs(a.x);
  let y = abs(a.y);
  if (f32_isinf(x) || f32_isinf(y)) {
    return f32_inf();
  }
  if (f32_isnan(x) || f32_isnan(y)) {
    return f32_nan();
  }
  let h = max(x, y);
  let l = min(x, y);
  if (h == 0.0) {
    return -f32_inf();
  }
  if (h > 0.5 && h < 1.5) {
    return 0.5 * f32_log1p(c64_norm_minus_one(h, l));
  }
  let ratio = c64_ratio(l, h);
  return f32_log(h) + 0.5 * f32_log1p(ratio * ratio);
}

fn c64_log(a: vec2<f32>) -> vec2<f32> {
  return vec2<f32>(c64_log_abs(a), f32_atan2(a.y, a.x));
}

fn c64_log2(a: vec2<f32>) -> vec2<f32> {
  return c64_log(a) / C64_LN2;
}

fn c64_log10(a: vec2<f32>) -> vec2<f32> {
  return c64_log(a) / C64_LN10;
}

fn c64_log1p(a: vec2<f32>) -> vec2<f32> {
  let u = vec2<f32>(a.x + 1.0, a.y);
  let near = abs(a.x) < 0.25 && abs(a.y) < 0.25;
  if (near) {
    let t = a.x * (2.0 + a.x) + a.y * a.y;
    return vec2<f32>(select(0.5 * f32_log1p(t), a.x, t == 0.0), f32_atan2(a.y, u.x));
  }
  return c64_log(u);
}

fn c64_sqrt(a: vec2<f32>) -> vec2<f32> {
  if (f32_isinf(a.y)) {
    return vec2<f32>(f32_inf(), a.y);
  }
  if (f32_isinf(a.x)) {
    let rest = select(f32_copysign(0.0, a.y), f32_nan(), f32_isnan(a.y));
    return select(vec2<f32>(a.x, rest), vec2<f32>(abs(rest), f32_copysign(f32_inf(), a.y)), a.x < 0.0);
  }
  if (c64_isnan(a)) {
    return vec2<f32>(f32_nan(), f32_nan());
  }
  let h = max(abs(a.x), abs(a.y));
  if (h == 0.0) {
    return vec2<f32>(0.0, a.y);
  }
  // Powers of four, so that the root's scale is exact.
  let scale = select(select(1.0, 0x1p-4f, h > 0x1p100f), 0x1p60f, h < 0x1p-60f);
  let unscale = select(select(1.0, 0x1p2f, h > 0x1p100f), 0x1p-30f, h < 0x1p-60f);
  let b = a * scale;
  let t = f32_sqrt(0.5 * (abs(b.x) + f32_hypot(b.x, b.y)));
  let other = b.y / (2.0 * t);
  let right = vec2<f32>(t, other);
  let left = vec2<f32>(abs(other), f32_copysign(t, b.y));
  return select(right, left, a.x < 0.0) * unscale;
}

fn c64_rsqrt(a: vec2<f32>) -> vec2<f32> {
  return c64_recip(c64_sqrt(a));
}

fn c64_sinh(a: vec2<f32>) -> vec2<f32> {
  if (f32_eq(a.y, 0.0)) {
    return vec2<f32>(f32_sinh(a.x), a.y);
  }
  if (!f32_isfinite(a.y)) {
    let real = select(f32_nan(), a.x, f32_eq(a.x, 0.0));
    return vec2<f32>(select(real, f32_inf(), f32_isinf(a.x)), f32_nan());
  }
  let c = f32_cos(a.y);
  let s = f32_sin(a.y);
  if (abs(a.x) > 20.0) {
    let v = c64_exp_times(abs(a.x), 0.5 * c, 0.5 * s);
    return vec2<f32>(select(v.x, -v.x, a.x < 0.0), v.y);
  }
  return vec2<f32>(f32_sinh(a.x) * c, f32_cosh(a.x) * s);
}

fn c64_cosh(a: vec2<f32>) -> vec2<f32> {
  if (f32_eq(a.y, 0.0)) {
    let sign = f32_copysign(0.0, select(1.0, -1.0, f32_signbit(a.x) != f32_signbit(a.y)));
    return vec2<f32>(f32_cosh(a.x), select(sign, a.y, f32_isnan(a.x)));
  }
  if (!f32_isfinite(a.y)) {
    return vec2<f32>(select(f32_nan(), f32_inf(), f32_isinf(a.x)), select(f32_nan(), 0.0, f32_eq(a.x, 0.0)));
  }
  let c = f32_cos(a.y);
  let s = f32_sin(a.y);
  if (abs(a.x) > 20.0) {
    let v = c64_exp_times(abs(a.x), 0.5 * c, 0.5 * s);
    return vec2<f32>(v.x, select(v.y, -v.y, a.x < 0.0));
  }
  return vec2<f32>(f32_cosh(a.x) * c, f32_sinh(a.x) * s);
}

fn c64_tanh(a: vec2<f32>) -> vec2<f32> {
  if (f32_isinf(a.x)) {
    let s = f32_sin(a.y) * f32_cos(a.y);
    return vec2<f32>(f32_copysign(1.0, a.x), f32_copysign(0.0, select(a.y, s, f32_isfinite(a.y) && abs(a.y) > 1.0)));
  }
  if (f32_eq(a.y, 0.0)) {
    return vec2<f32>(f32_tanh(a.x), a.y);
  }
  if (!f32_isfinite(a.y)) {
    return vec2<f32>(select(f32_nan(), a.x, f32_eq(a.x, 0.0)), f32_nan());
  }
  let c = f32_cos(a.y);
  let s = f32_sin(a.y);
  if (abs(a.x) > 20.0) {
    let e = f32_exp(-abs(a.x));
    return vec2<f32>(f32_copysign(1.0, a.x), 4.0 * s * c * e * e);
  }
  let sh = f32_sinh(a.x);
  let norm = sh * sh + c * c;
  return vec2<f32>(sh * f32_cosh(a.x) / norm, s * c / norm);
}

fn c64_sin(a: vec2<f32>) -> vec2<f32> {
  if (f32_isinf(a.y) && !f32_isfinite(a.x)) {
    return vec2<f32>(f32_nan(), f32_inf());
  }
  return c64_over_i(c64_sinh(c64_times_i(a)));
}

fn c64_cos(a: vec2<f32>) -> vec2<f32> {
  return c64_cosh(c64_times_i(a));
}

fn c64_tan(a: vec2<f32>) -> vec2<f32> {
  return c64_over_i(c64_tanh(c64_times_i(a)));
}

// The inverse functions follow Hull, Fairgrieve and Tang, "Implementing the complex arcsine and arccosine functions
// using exception handling", in the form of FreeBSD's catrigf.c. This is (hypot(a, b) - b) / 2 without cancellation.
fn c64_half_excess(a: f32, b: f32, hypotenuse: f32) -> f32 {
  if (b < 0.0) {
    return 0.5 * (hypotenuse - b);
  }
  return select(0.5 * (a * (a / (hypotenuse + b))), 0.5 * a, b == 0.0);
}

// For x, y >= 0, not both tiny or huge: x = the real part of asinh(x + iy), y = its imaginary part (an asin),
// z = the complement of y to a right angle (an acos).
fn c64_asinh_parts(x: f32, y: f32) -> vec3<f32> {
  let below = abs(y - 1.0);
  let r = f32_hypot(x, y + 1.0);
  let s = f32_hypot(x, y - 1.0);
  let a = max(0.5 * (r + s), 1.0);
  var real = 0.0;
  if (a >= 10.0) {
    real = f32_log(a + f32_sqrt(a * a - 1.0));
  } else if (y == 1.0 && x < C64_TINY_LEG) {
    real = f32_sqrt(x);
  } else if (x >= C64_EPSILON * below) {
    let over = c64_half_excess(x, 1.0 + y, r) + c64_half_excess(x, 1.0 - y, s);
    real = f32_log1p(over + f32_sqrt(over * (a + 1.0)));
  } else if (y < 1.0) {
    real = x / f32_sqrt((1.0 - y) * (1.0 + y));
  } else {
    real = f32_log1p(below + f32_sqrt(below * (y + 1.0)));
  }
  let b = y / a;
  if (b <= 0.6417) {
    return vec3<f32>(real, f32_asin(b), f32_acos(b));
  }
  // sqrt(a^2 - y^2), and y on the same scale.
  var leg = 0.0;
  var side = y;
  if (y == 1.0 && x < C64_SMALL_LEG) {
    leg = f32_sqrt(x) * f32_sqrt(0.5 * (a + y));
  } else if (x >= C64_EPSILON * below) {
    let over = c64_half_excess(x, y + 1.0, r) + c64_half_excess(x, y - 1.0, s);
    leg = f32_sqrt(over * (a + y));
  } else if (y > 1.0) {
    leg = x * C64_LARGE_SIDE * y / f32_sqrt((y + 1.0) * (y - 1.0));
    side = y * C64_LARGE_SIDE;
  } else {
    leg = f32_sqrt((1.0 - y) * (1.0 + y));
  }
  return vec3<f32>(real, f32_atan2(side, leg), f32_atan2(leg, side));
}

fn c64_asinh(a: vec2<f32>) -> vec2<f32> {
  let x = abs(a.x);
  let y = abs(a.y);
  if (c64_isnan(a)) {
    if (f32_isinf(a.x)) {
      return vec2<f32>(a.x, f32_nan());
    }
    if (f32_isinf(a.y)) {
      return vec2<f32>(f32_inf(), f32_nan());
    }
    return vec2<f32>(f32_nan(), select(f32_nan(), a.y, f32_eq(a.y, 0.0)));
  }
  if (x < C64_TINY && y < C64_TINY) {
    return a;
  }
  if (x > C64_HUGE || y > C64_HUGE) {
    let w = c64_log(vec2<f32>(x, y));
    return vec2<f32>(f32_copysign(w.x + C64_LN2, a.x), f32_copysign(w.y, a.y));
  }
  let parts = c64_asinh_parts(x, y);
  return vec2<f32>(f32_copysign(parts.x, a.x), f32_copysign(parts.y, a.y));
}

fn c64_asin(a: vec2<f32>) -> vec2<f32> {
  return c64_asinh(a.yx).yx;
}

fn c64_acos(a: vec2<f32>) -> vec2<f32> {
  let x = abs(a.x);
  let y = abs(a.y);
  if (c64_isnan(a)) {
    if (f32_isinf(a.x)) {
      return vec2<f32>(f32_nan(), -f32_inf());
    }
    if (f32_isinf(a.y)) {
      return vec2<f32>(f32_nan(), -a.y);
    }
    return vec2<f32>(select(f32_nan(), C64_HALF_PI, f32_eq(a.x, 0.0)), f32_nan());
  }
  if (x < C64_TINY && y < C64_TINY) {
    return vec2<f32>(C64_HALF_PI - (a.x + C64_HALF_PI_REST), -a.y);
  }
  var real = 0.0;
  var imaginary = 0.0;
  if (x > C64_HUGE || y > C64_HUGE) {
    let w = c64_log(a);
    real = abs(w.y);
    imaginary = w.x + C64_LN2;
  } else {
    let parts = c64_asinh_parts(y, x);
    real = select(parts.z, C64_PI - (parts.z + C64_PI_REST), f32_signbit(a.x));
    imaginary = parts.x;
  }
  return vec2<f32>(real, select(-imaginary, imaginary, f32_signbit(a.y)));
}

fn c64_acosh(a: vec2<f32>) -> vec2<f32> {
  let w = c64_acos(a);
  if (f32_isnan(w.x)) {
    return vec2<f32>(abs(w.y), f32_nan());
  }
  return select(vec2<f32>(abs(w.y), f32_copysign(w.x, a.y)), w.yx, f32_isnan(w.y));
}

fn c64_atanh(a: vec2<f32>) -> vec2<f32> {
  let x = abs(a.x);
  let y = abs(a.y);
  if (c64_isnan(a)) {
    if (f32_isinf(a.x)) {
      return vec2<f32>(f32_copysign(0.0, a.x), f32_nan());
    }
    if (f32_isinf(a.y)) {
      return vec2<f32>(f32_copysign(0.0, a.x), f32_copysign(C64_HALF_PI, a.y));
    }
    return vec2<f32>(select(f32_nan(), a.x, f32_eq(a.x, 0.0)), f32_nan());
  }
  // By bits: where a number is known to be zero, a compiler that knows one zero takes it for the positive one.
  if (f32_eq(a.y, 0.0) && x <= 1.0) {
    return vec2<f32>(f32_atanh(a.x), a.y);
  }
  if (f32_eq(a.x, 0.0)) {
    return vec2<f32>(a.x, f32_atan(a.y));
  }
  if (x < C64_TINY && y < C64_TINY) {
    return a;
  }
  if (x > C64_HUGE || y > C64_HUGE) {
    let zero = f32_isinf(x) || f32_isinf(y);
    let inverse = 0.0625 * c64_recip(select(0.0625 * vec2<f32>(x, y), vec2<f32>(1.0, 0.0), zero)).x;
    return vec2<f32>(f32_copysign(select(inverse, 0.0, zero), a.x), f32_copysign(C64_HALF_PI, a.y));
  }
  let square = select(y * y, 0.0, y < C64_TINY_SQUARE);
  var real = 0.25 * f32_log1p(4.0 * x / ((x - 1.0) * (x - 1.0) + square));
  if (x == 1.0 && y < C64_EPSILON) {
    real = 0.5 * (C64_LN2 - f32_log(y));
  }
  let angle = select(0.5 * f32_atan2(2.0 * y, (1.0 - x) * (1.0 + x) - square), 0.5 * f32_atan2(2.0, -y), x == 1.0);
  return vec2<f32>(f32_copysign(real, a.x), f32_copysign(angle, a.y));
}

fn c64_atan(a: vec2<f32>) -> vec2<f32> {
  return c64_atanh(a.yx).yx;
}

fn c64_sigmoid(a: vec2<f32>) -> vec2<f32> {
  let e = c64_exp(vec2<f32>(-a.x, c64_unsigned_zero(-a.y)));
  return c64_recip(vec2<f32>(1.0 + e.x, e.y));
}

// Components of an operand of a product that came out as NaN + i NaN: infinities become 1, the rest (NaN too) 0.
fn c64_box(a: vec2<f32>) -> vec2<f32> {
  let x = f32_copysign(select(0.0, 1.0, f32_isinf(a.x)), a.x);
  let y = f32_copysign(select(0.0, 1.0, f32_isinf(a.y)), a.y);
  return vec2<f32>(x, y);
}

fn c64_zero_nan(a: vec2<f32>) -> vec2<f32> {
  let zero = vec2<f32>(f32_copysign(0.0, a.x), f32_copysign(0.0, a.y));
  return select(a, zero, vec2<bool>(f32_isnan(a.x), f32_isnan(a.y)));
}

// The product of C99's annex G, where an infinite operand gives an infinity. torch's power needs it, its `mul` does not.
fn c64_mul_infinite(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  let plain = c64_mul(a, b);
  if (!(f32_isnan(plain.x) && f32_isnan(plain.y))) {
    return plain;
  }
  var p = a;
  var q = b;
  if (c64_isinf(a)) {
    p = c64_box(a);
    q = c64_zero_nan(b);
  }
  if (c64_isinf(b)) {
    q = c64_box(b);
    p = c64_zero_nan(p);
  }
  if (!c64_isinf(a) && !c64_isinf(b)) {
    if (!c64_isinf(a * b) && !c64_isinf(a * b.yx)) {
      return plain;
    }
    p = c64_zero_nan(a);
    q = c64_zero_nan(b);
  }
  return f32_inf() * c64_mul(p, q);
}

// e^(b log a), as torch: its relative error grows with |b log a|.
fn c64_pow(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  return c64_exp(c64_mul_infinite(b, c64_log(a)));
}
