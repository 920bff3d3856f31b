// f32 maths that gives the same answer on every driver. Built-in exp, log, tanh, sin, pow, %, min, max and != are wrong by
// thousands of ulp or for NaN on some of them, so only + - * / sqrt, rounding, bit operations and integers are used here.
// Compilers may contract a*b+c, factor sums and cancel (a+b)-a, and Metal's takes it that nothing is NaN or infinite. So
// where an exact remainder is needed the high part goes through a bit mask, or the sum is a fused one, which they can't
// see through, and NaN and infinities are told by their bits (tests/pure/test_fast_math.py).

fn f32_isnan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// Ones are counted, since clang from version 19 on knows a comparison with these bits for what it asks.
fn f32_isinf(x: f32) -> bool {
  let u = bitcast<u32>(x) & 0x7fffffffu;
  return u >= 0x7f800000u && countOneBits(u) == 8u;
}

fn f32_isfinite(x: f32) -> bool {
  return countOneBits(bitcast<u32>(x) & 0x7f800000u) != 8u;
}

fn f32_signbit(x: f32) -> bool {
  return (bitcast<u32>(x) >> 31u) != 0u;
}

// A `var` is not a constant expression: browsers refuse a bitcast that they can evaluate to NaN or inf.
fn f32_nan() -> f32 {
  var bits = 0x7fc00000u;
  return bitcast<f32>(bits);
}

fn f32_inf() -> f32 {
  var bits = 0x7f800000u;
  return bitcast<f32>(bits);
}

// On the bits alone: a compiler that knows no NaN would put b for a wherever they are equal.
fn f32_eq(a: f32, b: f32) -> bool {
  let u = bitcast<u32>(a);
  let v = bitcast<u32>(b);
  return (u == v && !f32_isnan(a)) || ((u | v) << 1u) == 0u;
}

fn f32_ne(a: f32, b: f32) -> bool {
  return !f32_eq(a, b);
}

fn f32_lt(a: f32, b: f32) -> bool {
  return a < b && !f32_isnan(a) && !f32_isnan(b);
}

fn f32_le(a: f32, b: f32) -> bool {
  return a <= b && !f32_isnan(a) && !f32_isnan(b);
}

fn f32_gt(a: f32, b: f32) -> bool {
  return f32_lt(b, a);
}

fn f32_ge(a: f32, b: f32) -> bool {
  return f32_le(b, a);
}

fn f32_min(a: f32, b: f32) -> f32 {
  return select(select(select(b, a, a < b), a, f32_isnan(a)), b, f32_isnan(b));
}

fn f32_max(a: f32, b: f32) -> f32 {
  return select(select(select(b, a, a > b), a, f32_isnan(a)), b, f32_isnan(b));
}

fn f32_fmin(a: f32, b: f32) -> f32 {
  return select(select(select(b, a, a <= b), b, f32_isnan(a)), a, f32_isnan(b));
}

fn f32_fmax(a: f32, b: f32) -> f32 {
  return select(select(select(b, a, a >= b), b, f32_isnan(a)), a, f32_isnan(b));
}

fn f32_sign(x: f32) -> f32 {
  let u = bitcast<u32>(x);
  let one = bitcast<f32>((u & 0x80000000u) | 0x3f800000u);
  return select(one, 0.0, (u & 0x7fffffffu) - 1u >= 0x7f800000u);
}

fn f32_sgn(x: f32) -> f32 {
  return f32_sign(x);
}

// Chosen, not put together by masks: llvmpipe (LLVM 15) merges those with a later select(copysign(r, x), x, ...) into
// x & ~r, as in tanh(exp(x)). Chosen among bits, not among numbers: to NVIDIA's compiler 0.0 and -0.0 are the same.
fn f32_copysign(x: f32, s: f32) -> f32 {
  let magnitude = bitcast<u32>(x) & 0x7fffffffu;
  return bitcast<f32>(select(magnitude, magnitude | 0x80000000u, bitcast<i32>(s) < 0));
}

fn f32_trunc(x: f32) -> f32 {
  return trunc(x);
}

fn f32_round(x: f32) -> f32 {
  return round(x);
}

fn f32_floor(x: f32) -> f32 {
  return floor(x);
}

fn f32_ceil(x: f32) -> f32 {
  return ceil(x);
}

fn f32_frac(x: f32) -> f32 {
  return select(x - trunc(x), f32_nan(), !f32_isfinite(x));
}

