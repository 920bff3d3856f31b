// Trigonometry in float64: see math_f64.wgsl. Reduced arguments travel as h + l, h of 26 bits.

// The high word of a 64-bit product.
fn f64_mulhi(a: u64, b: u64) -> u64 {
  let al = a & 0xfffffffflu;
  let ah = a >> 32u;
  let bl = b & 0xfffffffflu;
  let bh = b >> 32u;
  let m = ah * bl + ((al * bl) >> 32u);
  return ah * bh + (m >> 32u) + ((al * bh + (m & 0xfffffffflu)) >> 32u);
}

// 256 bits of 2 / pi, preceded by 32 zeros, from bit 64 i on. Not an array: one driver takes half a minute over nine
// look-ups in one.
fn f64_two_over_pi(i: u32) -> vec4<u64> {
  switch i {
    case 0u: {
      return vec4<u64>(0xa2f9836elu, 0x4e441529fc2757d1lu, 0xf534ddc0db629599lu, 0x3c439041fe5163ablu);
    }
    case 1u: {
      return vec4<u64>(0x4e441529fc2757d1lu, 0xf534ddc0db629599lu, 0x3c439041fe5163ablu, 0xdebbc561b7246e3alu);
    }
    case 2u: {
      return vec4<u64>(0xf534ddc0db629599lu, 0x3c439041fe5163ablu, 0xdebbc561b7246e3alu, 0x424dd2e006492eealu);
    }
    case 3u: {
      return vec4<u64>(0x3c439041fe5163ablu, 0xdebbc561b7246e3alu, 0x424dd2e006492eealu, 0x9d1921cfe1deb1clu);
    }
    case 4u: {
      return vec4<u64>(0xdebbc561b7246e3alu, 0x424dd2e006492eealu, 0x9d1921cfe1deb1clu, 0xb129a73ee88235f5lu);
    }
    case 5u: {
      return vec4<u64>(0x424dd2e006492eealu, 0x9d1921cfe1deb1clu, 0xb129a73ee88235f5lu, 0x2ebb4484e99c7026lu);
    }
    case 6u: {
      return vec4<u64>(0x9d1921cfe1deb1clu, 0xb129a73ee88235f5lu, 0x2ebb4484e99c7026lu, 0xb45f7e413991d639lu);
    }
    case 7u: {
      return vec4<u64>(0xb129a73ee88235f5lu, 0x2ebb4484e99c7026lu, 0xb45f7e413991d639lu, 0x835339f49c845f8blu);
    }
    case 8u: {
      return vec4<u64>(0x2ebb4484e99c7026lu, 0xb45f7e413991d639lu, 0x835339f49c845f8blu, 0xbdf9283b1ff897fflu);
    }
    case 9u: {
      return vec4<u64>(0xb45f7e413991d639lu, 0x835339f49c845f8blu, 0xbdf9283b1ff897fflu, 0xde05980fef2f118blu);
    }
    case 10u: {
      return vec4<u64>(0x835339f49c845f8blu, 0xbdf9283b1ff897fflu, 0xde05980fef2f118blu, 0x5a0a6d1f6d367ecflu);
    }
    case 11u: {
      return vec4<u64>(0xbdf9283b1ff897fflu, 0xde05980fef2f118blu, 0x5a0a6d1f6d367ecflu, 0x27cb09b74f463f66lu);
    }
    case 12u: {
      return vec4<u64>(0xde05980fef2f118blu, 0x5a0a6d1f6d367ecflu, 0x27cb09b74f463f66lu, 0x9e5fea2d7527bac7lu);
    }
    case 13u: {
      return vec4<u64>(0x5a0a6d1f6d367ecflu, 0x27cb09b74f463f66lu, 0x9e5fea2d7527bac7lu, 0xebe5f17b3d0739f7lu);
    }
    case 14u: {
      return vec4<u64>(0x27cb09b74f463f66lu, 0x9e5fea2d7527bac7lu, 0xebe5f17b3d0739f7lu, 0x8a5292ea6bfb5fb1lu);
    }
    default: {
      return vec4<u64>(0x9e5fea2d7527bac7lu, 0xebe5f17b3d0739f7lu, 0x8a5292ea6bfb5fb1lu, 0x1f8d5d0856033046lu);
    }
  }
}

