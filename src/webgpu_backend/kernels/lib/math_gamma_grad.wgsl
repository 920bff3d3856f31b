// Derivatives of gamma, beta and Dirichlet samples by their shapes, as in ATen/native/Distributions.h, rearranged where
// float32 would cancel, underflow or overflow.

// z - log(1 + z), also near 0.
fn f32_above_log1p(z: f32) -> f32 {
  let series = z * z * (0.5 - z * (1.0 / 3.0 - z * (0.25 - z * (0.2 - z * (1.0 / 6.0 - z * (1.0 / 7.0 - z * 0.125))))));
  return select(z - f32_log1p(z), series, abs(z) < 0.125);
}

fn f32_standard_gamma_grad(alpha: f32, x: f32) -> f32 {
  if (x < 0.8) {
    // A Taylor series; the density's powers of x are divided out of it.
    var numer = 1.0;
    var denom = alpha;
    var series1 = 1.0 / denom;
    var series2 = 1.0 / (denom * denom);
    for (var i = 1; i <= 5; i++) {
      numer *= -x / f32(i);
      denom += 1.0;
      series1 += numer / denom;
      series2 += numer / (denom * denom);
    }
    let r = -x * f32_exp(x) * ((f32_log(x) - f32_digamma(alpha)) * series1 - series2);
    return select(r, 0.0, f32_isnan(r));
  }
  if (alpha > 8.0) {
    // Rice's saddle point expansion, and its limit around x = alpha. Divided by alpha squared, which overflows.
    let z = (x - alpha) / alpha;
    let y = 1.0 / alpha;
    if (abs(z) <= 0.1) {
      let t = x / alpha;
      let first = y * y + 24.0 * (y + 12.0);
      let second = 1440.0 + 6.0 * t * (53.0 * y - 120.0 * t) - 65.0 * t * t * y + 107.0 * y + 3600.0 * t;
      return first * second / 1244160.0;
    }
    let root = sqrt(8.0 * alpha);
    let whole = alpha * f32_above_log1p(z);
    let term3 = 1.0 / (whole * sqrt(whole));
    let term23 = root / (alpha - x) + select(term3, -term3, x < alpha);
    let term1 = f32_log1p(z) * term23 - sqrt(2.0 / alpha) * (2.0 + z) / (z * z * alpha);
    let stirling = 1.0 + y / 12.0 * (1.0 + y / 24.0);
    return -stirling * x * term1 / root;
  }
  // A rational function fitted in both logarithms.
  let u = f32_log(x / alpha);
  let v = f32_log(alpha);
  let p0 = 0.16009398 + u * (0.53487893 + u * 0.040121004);
  let p1 = -0.094634809 + u * (0.1298071 + u * -0.0065914022);
  let p2 = 0.025146376 + u * (0.065735949 + u * -0.0026286047);
  let p3 = -0.0030648343 + u * (-0.0015649758 + u * -0.0013441777);
  let q0 = 1.0 + u * (0.16639465 + u * 0.017050642);
  let q1 = 0.32668115 + u * (0.020070113 + u * -0.0021309326);
  let q2 = 0.10406089 + u * (-0.0035938915 + u * 0.00085092367);
  let q3 = 0.0014179084 + u * (-0.00058392623 + u * -1.5247877e-07);
  return f32_exp((p0 + v * (p1 + v * (p2 + v * p3))) / (q0 + v * (q1 + v * (q2 + v * q3))));
}

fn f32_without_nan(x: f32) -> f32 {
  return select(x, 0.0, f32_isnan(x));
}

// x close to 0: Taylor series.
fn f32_beta_grad_alpha_small(x: f32, alpha: f32, beta: f32) -> f32 {
  let factor = f32_digamma(alpha) - f32_digamma(alpha + beta) - f32_log(x);
  var numer = 1.0;
  var series = (factor + 1.0 / alpha) / alpha;
  for (var i = 1; i <= 10; i++) {
    let k = f32(i);
    numer *= (k - beta) * x / k;
    series += numer / (alpha + k) * (factor + 1.0 / (alpha + k));
  }
  return f32_without_nan(x * f32_pow(1.0 - x, -beta) * series);
}

fn f32_beta_grad_beta_small(x: f32, alpha: f32, beta: f32) -> f32 {
  let factor = f32_digamma(alpha + beta) - f32_digamma(beta);
  var numer = 1.0;
  var betas = 1.0;
  var dbetas = 0.0;
  var series = factor / alpha;
  for (var i = 1; i <= 8; i++) {
    let k = f32(i);
    numer *= -x / k;
    dbetas = dbetas * (beta - k) + betas;
    betas = betas * (beta - k);
    series += numer / (alpha + k) * (dbetas + factor * betas);
  }
  return f32_without_nan(-f32_pow(1.0 - x, 1.0 - beta) * series);
}

// x * y - c where these are close: the product in exact parts.
fn f32_product_less(x: f32, y: f32, c: f32) -> f32 {
  let xh = bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
  let yh = bitcast<f32>(bitcast<u32>(y) & 0xfffff000u);
  let xl = x - xh;
  let yl = y - yh;
  return ((xh * yh - c) + (xh * yl + xl * yh)) + xl * yl;
}