fn f32_sqrt(x: f32) -> f32 {
  return sqrt(x);
}

fn f32_rsqrt(x: f32) -> f32 {
  return 1.0 / sqrt(x);
}

// On the bits alone: where denormals are flushed, a float comparison takes them for 0.
fn f32_nextafter(a: f32, b: f32) -> f32 {
  let u = bitcast<i32>(a);
  let v = bitcast<i32>(b);
  let up = (v ^ ((v >> 31u) & 0x7fffffff)) > (u ^ ((u >> 31u) & 0x7fffffff));
  let step = bitcast<f32>(u + select(-1, 1, up == (u >= 0)));
  let tiny = bitcast<f32>(1u | (bitcast<u32>(b) & 0x80000000u));
  let same = u == v || ((u | v) & 0x7fffffff) == 0;
  let r = select(select(step, tiny, (u & 0x7fffffff) == 0), b, same);
  return select(r, f32_nan(), f32_isnan(a) || f32_isnan(b));
}

// a / b. GPUs multiply by 1/b, which is flushed to 0 for |b| > 2^126.
fn f32_div(a: f32, b: f32) -> f32 {
  let s = select(1.0, 5.96046448e-8, abs(b) > 4e37);
  return (a * s) / (b * s);
}

// a / b rounded once, where neither is near the ends of the range: GPUs are off by up to 2.5 units in the last place.
// Without its last bits q is a number of its own: a driver that multiplies by 1/b would else take q + rest / b for
// a / b + rest / b, and not round q in between.
fn f32_quotient(a: f32, b: f32) -> f32 {
  let q = bitcast<f32>(bitcast<u32>(a / b) & 0xfffffff0u);
  let qh = f32_head(q);
  let bh = f32_head(b);
  let ql = q - qh;
  let bl = b - bh;
  let rest = fma(ql, -bl, fma(-ql, bh, fma(qh, -bl, fma(-qh, bh, a))));
  let better = q + rest / b;
  return select(a / b, better, f32_isfinite(better));
}

// 2^n for n in [-126, 127].
fn f32_exp2i(n: i32) -> f32 {
  return bitcast<f32>((n + 127) << 23u);
}

// x * 2^n for a normal x whose product is normal, too: a factor that no compiler joins with the next one.
fn f32_raised(x: f32, n: i32) -> f32 {
  return bitcast<f32>(bitcast<i32>(x) + (n << 23u));
}

// x * 2^n, rounded at most once.
fn f32_ldexp(x: f32, n: i32) -> f32 {
  let e = f32_frexp_exponent(x) + clamp(n, -600, 600);
  let near = clamp(e, -100, 100);
  let r = f32_raised(f32_frexp_mantissa(x), near) * f32_exp2i(clamp(e - near, -126, 127));
  let u = bitcast<u32>(x) & 0x7fffffffu;
  return select(r, x, u == 0u || u >= 0x7f800000u);
}

fn f32_frexp_exponent(x: f32) -> i32 {
  let u = bitcast<u32>(x) & 0x7fffffffu;
  let e = i32(u >> 23u) - 126;
  let low = i32(firstLeadingBit(u)) - 148;
  return select(select(e, low, u < 0x00800000u), 0, u == 0u || u >= 0x7f800000u);
}

fn f32_frexp_mantissa(x: f32) -> f32 {
  let u = bitcast<u32>(x);
  let a = u & 0x7fffffffu;
  let shift = 23u - min(firstLeadingBit(a | 1u), 23u);
  let m = (u & 0x80000000u) | 0x3f000000u | ((a << shift) & 0x007fffffu);
  return select(bitcast<f32>(m), x, a == 0u || a >= 0x7f800000u);
}

// e^r for |r| <= ln(2)/2, to 2^-28.
fn f32_exp_poly(r: f32) -> f32 {
  let q = (((1.39422145e-3 * r + 8.36884882e-3) * r + 4.16663848e-2) * r + 1.66665196e-1) * r + 0.5;
  return (q * r) * r + r + 1.0;
}

// x - n ln(2) for n = round(x / ln 2); the high part of ln(2) has few bits, so its product with n is exact.
fn f32_exp_rest(x: f32, n: f32) -> f32 {
  return fma(n, 2.12194440e-4, fma(-n, 0.693359375, x));
}