// x = q pi/2 + h + l for |x| >= 2^22: the significand times those 192 bits of 2/pi that say anything about the fraction.
fn f64_trig_reduce_large(x: f64) -> vec3<f64> {
  let bits = f64_magnitude_bits(x);
  let m = (bits & 0xffffffffffffflu) | 0x10000000000000lu;
  let start = clamp(u32(bits >> 52u) - 1045u, 0u, 1001u);
  let w = f64_two_over_pi(start >> 6u);
  let s = start & 63u;
  let high = (w.x << s) | ((w.y >> 1u) >> (63u - s));
  let mid = (w.y << s) | ((w.z >> 1u) >> (63u - s));
  let low = (w.z << s) | ((w.w >> 1u) >> (63u - s));
  let p0 = f64_mulhi(m, low);
  let p1 = m * mid + p0;
  let p2 = m * high + f64_mulhi(m, mid) + select(0lu, 1lu, p1 < p0);
  let up = (p2 >> 61u) & 1lu;
  let q = (p2 >> 62u) + up;
  let f1 = (p2 << 2u) | (p1 >> 62u);
  let f0 = (p1 << 2u) | ((m * low) >> 62u);
  let n1 = select(f1, ~f1 + select(0lu, 1lu, f0 == 0lu), up == 1lu);
  let n0 = select(f0, 0lu - f0, up == 1lu);
  let top = u32(n1 >> 32u);
  let zeros = select(countLeadingZeros(top), 32u + min(countLeadingZeros(u32(n1 & 0xfffffffflu)), 31u), top == 0u);
  let bits1 = (n1 << zeros) | ((n0 >> 1u) >> (63u - zeros));
  let bits0 = n0 << zeros;
  let scale = f64_exp2i(-26 - i32(zeros));
  let fh = f64(u32(bits1 >> 38u)) * scale;
  let fl = f64(((bits1 & 0x3ffffffffflu) << 11u) | (bits0 >> 53u)) * (scale * 1.7763568394002505e-15lf);
  let product = fh * 1.5707963109016418lf;
  let h = f64_head(product);
  let l = (product - h) + (fh * 1.5893254773528196e-08lf + fl * 1.5707963267948966lf);
  let flip = select(1.0lf, -1.0lf, (up == 1lu) != (x < 0.0lf));
  let quadrant = u32(q & 3lu);
  return vec3<f64>(h * flip, l * flip, f64(select(quadrant, (4u - quadrant) & 3u, x < 0.0lf)));
}

// x = q pi/2 + h + l with |h| <= pi/4, as (h, l, q mod 4). pi/2 is cut into pieces whose products with q are exact.
fn f64_trig_reduce(x: f64) -> vec3<f64> {
  if (abs(x) >= 4194304.0lf) {
    return f64_trig_reduce_large(x);
  }
  let q = f64_round(x * 0.6366197723675814lf);
  let a = x - q * 1.570796325802803lf;
  let b = q * 9.920935791635221e-10lf;
  let c = q * 5.17018297889025e-19lf;
  let first = f64_head(a - b);
  let rest = f64_hold(a - first) - b;
  let h = f64_head(first + (rest - c));
  let l = f64_hold(f64_hold(f64_hold(first - h) + rest) - c) - q * 2.9038559739793605e-28lf;
  return vec3<f64>(h, l, f64(i32(q) & 3));
}

// (sin(r) - r) / r^3 for z = r^2.
fn f64_sin_series(z: f64) -> f64 {
  var p = -7.586543634101805e-13lf;
  p = p * z + 1.6058529011960855e-10lf;
  p = p * z - 2.5052106215978872e-08lf;
  p = p * z + 2.7557319219291695e-06lf;
  p = p * z - 0.00019841269841265003lf;
  p = p * z + 0.008333333333333331lf;
  p = p * z - 0.16666666666666666lf;
  return p;
}

// (cos(r) - 1 + z / 2) / z^2 for z = r^2.
fn f64_cos_series(z: f64) -> f64 {
  var p = -1.1382408754153112e-11lf;
  p = p * z + 2.0876143159909436e-09lf;
  p = p * z - 2.755731725679604e-07lf;
  p = p * z + 2.4801587298736863e-05lf;
  p = p * z - 0.0013888888888887378lf;
  p = p * z + 0.041666666666666664lf;
  return p;
}

