// Orthogonal polynomials in f32: see math_f32.wgsl.

// Degrees a recurrence reaches; NaN beyond. A thread computes up to 16 elements, some of them past the tensor's end with
// any degree there may be in memory, and one software driver stops a thread after 65,535 iterations in all.
const F32_DEGREES: i32 = 4000;

// r(k) = 2x r(k-1) - r(k-2) from r(0) = 1 and r(1) = first: all four Chebyshev families. Stops once it is NaN, as torch does.
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
