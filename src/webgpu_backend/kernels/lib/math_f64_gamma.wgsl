// The incomplete gamma functions of float64: see math_f64.wgsl, and math_f32.wgsl for those of float32.

// Temme's coefficients, DLMF 8.12, for |z| < 0.36.
fn f64_igamma_c0(z: f64) -> f64 {
  var p = -2.551419399494625e-11lf;
  p = p * z + 9.14769958223679e-10lf;
  p = p * z - 4.382036018453353e-09lf;
  p = p * z + 1.0261809784240309e-08lf;
  p = p * z + 6.707853543401498e-09lf;
  p = p * z - 1.7665952736826078e-07lf;
  p = p * z + 8.296711340953087e-07lf;
  p = p * z - 1.85406221071516e-06lf;
  p = p * z - 2.1854485106799924e-06lf;
  p = p * z + 3.919263178522438e-05lf;
  p = p * z - 0.0001787551440329218lf;
  p = p * z + 0.0003527336860670194lf;
  p = p * z + 0.0011574074074074073lf;
  p = p * z - 0.014814814814814815lf;
  p = p * z + 0.08333333333333333lf;
  p = p * z - 0.3333333333333333lf;
  return p;
}

fn f64_igamma_c1(z: f64) -> f64 {
  var p = -1.7543241719747647e-11lf;
  p = p * z + 1.1951628599778148e-08lf;
  p = p * z - 5.752545603517705e-08lf;
  p = p * z + 1.378633446915721e-07lf;
  p = p * z + 4.647127802807434e-09lf;
  p = p * z - 1.6120900894563446e-06lf;
  p = p * z + 7.64916091608111e-06lf;
  p = p * z - 1.8098550334489977e-05lf;
  p = p * z - 4.018775720164609e-07lf;
  p = p * z + 0.00020576131687242798lf;
  p = p * z - 0.0009902263374485596lf;
  p = p * z + 0.0026455026455026454lf;
  p = p * z - 0.003472222222222222lf;
  p = p * z - 0.001851851851851852lf;
  return p;
}

fn f64_igamma_c2(z: f64) -> f64 {
  var p = -2.0477098421990866e-10lf;
  p = p * z + 1.4280614206064242e-07lf;
  p = p * z - 6.298992138380055e-07lf;
  p = p * z + 1.3721957309062932e-06lf;
  p = p * z + 3.423578734096138e-08lf;
  p = p * z - 1.2760635188618728e-05lf;
  p = p * z + 5.2923448829120125e-05lf;
  p = p * z - 0.00010736653226365161lf;
  p = p * z + 2.0093878600823047e-06lf;
  p = p * z + 0.0007716049382716049lf;
  p = p * z - 0.0026813271604938273lf;
  p = p * z + 0.004133597883597883lf;
  return p;
}

fn f64_igamma_c3(z: f64) -> f64 {
  var p = -2.7861080291528143e-11lf;
  p = p * z + 1.4230900732435883e-06lf;
  p = p * z - 5.6749528269915965e-06lf;
  p = p * z + 1.1082654115347302e-05lf;
  p = p * z - 2.396505113867297e-07lf;
  p = p * z - 7.561801671883977e-05lf;
  p = p * z + 0.00026772063206283885lf;
  p = p * z - 0.0004691894943952557lf;
  p = p * z + 0.00022947209362139917lf;
  p = p * z + 0.0006494341563786008lf;
  return p;
}

fn f64_igamma_c4(z: f64) -> f64 {
  var p = 2.507497226237533e-10lf;
  p = p * z + 1.1375726970678419e-05lf;
  p = p * z - 3.968365047179435e-05lf;
  p = p * z + 6.641498215465122e-05lf;
  p = p * z - 1.4638452578843418e-06lf;
  p = p * z - 0.0002990724803031902lf;
  p = p * z + 0.0007840392217200666lf;
  p = p * z - 0.0008618882909167117lf;
  return p;
}

fn f64_igamma_c5(z: f64) -> f64 {
  var p = 1.419062920643967e-07lf;
  p = p * z + 6.797780477937208e-05lf;
  p = p * z - 0.00019932570516188847lf;
  p = p * z + 0.0002772753244959392lf;
  p = p * z - 6.972813758365858e-05lf;
  p = p * z - 0.00033679855336635813lf;
  return p;
}

fn f64_igamma_c6(z: f64) -> f64 {
  var p = 7.902353232660328e-07lf;
  p = p * z + 0.0002708782096718045lf;
  p = p * z - 0.0005921664373536939lf;
  p = p * z + 0.0005313079364639922lf;
  return p;
}

// log(1 + s) - s for |s| < 0.3: twice the inverse tangent of t, whose first term joins s without a difference.
fn f64_log1p_rest(s: f64) -> f64 {
  let t = s / (2.0lf + s);
  let z = t * t;
  var p = 1.0lf / 25.0lf;
  for (var k = 23.0lf; k > 2.0lf; k = k - 2.0lf) {
    p = p * z + 1.0lf / k;
  }
  return 2.0lf * p * z * t - s * t;
}

// lgamma(1 + a), whose digits are kept where a is small.
fn f64_lgamma_1p(a: f64) -> f64 {
  if (a < 0.5lf) {
    return a * f64_lgamma_poly(a) - f64_log1p(a);
  }
  return f64_lgamma_positive(1.0lf + a);
}

