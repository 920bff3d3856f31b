// Bessel and Airy functions in f32: see math_f32.wgsl.

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

// e^a r, by way of e^a / 256: I0 is finite a little further than e^x. Both are infinite from 92 on, and NaN at infinity, as torch's are.
fn f32_i_scaled(a: f32, r: f32) -> f32 {
  return f32_raised(f32_exp_scaled(a, -8) * r, 4) * 16.0;
}

fn f32_i0(x: f32) -> f32 {
  let a = min(abs(x), 94.0);
  let r = select(f32_i0_small(min(a, 8.0)), f32_i_scaled(a, f32_i0_large(1.0 / a) / sqrt(a)), a > 8.0);
  return select(r, f32_nan(), !f32_isfinite(x));
}

fn f32_i1(x: f32) -> f32 {
  let a = min(abs(x), 94.0);
  let r = select(f32_i1_small(min(a, 8.0)), f32_i_scaled(a, f32_i1_large(1.0 / a) / sqrt(a)), a > 8.0);
  return select(select(r, -r, x < 0.0), f32_nan(), !f32_isfinite(x));
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
