// The error function and the normal distribution in f32: see math_f32.wgsl.

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
  let edge = select(r, f32_copysign(f32_inf(), x), bitcast<u32>(a) == 0x3f800000u);
  return select(edge, f32_nan(), f32_isnan(x) || a > 1.0);
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
  return select(edge, f32_nan(), f32_isnan(y) || y < 0.0 || y > 1.0);
}
