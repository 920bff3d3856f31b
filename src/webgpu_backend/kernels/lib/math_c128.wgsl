// What complex128 does not share with complex64: see math_c64.wgsl.

const C128_LN2: f64 = 0.6931471805599453lf;
const C128_LN10: f64 = 2.302585092994046lf;
const C128_PI: f64 = 3.141592653589793lf;
const C128_PI_REST: f64 = -1.2246467991473532e-16lf;
const C128_HALF_PI: f64 = 1.5707963267948966lf;
const C128_HALF_PI_REST: f64 = -6.123233995736766e-17lf;
const C128_LONG_STEP: f64 = 709.0lf;
const C128_LONG_STEP_EXP: f64 = 8.218407461554972e+307lf;
const C128_TINY: f64 = 1e-8lf;
const C128_HUGE: f64 = 4e15lf;
const C128_EPSILON: f64 = 2.220446049250313e-16lf;
const C128_TINY_LEG: f64 = 3.851859888774472e-34lf;
const C128_SMALL_LEG: f64 = 1.734723475976807e-18lf;
const C128_LARGE_SIDE: f64 = 8.112963841460668e+31lf;
const C128_TINY_SQUARE: f64 = 1.4916681462400413e-154lf;

// Divisions of f64 are right for all operands.
fn c128_ratio(x: f64, y: f64) -> f64 {
  return x / y;
}

fn c128_to_bool(a: vec2<f64>) -> bool {
  return !(a.x == 0.0lf && a.y == 0.0lf);
}