// e^x for |x| < 87, without the care that the ends need.
fn f32_exp_bounded(x: f32) -> f32 {
  let n = round(x * 1.44269504);
  return f32_exp_poly(f32_exp_rest(x, n)) * f32_exp2i(i32(n));
}

// e^x * 2^k, with one rounding where the result is denormal. The built-in clamp may lose a NaN: it is put back at the end.
fn f32_exp_scaled(x: f32, k: i32) -> f32 {
  let c = clamp(x, -130.0, 110.0);
  let f = round(c * 1.44269504);
  let n = i32(f) + k;
  let h = n >> 1u;
  let r = f32_raised(f32_exp_poly(f32_exp_rest(c, f)), h) * f32_exp2i(n - h);
  return select(r, x, f32_isnan(x));
}

fn f32_exp(x: f32) -> f32 {
  return f32_exp_scaled(x, 0);
}

// 2^r for |r| <= 1/2.
fn f32_exp2_poly(r: f32) -> f32 {
  return (((((1.54633025e-4 * r + 1.33912021e-3) * r + 9.61806160e-3) * r + 5.55035919e-2) * r + 2.40226507e-1) * r + 6.93147182e-1) * r + 1.0;
}

fn f32_exp2(x: f32) -> f32 {
  let c = clamp(x, -152.0, 130.0);
  let f = round(c);
  let n = i32(f);
  let h = n >> 1u;
  let r = f32_raised(f32_exp2_poly(c - f), h) * f32_exp2i(n - h);
  return select(r, x, f32_isnan(x));
}

// e^r - 1 for |r| <= ln(2)/2.
fn f32_expm1_poly(r: f32) -> f32 {
  let q = ((((1.99442374e-4 * r + 1.39327091e-3) * r + 8.33320804e-3) * r + 4.16664891e-2) * r + 1.66666672e-1) * r + 0.5;
  return (q * r) * r + r;
}

// Computed as half the result, so that 2^128 is never needed. Near 0 nothing is added that would have to go again.
fn f32_expm1(x: f32) -> f32 {
  let c = clamp(x, -30.0, 89.0);
  let n = round(c * 1.44269504);
  let t = f32_exp2i(i32(n) - 1);
  let p = f32_expm1_poly(f32_exp_rest(c, n));
  let r = select((p * t + (t - 0.5)) * 2.0, p, n == 0.0);
  return select(r, x, f32_isnan(x) || abs(x) < 1e-9);
}

// log(1 + f) + e ln(2) for f in [sqrt(1/2) - 1, sqrt(2) - 1].
fn f32_log_poly(f: f32, e: f32) -> f32 {
  let p = ((((((-7.63644055e-2 * f + 1.27622217e-1) * f - 1.31596118e-1) * f + 1.42015800e-1) * f - 1.66234091e-1) * f + 2.00012416e-1) * f - 2.50008196e-1) * f + 3.33333313e-1;
  let z = f * f;
  return ((p * f) * z + e * -2.12194440e-4 - 0.5 * z) + f + e * 0.693359375;
}

// The exponent of x > 0 relative to [sqrt(1/2), sqrt(2)).
fn f32_log_exponent(x: f32) -> i32 {
  return (bitcast<i32>(x) - 0x3f3504f3) >> 23u;
}

// (f, e) with x = 2^e (1 + f), for x > 0. A denormal is read as an integer: many GPUs flush it in any arithmetic.
fn f32_log_split(x: f32) -> vec2<f32> {
  let u = bitcast<i32>(x);
  let tiny = u < 0x00800000;
  let v = bitcast<i32>(select(x, f32(u), tiny));
  let e = (v - 0x3f3504f3) >> 23u;
  return vec2<f32>(bitcast<f32>(v - (e << 23u)) - 1.0, f32(e) - select(0.0, 149.0, tiny));
}

// r, or what a logarithm is for x = 0, x < 0, inf and NaN.
fn f32_log_special(r: f32, x: f32) -> f32 {
  let u = bitcast<u32>(x);
  let top = select(r, x, u >= 0x7f800000u);
  return select(select(top, f32_nan(), u > 0x80000000u), -f32_inf(), (u << 1u) == 0u);
}

fn f32_log(x: f32) -> f32 {
  let v = f32_log_split(x);
  return f32_log_special(f32_log_poly(v.x, v.y), x);
}