// The sine and the cosine of |r| <= pi/4.
fn f64_sin_poly(r: f64) -> f64 {
  let z = r * r;
  return r + r * z * f64_sin_series(z);
}

fn f64_cos_poly(r: f64) -> f64 {
  let z = r * r;
  return 1.0lf - (0.5lf * z - z * z * f64_cos_series(z));
}

// sin(h + l) as the sum of two, the first of 26 bits; |h| <= pi/4.
fn f64_sin_parts(h: f64, l: f64) -> vec2<f64> {
  let r = h + l;
  let z = r * r;
  return vec2<f64>(h, l + r * z * f64_sin_series(z));
}

fn f64_cos_parts(h: f64, l: f64) -> vec2<f64> {
  let r = h + l;
  let z = r * r;
  let w = 0.5lf * h * h;
  let wh = f64_head(w);
  return vec2<f64>(1.0lf - wh, z * z * f64_cos_series(z) - ((w - wh) + l * (h + 0.5lf * l)));
}

// The sine of the q-th quadrant's h + l.
fn f64_sin_of(h: f64, l: f64, q: i32) -> f64 {
  let v = select(f64_sin_parts(h, l), f64_cos_parts(h, l), (q & 1) == 1);
  return select(v.x + v.y, -(v.x + v.y), (q & 2) == 2);
}

fn f64_sin(x: f64) -> f64 {
  if (!f64_isfinite(x) || abs(x) < 1e-8lf) {
    return select(f64_nan(), x, abs(x) < 1e-8lf);
  }
  let v = f64_trig_reduce(x);
  return f64_sin_of(v.x, v.y, i32(v.z));
}

fn f64_cos(x: f64) -> f64 {
  if (!f64_isfinite(x)) {
    return f64_nan();
  }
  let v = f64_trig_reduce(x);
  return f64_sin_of(v.x, v.y, i32(v.z) + 1);
}

fn f64_sincos(x: f64) -> vec2<f64> {
  return vec2<f64>(f64_sin(x), f64_cos(x));
}

fn f64_tan(x: f64) -> f64 {
  if (!f64_isfinite(x) || abs(x) < 1e-8lf) {
    return select(f64_nan(), x, abs(x) < 1e-8lf);
  }
  let v = f64_trig_reduce(x);
  let s = f64_sin_parts(v.x, v.y);
  let c = f64_cos_parts(v.x, v.y);
  let odd = (i32(v.z) & 1) == 1;
  let a = select(s, -c, odd);
  let b = select(c, s, odd);
  let d = b.x + b.y;
  let t = f64_head((a.x + a.y) / d);
  return t + ((f64_hold(a.x - t * b.x) - t * b.y) + a.y) / d;
}

// x = (q + r) / 2 and h + l = pi r / 2: exact for every x, unlike a reduction of pi x.
fn f64_pi_reduce(x: f64) -> vec3<f64> {
  let q = f64_round(x * 2.0lf);
  let r = x - 0.5lf * q;
  let rh = f64_head(r);
  let product = rh * 3.1415926218032837lf;
  let h = f64_head(product);
  let l = (product - h) + (rh * 3.178650954705639e-08lf + (r - rh) * 3.141592653589793lf);
  return vec3<f64>(h, l, q - 4.0lf * floor(q * 0.25lf));
}

fn f64_sinpi(x: f64) -> f64 {
  let v = f64_pi_reduce(x);
  return f64_sin_of(v.x, v.y, i32(v.z));
}

fn f64_cospi(x: f64) -> f64 {
  let v = f64_pi_reduce(x);
  return f64_sin_of(v.x, v.y, i32(v.z) + 1);
}

// (asin(r) - r) / r^3 for z = r^2 <= 1/4.
fn f64_asin_poly(z: f64) -> f64 {
  var p = 0.028757851367602328lf;
  p = p * z - 0.014851887071528912lf;
  p = p * z + 0.01740087944288715lf;
  p = p * z + 0.005457506718563782lf;
  p = p * z + 0.0103228143502052lf;
  p = p * z + 0.011479177415181617lf;
  p = p * z + 0.013971212973553311lf;
  p = p * z + 0.017352392720869945lf;
  p = p * z + 0.02237217294214989lf;
  p = p * z + 0.030381944138531247lf;
  p = p * z + 0.04464285714635543lf;
  p = p * z + 0.07499999999998433lf;
  p = p * z + 0.16666666666666669lf;
  return p;
}