// x^a e^-x / Gamma(a + 1).
fn f64_igamma_factor(a: f64, x: f64) -> f64 {
  if (x > 1e4lf && x > 2.0lf * a) {
    return 0.0lf;
  }
  if (a < 8.0lf) {
    return f64_exp(a * f64_log(x) - x - f64_lgamma_1p(a));
  }
  let s = (x - a) / a;
  var l = f64_log(x / a) - s;
  if (abs(s) < 0.3lf) {
    l = f64_log1p_rest(s);
  }
  return 0.3989422804014327lf / sqrt(a) * f64_exp(a * l - f64_stirling(a) / a);
}

// For a > 200 and x within 30% of a. side is 1 for the upper function, -1 for the lower.
fn f64_igamma_uniform(a: f64, x: f64, side: f64) -> f64 {
  let s = (x - a) / a;
  let l = f64_log1p_rest(s);
  let e = f64_copysign(sqrt(f64_max(-2.0lf * l, 0.0lf)), s);
  let r = 1.0lf / a;
  let sum = f64_igamma_c0(e) + r * (f64_igamma_c1(e) + r * (f64_igamma_c2(e) + r * (f64_igamma_c3(e) + r * (f64_igamma_c4(e) + r * (f64_igamma_c5(e) + r * (f64_igamma_c6(e)))))));
  let main = 0.5lf * f64_erfc(side * e * sqrt(0.5lf * a));
  return main + side * f64_exp(a * l) * sum * (0.3989422804014327lf / sqrt(a));
}

fn f64_igamma_series(a: f64, x: f64) -> f64 {
  var r = a;
  var c = 1.0lf;
  var sum = 1.0lf;
  for (var i = 0; i < 2000; i = i + 1) {
    r = r + 1.0lf;
    c = c * (x / r);
    sum = sum + c;
    if (c <= 1e-16lf * sum) {
      break;
    }
  }
  return sum * f64_igamma_factor(a, x);
}

// The upper function for small x and a, DLMF 8.7.3.
fn f64_igammac_series(a: f64, x: f64) -> f64 {
  var f = 1.0lf;
  var sum = 0.0lf;
  for (var n = 1.0lf; n < 200.0lf; n = n + 1.0lf) {
    f = f * (-x / n);
    let t = f / (a + n);
    sum = sum + t;
    if (abs(t) <= 1e-16lf * abs(sum)) {
      break;
    }
  }
  let g = a * f64_log(x) - f64_lgamma_1p(a);
  return -f64_expm1(g) - f64_exp(g) * a * sum;
}

// The upper function by Lentz's continued fraction, for x >= a and x > 1.
fn f64_igammac_fraction(a: f64, x: f64) -> f64 {
  var b = x + 1.0lf - a;
  var c = 1e300lf;
  var d = 1.0lf / b;
  var h = d;
  for (var i = 1.0lf; i < 2000.0lf; i = i + 1.0lf) {
    let n = i * (a - i);
    b = b + 2.0lf;
    d = 1.0lf / (n * d + b);
    c = b + n / c;
    let t = d * c;
    h = h * t;
    if (abs(t - 1.0lf) <= 2.3e-16lf) {
      break;
    }
  }
  return h * f64_igamma_factor(a, x) * a;
}

// P(a, x) if lower, else Q(a, x) = 1 - P: the smaller of the two is computed, as in Cephes and scipy.
fn f64_igamma_either(a: f64, x: f64, lower: bool) -> f64 {
  if (x < 0.0lf || a < 0.0lf || (a == 0.0lf && !(x > 0.0lf)) || (f64_isinf(a) && f64_isinf(x))) {
    return f64_nan();
  }
  if (a == 0.0lf) {
    return select(0.0lf, 1.0lf, lower);
  }
  if (x == 0.0lf || f64_isinf(a)) {
    return select(1.0lf, 0.0lf, lower);
  }
  if (f64_isinf(x)) {
    return select(0.0lf, 1.0lf, lower);
  }
  if (f64_isnan(a) || f64_isnan(x)) {
    return f64_nan();
  }
  if (a > 1e30lf || x > 1e30lf) {
    let p = select(select(0.0lf, 0.5lf, x == a), 1.0lf, x > a);
    return select(1.0lf - p, p, lower);
  }
  if (a > 200.0lf && abs(x - a) < 0.3lf * a) {
    return f64_igamma_uniform(a, x, select(1.0lf, -1.0lf, lower));
  }
  if (x > 1.1lf && x >= a) {
    let q = f64_igammac_fraction(a, x);
    return select(q, 1.0lf - q, lower);
  }
  var small = a * f64_log(x) >= -0.4lf;
  if (x > 0.5lf) {
    small = x * 1.1lf >= a;
  }
  if (x <= 1.1lf && small && !lower) {
    return f64_igammac_series(a, x);
  }
  let p = f64_igamma_series(a, x);
  return select(1.0lf - p, p, lower);
}

fn f64_igamma(a: f64, x: f64) -> f64 {
  return f64_igamma_either(a, x, true);
}

fn f64_igammac(a: f64, x: f64) -> f64 {
  return f64_igamma_either(a, x, false);
}