// log(1 + f) - f for f in [sqrt(1/2) - 1, sqrt(2) - 1].
fn f32_log1p_rest(f: f32) -> f32 {
  let p = ((((((-7.63644055e-2 * f + 1.27622217e-1) * f - 1.31596118e-1) * f + 1.42015800e-1) * f - 1.66234091e-1) * f + 2.00012416e-1) * f - 2.50008196e-1) * f + 3.33333313e-1;
  let z = f * f;
  return (p * f) * z - 0.5 * z;
}

// 1/ln(2) = 1 + 0.4427 and 1/ln(10) = 0.43359375 + 0.0007: the rounding error of the constant then does not show.
fn f32_log2(x: f32) -> f32 {
  let v = f32_log_split(x);
  let y = f32_log1p_rest(v.x);
  return f32_log_special(((y * 0.442695041 + v.x * 0.442695041) + y) + v.x + v.y, x);
}

fn f32_log10(x: f32) -> f32 {
  let v = f32_log_split(x);
  let y = f32_log1p_rest(v.x);
  let low = (v.x * 7.00731903e-4 + y * 7.00731903e-4) + v.y * 2.48745663e-4;
  return f32_log_special((low + y * 0.43359375) + v.x * 0.43359375 + v.y * 0.30078125, x);
}

// 1 + x = 2^e (1 + f), with f from x itself so that the digits which 1 + x rounds away are kept.
fn f32_log1p(x: f32) -> f32 {
  let e = f32_log_exponent(1.0 + x);
  let scaled = bitcast<f32>(bitcast<i32>(x) - (e << 23u));
  let f = select(scaled + fma(f32_exp2i(clamp(-e, -126, 127)), 0.5, -0.5) * 2.0, x, e == 0);
  let r = select(f32_log_poly(f, f32(e)), x, abs(x) < 1e-9);
  let low = select(select(r, -f32_inf(), bitcast<u32>(x) == 0xbf800000u), f32_nan(), x < -1.0);
  return select(low, x, f32_isnan(x) || bitcast<u32>(x) == 0x7f800000u);
}

fn f32_sigmoid(x: f32) -> f32 {
  return 1.0 / (1.0 + f32_exp(-x));
}

// expm1(2a) / (expm1(2a) + 2): one path for all |x|. A GPU's division may give a little more than 1.
fn f32_tanh(x: f32) -> f32 {
  let c = min(abs(x), 10.0) * 2.0;
  let n = round(c * 1.44269504);
  let t = f32_exp2i(i32(n));
  let p = f32_expm1_poly(f32_exp_rest(c, n));
  let e = select(p * t + (t - 1.0), p, n == 0.0);
  let r = f32_copysign(min(e / (e + 2.0), 1.0), x);
  return select(r, x, f32_isnan(x) || abs(x) < 1e-4);
}

// erf(|x|): near 0 a polynomial, beyond it 1 - e^q(|x|), which is exact to rounding because e^q is then small. A NaN may
// become a number.
fn f32_erf_abs(x: f32) -> f32 {
  let t = min(abs(x), 4.0);
  let z = t * t;
  let q = (((((-1.12317695e-5 * t + 3.22812324e-4) * t - 3.64250573e-3) * t + 2.37621833e-2) * t - 1.06237039e-1) * t - 6.35151207e-1) * t - 1.12864852;
  let p = ((((-5.98021376e-4 * z + 4.99176187e-3) * z - 2.67662313e-2) * z + 1.12818271e-1) * z - 3.76124978e-1) * z + 1.28379151e-1;
  return select(p * t + t, 1.0 - f32_exp_bounded(q * t), t > 0.925);
}

fn f32_erf(x: f32) -> f32 {
  return select(f32_copysign(f32_erf_abs(x), x), x, f32_isnan(x));
}

// The normal distribution as 1 / (1 + 2^-t), t a polynomial in x. The built-in power is good enough: an error of its
// counts by the smaller of the two probabilities, and in the lower tail the result itself is small.
fn f32_gelu_exp(x: f32) -> f32 {
  let z = min(x * x, 36.0);
  let p = (((((((((-2.38326069e-14 * z + 2.9634099e-12) * z - 1.53079369e-10) * z + 4.18885371e-9) * z - 6.02571149e-8) * z + 2.09512692e-7) * z + 8.38029064e-6) * z - 1.50938271e-4) * z - 1.06174462e-4) * z + 1.04842141e-1) * z + 2.30220819;
  return 1.0 + exp2(-x * p);
}

fn f32_gelu(x: f32) -> f32 {
  return x / f32_gelu_exp(x);
}