// asin(s) for s = sqrt((1 - a) / 2) as the sum of two, the first of 26 bits.
fn f64_asin_of_root(a: f64) -> vec2<f64> {
  let z = 0.5lf * (1.0lf - a);
  let s = sqrt(z);
  let h = f64_head(s);
  let l = (z - h * h) / select(s + h, 1.0lf, s == 0.0lf);
  return vec2<f64>(h, l + s * z * f64_asin_poly(z));
}

fn f64_asin(x: f64) -> f64 {
  let a = abs(x);
  if (a < 1e-8lf || !(a <= 1.0lf)) {
    return select(f64_nan(), x, a < 1e-8lf || f64_isnan(x));
  }
  if (a <= 0.5lf) {
    return x + x * (x * x) * f64_asin_poly(x * x);
  }
  let v = f64_asin_of_root(a);
  return f64_copysign(f64_hold(1.5707963109016418lf - 2.0lf * v.x) + (1.5893254773528196e-08lf - 2.0lf * v.y), x);
}

fn f64_acos(x: f64) -> f64 {
  let a = abs(x);
  if (!(a <= 1.0lf)) {
    return select(f64_nan(), x, f64_isnan(x));
  }
  if (a <= 0.5lf) {
    let h = f64_head(x);
    let rest = (x - h) + x * (x * x) * f64_asin_poly(x * x);
    return f64_hold(1.5707963109016418lf - h) + (1.5893254773528196e-08lf - rest);
  }
  let v = f64_asin_of_root(a);
  if (x > 0.0lf) {
    return 2.0lf * (v.x + v.y);
  }
  return 2.0lf * (f64_hold(1.5707963109016418lf - v.x) + (1.5893254773528196e-08lf - v.y));
}

// (atan(t) - t) / t^3 for z = t^2 <= 0.192.
fn f64_atan_poly(z: f64) -> f64 {
  var p = 0.014773184616905514lf;
  p = p * z - 0.033128134255983266lf;
  p = p * z + 0.044922592931895176lf;
  p = p * z - 0.05216679739312525lf;
  p = p * z + 0.05876946456754867lf;
  p = p * z - 0.06666241923359942lf;
  p = p * z + 0.07692285554889285lf;
  p = p * z - 0.09090908355602592lf;
  p = p * z + 0.11111111096645038lf;
  p = p * z - 0.14285714285566806lf;
  p = p * z + 0.1999999999999941lf;
  p = p * z - 0.3333333333333333lf;
  return p;
}

// atan(a) = atan(c) + atan((a - c) / (1 + c a)) for the nearest c of 0, 1/2, 1, 3/2 and infinity.
fn f64_atan(x: f64) -> f64 {
  let a = abs(x);
  var t = a;
  var base = vec2<f64>(0.0lf, 0.0lf);
  if (a >= 2.4375lf) {
    t = -1.0lf / a;
    base = vec2<f64>(1.5707963267948966lf, 6.123233995736766e-17lf);
  } else if (a >= 1.1875lf) {
    t = (a - 1.5lf) / (1.0lf + 1.5lf * a);
    base = vec2<f64>(0.982793723247329lf, 1.3903311031230998e-17lf);
  } else if (a >= 0.6875lf) {
    t = (a - 1.0lf) / (1.0lf + a);
    base = vec2<f64>(0.7853981633974483lf, 3.061616997868383e-17lf);
  } else if (a >= 0.4375lf) {
    t = (a - 0.5lf) / (1.0lf + 0.5lf * a);
    base = vec2<f64>(0.4636476090008061lf, 2.2698777452961687e-17lf);
  }
  let z = t * t;
  let r = base.x + (t + (base.y + t * z * f64_atan_poly(z)));
  return select(f64_copysign(r, x), x, f64_isnan(x) || a < 1e-8lf);
}

fn f64_atan2(y: f64, x: f64) -> f64 {
  if (f64_isnan(x) || f64_isnan(y)) {
    return f64_nan();
  }
  let both = f64_isinf(x) && f64_isinf(y);
  let ratio = select(abs(y) / abs(x), 1.0lf, both);
  let first = f64_atan(select(ratio, 0.0lf, y == 0.0lf));
  let r = select(first, (3.141592653589793lf - first) + 1.2246467991473532e-16lf, f64_signbit(x));
  return f64_copysign(r, y);
}