// Both shapes large: Rice's saddle point expansion, in terms of the distance from the mean, and its limit there.
fn f32_beta_grad_alpha_mid(x: f32, alpha: f32, beta: f32, total: f32) -> f32 {
  let a = alpha / total;
  let b = beta / total;
  let y = 1.0 / total;
  let far = f32_product_less(x, total, alpha);
  let d = far / total;
  if (abs(d) <= 0.1 * sqrt(a * b / (total + 1.0))) {
    let poly = 47.0 * x * b * b * b * b * y + a * (
      (43.0 * y + 20.0 * (16.0 * y + 27.0 * b) * x) * b * b * b + a * (
      3.0 * (59.0 * y + 180.0 * b - 90.0 * x * y) * b * b + a * (
      (453.0 * y + 1620.0 * b * (1.0 - x) - 455.0 * x * y) * b + a * (
      8.0 * (1.0 - x) * (135.0 * b - 11.0 * y)))));
    return (y + 12.0 * a) * (y + 12.0 * b) / (1.0 - x) * poly / (12960.0 * a * a * a * b * b * (1.0 + 12.0 * total));
  }
  let stirling = (1.0 + (1.0 + 1.0 / (24.0 * alpha)) / (12.0 * alpha)) * (1.0 + (1.0 + 1.0 / (24.0 * beta)) / (12.0 * beta)) /
    (1.0 + (1.0 + y / 24.0) * y / 12.0);
  let term1 = -((1.0 - x) * a * (2.0 * a + b) + x * b * b) * sqrt(0.5 * b / a * total) / (far * far);
  let z = d / a;
  let term2 = -0.5 * f32_log1p(z);
  let term3 = sqrt(8.0 * a * beta) / far;
  let base = alpha * f32_above_log1p(z) + beta * f32_above_log1p(-d / b);
  let term4 = 1.0 / (base * sqrt(base));
  return stirling * -x / sqrt(2.0 * a * beta) * (term1 + term2 * (term3 + select(-term4, term4, d < 0.0)));
}

// The derivative of a component of a Dirichlet sample, scaled, for `total` the sum of the concentrations.
fn f32_dirichlet_grad(x: f32, alpha: f32, total: f32) -> f32 {
  let beta = total - alpha;
  let boundary = total * x * (1.0 - x);
  if (x <= 0.5 && boundary < 2.5) {
    return f32_beta_grad_alpha_small(x, alpha, beta);
  }
  if (x >= 0.5 && boundary < 0.75) {
    return -f32_beta_grad_beta_small(1.0 - x, beta, alpha);
  }
  if (alpha > 6.0 && beta > 6.0) {
    return f32_beta_grad_alpha_mid(x, alpha, beta, total);
  }
  // A rational correction of an analytic approximation.
  let u = f32_log(x);
  let a = f32_log(alpha) - u;
  let b = f32_log(total) - a;
  let p0 = (1.003668233 + b * (-0.01061107488 + b * (-0.0657888334 + b * 0.01201642863))) +
    a * ((0.6336835991 + b * (-0.3557432599 + b * (0.05486251648 + b * -0.001465281033))) +
    a * (-0.03276231906 + b * (0.004474107445 + b * (0.002429354597 + b * -0.0001557569013))));
  let p1 = (0.221950385 + b * (-0.3187676331 + b * (0.01799915743 + b * 0.01074823814))) +
    a * ((-0.2951249643 + b * (0.06219954479 + b * (0.01535556598 + b * 0.001550077057))) +
    a * (0.02155310298 + b * (0.004170831599 + b * (0.001292462449 + b * 6.976601077e-05))));
  let p2 = (-0.05980841433 + b * (0.008441916499 + b * (0.01085618172 + b * 0.002319392565))) +
    a * ((0.02911413504 + b * (0.01400243777 + b * (-0.002721828457 + b * 0.000751041181))) +
    a * (0.005900514878 + b * (-0.001936558688 + b * (-9.495446725e-06 + b * 5.385558597e-05))));
  let q0 = (1.0 + b * (-0.02924021934 + b * (-0.04438342661 + b * 0.007285809825))) +
    a * ((0.6357567472 + b * (-0.3473456711 + b * (0.05454656494 + b * -0.002407477521))) +
    a * (-0.03301322327 + b * (0.004845219414 + b * (0.00231480583 + b * -0.0002307248149))));
  let q1 = (0.5925320577 + b * (-0.1757678135 + b * (0.01505928619 + b * 0.000564515273))) +
    a * ((0.1014815858 + b * (-0.06589186703 + b * (0.01272886114 + b * -0.0007316646956))) +
    a * (-0.007258481865 + b * (0.001096195486 + b * (0.0003934994223 + b * -4.12701925e-05))));
  let q2 = (0.06469649321 + b * (-0.0236701437 + b * (0.002902096474 + b * -5.896963079e-05))) +
    a * ((0.001925008108 + b * (-0.002869809258 + b * (0.0008000589141 + b * -6.063713228e-05))) +
    a * (-0.0003477407336 + b * (6.959756487e-05 + b * (1.097287507e-05 + b * -1.650964693e-06))));
  let ratio = (p0 + u * (p1 + u * p2)) / (q0 + u * (q1 + u * q2));
  return ratio * x * (f32_digamma(total) - f32_digamma(alpha)) / beta;
}