fn f32_gelu_slope(x: f32) -> f32 {
  return 1.0 / f32_gelu_exp(x) + x * 0.398942280 * f32_exp(x * x * -0.5);
}

// gelu for results of 16 bits: the normal distribution as 1 / (1 + 2^-t), t a polynomial in x, to 5e-5 of the result.
fn f32_gelu_half_exp(x: f32) -> f32 {
  let z = min(x * x, 36.0);
  let p = ((((((-4.56236264e-11 * z + 6.02842842e-9) * z - 3.28787650e-7) * z + 9.36070501e-6) * z - 1.32270347e-4) * z - 2.52677914e-4) * z + 1.05220206e-1) * z + 2.30193305;
  return 1.0 + exp2(-x * p);
}

fn f32_gelu_half(x: f32) -> f32 {
  return x / f32_gelu_half_exp(x);
}

// Its derivative, to the same precision.
fn f32_gelu_half_slope(x: f32) -> f32 {
  return 1.0 / f32_gelu_half_exp(x) + x * 0.398942280 * exp2(x * x * -0.721347520);
}

// (1 + tanh(u)) / 2 = 1 / (1 + e^-2u) keeps its digits where tanh(u) is near -1.
fn f32_gelu_tanh(x: f32) -> f32 {
  let u = 1.59576912 * (x + 0.044715 * (x * x) * x);
  return x / (1.0 + f32_exp(-u));
}

// The first 12 bits of x: products of two such numbers are exact.
fn f32_head(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
}

// log2|x| as a sum of two floats, times y as two floats, then 2^: a single float would lose log2(y log2 x) bits.
// log2(m) = 2/(3 ln 2) s (3 + s^2 + ...) with s = (m - 1)/(m + 1); names ending in h have 12 bits, so their products are exact.
fn f32_pow(x: f32, y: f32) -> f32 {
  let ax = abs(x);
  let v = f32_log_split(ax);
  let f = v.x;
  let e = v.y;
  let d = f + 2.0;
  let dh = f32_head(d);
  let dl = fma(dh - 2.0, -0.5, 0.5 * f) * 2.0;
  let s = f / d;
  let sh = f32_head(s);
  let sl = fma(-sh, dl, fma(-sh, dh, f)) / d;
  let z = s * s;
  let r5 = ((0.35129446 * z + 0.42820635) * z + 0.6000023) * (z * z) + sl * (sh + s);
  let th = f32_head(3.0 + sh * sh + r5);
  let tl = fma(sh, sh, 3.0 - th) + r5;
  let w = sl * th + tl * s;
  let gh = f32_head(sh * th + w);
  let gl = fma(sh, th, -gh) + w;
  let rest = gh * 1.26772050976e-4 + gl * 0.961796693926;
  let lh = f32_head(e + gh * 0.961669921875);
  let ll = fma(gh, 0.961669921875, e - lh) + rest;
  let yc = clamp(y, -1e11, 1e11);
  let yh = f32_head(yc);
  let ph = yh * lh;
  let pl = (yc - yh) * lh + yc * ll;
  let t = ph + pl;
  let k = round(clamp(t, -160.0, 160.0));
  let ki = i32(k);
  let h = ki >> 1u;
  let power = f32_raised(f32_exp2_poly(fma(yh, lh, -k) + pl), h) * f32_exp2i(ki - h);
  let finite = select(select(power, f32_inf(), t > 129.0), 0.0, t < -151.0);

  let yinf = f32_isinf(y);
  let edge = bitcast<u32>(ax) == 0u || f32_isinf(x);
  let grows = (ax > 1.0) == (y > 0.0);
  var r = select(finite, select(0.0, f32_inf(), grows), edge || yinf);
  let integer = trunc(y) == y;
  let odd = integer && abs(y) < 16777216.0 && (i32(clamp(y, -2e7, 2e7)) & 1) != 0;
  r = select(r, -r, odd && f32_signbit(x));
  if ((bitcast<u32>(ax) == 0x3f800000u && (yinf || !f32_signbit(x))) || (bitcast<u32>(y) << 1u) == 0u) {
    return 1.0;
  }
  return select(r, f32_nan(), (x < 0.0 && !edge && !integer) || f32_isnan(x) || f32_isnan(y));
}

// Exact long division on the mantissas, 8 bits a step: at most 35 steps.
fn f32_fmod(x: f32, y: f32) -> f32 {
  let ux = bitcast<u32>(x) & 0x7fffffffu;
  let uy = bitcast<u32>(y) & 0x7fffffffu;
  if (ux >= 0x7f800000u || uy > 0x7f800000u || uy == 0u) {
    return f32_nan();
  }
  if (ux < uy) {
    return x;
  }
  let my = select((uy & 0x007fffffu) | 0x00800000u, uy, uy < 0x00800000u);
  var m = select((ux & 0x007fffffu) | 0x00800000u, ux, ux < 0x00800000u);
  let ey = max(i32(uy >> 23u), 1);
  var d = max(i32(ux >> 23u), 1) - ey;
  m = m % my;
  while (d > 0) {
    let step = min(d, 8);
    m = (m << u32(step)) % my;
    d = d - step;
  }
  // m < my, so it is scaled back from the exponent of y, without rounding.
  let z = min(u32(ey - 1), 23u - min(firstLeadingBit(m | 1u), 23u));
  let scaled = m << z;
  let bits = select((scaled & 0x007fffffu) | (u32(ey - i32(z)) << 23u), scaled, scaled < 0x00800000u);
  return bitcast<f32>(bits | (bitcast<u32>(x) & 0x80000000u));
}

// Python's %, with the sign of the divisor.
fn f32_remainder(x: f32, y: f32) -> f32 {
  let r = f32_fmod(x, y);
  let wrong = (bitcast<u32>(r) & 0x7fffffffu) != 0u && (r < 0.0) != (y < 0.0);
  return select(r, select(r + y, r, f32_isnan(r)), wrong);
}

fn f32_floor_divide(x: f32, y: f32) -> f32 {
  let q = f32_div(x, y);
  let r = f32_fmod(x, y);
  let wrong = (bitcast<u32>(r) & 0x7fffffffu) != 0u && (r < 0.0) != (y < 0.0);
  let d = f32_div(x - r, y) - select(0.0, 1.0, wrong);
  let low = floor(d);
  let f = select(low, low + 1.0, d - low > 0.5);
  let v = select(f, f32_copysign(0.0, q), d == 0.0);
  return select(select(v, f32_nan(), f32_isnan(r) || f32_isnan(d)), q, y == 0.0);
}

fn f32_hypot(a: f32, b: f32) -> f32 {
  let x = abs(a);
  let y = abs(b);
  let hi = select(y, x, x > y);
  let s = select(select(1.0, 1.23794004e27, hi < 1e-15), 8.07793567e-28, hi > 1e15);
  let u = x * s;
  let w = y * s;
  let r = sqrt(u * u + w * w) * (1.0 / s);
  let n = select(r, f32_nan(), f32_isnan(a) || f32_isnan(b));
  return select(n, f32_inf(), f32_isinf(a) || f32_isinf(b));
}

fn f32_logaddexp(a: f32, b: f32) -> f32 {
  let m = f32_max(a, b);
  return select(m + f32_log1p(f32_exp(-abs(a - b))), m, f32_isinf(m));
}

fn f32_logaddexp2(a: f32, b: f32) -> f32 {
  let m = f32_max(a, b);
  return select(m + f32_log1p(f32_exp2(-abs(a - b))) * 1.44269504, m, f32_isinf(m));
}

fn f32_entr(x: f32) -> f32 {
  let r = select(-x * f32_log(x), 0.0, x == 0.0);
  return select(select(r, -f32_inf(), x < 0.0), x, f32_isnan(x));
}

fn f32_xlogy(x: f32, y: f32) -> f32 {
  return select(select(x * f32_log(y), 0.0, x == 0.0), y, f32_isnan(y));
}

fn f32_xlog1py(x: f32, y: f32) -> f32 {
  return select(select(x * f32_log1p(y), 0.0, x == 0.0), y, f32_isnan(y));
}

fn f32_sinc(x: f32) -> f32 {
  let r = select(f32_sinpi(x) / (x * 3.14159265), 1.0, abs(x) < 1e-5);
  return select(r, f32_nan(), !f32_isfinite(x));
}

// A negative eps means no clamping, as torch's eps=None.
fn f32_logit(x: f32, eps: f32) -> f32 {
  let c = select(select(x, eps, x < eps), 1.0 - eps, x > 1.0 - eps);
  let z = select(x, c, eps >= 0.0 && !f32_isnan(x));
  return f32_log(z / (1.0 - z));
}
