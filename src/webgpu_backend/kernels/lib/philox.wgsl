// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3") and the distributions made from it.
// Integers are exact, so a seed gives the same bits on every adapter; floats use only the project's own maths library.
// A sampler that retries owns the last word of its counter: the caller passes `base` with base.w = 0.

const PHILOX_KEY_STEP: vec2<u32> = vec2<u32>(0x9e3779b9u, 0xbb67ae85u);

fn philox_round(c: vec4<u32>, k: vec2<u32>) -> vec4<u32> {
  let p = u32_mul_wide(0xd2511f53u, c.x);
  let q = u32_mul_wide(0xcd9e8d57u, c.z);
  return vec4<u32>(q.y ^ c.y ^ k.x, q.x, p.y ^ c.w ^ k.y, p.x);
}

// Unrolled: loop trips are scarce (65,535 per invocation on the software driver).
fn philox(counter: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
  var k = key;
  var c = philox_round(counter, k);
  k += PHILOX_KEY_STEP;
  c = philox_round(c, k);
  k += PHILOX_KEY_STEP;
  c = philox_round(c, k);
  k += PHILOX_KEY_STEP;
  c = philox_round(c, k);
  k += PHILOX_KEY_STEP;
  c = philox_round(c, k);
  k += PHILOX_KEY_STEP;
  c = philox_round(c, k);
  k += PHILOX_KEY_STEP;
  c = philox_round(c, k);
  k += PHILOX_KEY_STEP;
  c = philox_round(c, k);
  k += PHILOX_KEY_STEP;
  c = philox_round(c, k);
  k += PHILOX_KEY_STEP;
  c = philox_round(c, k);
  return c;
}

// Adds a 64-bit offset to the counter's first two words.
fn philox_advance(counter: vec4<u32>, offset: vec2<u32>) -> vec4<u32> {
  return vec4<u32>(i64_add(counter.xy, offset), counter.zw);
}

// [0, 1) with 24 bits; every step is exact.
fn philox_uniform_f32(x: u32) -> f32 {
  return f32(x >> 8u) * 0x1p-24f;
}

// [low, high) with the bits `held`: cut down to them, since a shorter dtype would round up to high; float32's own
// rounding may reach it too, and is low instead, as in torch.
fn philox_between(x: u32, low: f32, high: f32, held: u32) -> f32 {
  let v = philox_uniform_f32(x) * (high - low) + low;
  let bits = bitcast<u32>(v);
  let cut = bitcast<f32>(select(bits, bits + ~held, v < 0.0) & held);
  return select(max(cut, low), low, v >= high);
}

// (0, 1] with 24 bits.
fn philox_open_f32(x: u32) -> f32 {
  return f32((x >> 8u) + 1u) * 0x1p-24f;
}

// (0, 1] with 24 bits, and 32 near zero: what is to be fed to a logarithm, so that tails reach 2^-32.
fn philox_tail_f32(x: u32) -> f32 {
  return select(philox_open_f32(x), f32(x + 1u) * 0x1p-32f, x < 0xffffffu);
}

// 53 random bits as (low word, high word), from two words of output.
fn philox_bits53(x: u32, y: u32) -> vec2<u32> {
  return vec2<u32>((x >> 11u) | (y << 21u), y >> 11u);
}

// [0, 1) with 53 bits, where the adapter has shader-f64.
fn philox_uniform_f64(x: u32, y: u32) -> f64 {
  let bits = philox_bits53(x, y);
  return (f64(bits.y) * 4294967296.0lf + f64(bits.x)) * 1.1102230246251565e-16lf;
}

// 0 to n-1 for n > 0. The bias is at most n / 2^32: callers with n of 2^28 and more, as torch, use 64 bits.
fn philox_below_u32(x: u32, n: u32) -> u32 {
  return u32_mul_wide(x, n).y;
}

fn philox_below_u64(lo: u32, hi: u32, n: vec2<u32>) -> vec2<u32> {
  return u64_mul_hi(vec2<u32>(lo, hi), n);
}

fn philox_bernoulli(x: u32, p: f32) -> bool {
  return philox_uniform_f32(x) < p;
}

// Two independent standard normals (Box-Muller), up to 6.66 from the mean.
fn philox_normal2(x: u32, y: u32) -> vec2<f32> {
  let radius = f32_sqrt(-2.0 * f32_log(philox_tail_f32(x)));
  let angle = 6.2831853 * philox_uniform_f32(y);
  return radius * vec2<f32>(f32_cos(angle), f32_sin(angle));
}

// Never 0, as torch: its multinomial divides by it.
fn philox_exponential(x: u32, rate: f32) -> f32 {
  return max(-f32_log(philox_tail_f32(x)), 0x1p-24f) / rate;
}

// The number of trials up to the first success, 1 and more.
fn philox_geometric(x: u32, p: f32) -> f32 {
  return max(ceil(f32_log(philox_tail_f32(x)) / f32_log1p(-p)), 1.0);
}

// The quantile kept a step away from the poles of the tangent.
fn philox_cauchy(x: u32, median: f32, sigma: f32) -> f32 {
  let u = clamp(philox_uniform_f32(x), 0x1p-23f, 1.0 - 0x1p-23f);
  return median + sigma * f32_tan(3.1415927 * (u - 0.5));
}

fn philox_log_normal(z: f32, mean: f32, deviation: f32) -> f32 {
  return f32_exp(mean + deviation * z);
}

// Marsaglia and Tsang, "A simple method for generating gamma variables". Returns (logarithm of a factor, value):
// shapes below 1 multiply by u^(1/shape), which leaves the range of f32 long before its logarithm does.
// A trial is accepted with probability above 0.95; after 32 the mode stands in.
fn philox_gamma_parts(shape: f32, base: vec4<u32>, key: vec2<u32>) -> vec2<f32> {
  let small = shape < 1.0;
  let d = select(shape, shape + 1.0, small) - 0.33333334;
  let c = 1.0 / f32_sqrt(9.0 * d);
  var boost = 0.0;
  var value = d;
  for (var trip = 0u; trip < 32u; trip++) {
    let bits = philox(vec4<u32>(base.xyz, base.w + trip), key);
    if (small && trip == 0u) {
      boost = f32_log(philox_tail_f32(bits.w)) / shape;
    }
    let z = philox_normal2(bits.x, bits.y).x;
    let y = 1.0 + c * z;
    if (y > 0.0) {
      let v = y * y * y;
      let zz = z * z;
      let u = philox_tail_f32(bits.z);
      if (u < 1.0 - 0.0331 * zz * zz || f32_log(u) < 0.5 * zz + d * (1.0 - v + 3.0 * f32_log(y))) {
        value = d * v;
        break;
      }
    }
  }
  return vec2<f32>(boost, value);
}

// Standard gamma, at least the smallest normal float as torch; shape 0 gives 0.
fn philox_gamma(shape: f32, base: vec4<u32>, key: vec2<u32>) -> f32 {
  if (shape == 0.0) {
    return 0.0;
  }
  let parts = philox_gamma_parts(shape, base, key);
  return max(parts.y * f32_exp(parts.x), 0x1p-126f);
}

// The logarithm of a standard gamma: a Dirichlet sample is the softmax of these, and survives tiny concentrations.
fn philox_log_gamma(shape: f32, base: vec4<u32>, key: vec2<u32>) -> f32 {
  let parts = philox_gamma_parts(shape, base, key);
  return parts.x + f32_log(parts.y);
}

// log(k!) minus Stirling's main terms, for whole k (Loader, "Fast and accurate computation of binomial probabilities").
fn philox_stirling_error(k: f32) -> f32 {
  if (k > 8.0) {
    let s = 1.0 / (k * k);
    return (0.083333333 - s * (0.0027777778 - s * 0.00079365079)) / k;
  }
  var factorial = 1.0;
  for (var j = 2.0; j <= k; j += 1.0) {
    factorial *= j;
  }
  let stirling = select((k + 0.5) * f32_log(k) - k, 0.0, k == 0.0);
  return f32_log(factorial) - stirling - 0.91893853;
}

// k log(k / mean) + mean - k without cancellation near k = mean.
fn philox_deviance(k: f32, mean: f32) -> f32 {
  let difference = k - mean;
  if (abs(difference) >= 0.1 * (k + mean)) {
    return select(k * f32_log(k / mean), 0.0, k == 0.0) - difference;
  }
  let v = difference / (k + mean);
  let w = v * v;
  let series = w * (0.33333333 + w * (0.2 + w * (0.14285714 + w * 0.11111111)));
  return difference * v + 2.0 * k * v * series;
}

fn philox_poisson_log_pmf(k: f32, mean: f32) -> f32 {
  if (k == 0.0) {
    return -mean;
  }
  return -philox_stirling_error(k) - philox_deviance(k, mean) - 0.5 * f32_log(6.2831853 * k);
}

fn philox_binomial_log_pmf(k: f32, n: f32, p: f32, q: f32) -> f32 {
  if (k == 0.0) {
    return n * f32_log1p(-p);
  }
  if (k == n) {
    return n * f32_log(p);
  }
  let rest = n - k;
  let correction = philox_stirling_error(n) - philox_stirling_error(k) - philox_stirling_error(rest);
  let exponent = correction - philox_deviance(k, n * p) - philox_deviance(rest, n * q);
  return exponent - 0.5 * f32_log(6.2831853 * k * (rest / n));
}

// Below a mean of 10 the count of uniforms whose product stays above exp(-mean); from there Hörmann's PTRS, whose
// trials are accepted with probability above 0.7. The probability is Loader's, since f32 lgamma cancels at large means.
fn philox_poisson(mean: f32, base: vec4<u32>, key: vec2<u32>) -> f32 {
  if (f32_isnan(mean) || mean <= 0.0) {
    return select(0.0, mean, f32_isnan(mean));
  }
  if (mean < 10.0) {
    let floor_product = f32_exp(-mean);
    var product = 1.0;
    var count = -1.0;
    for (var trip = 0u; trip < 32u; trip++) {
      let bits = philox(vec4<u32>(base.xyz, base.w + trip), key);
      for (var lane = 0u; lane < 4u; lane++) {
        product *= philox_open_f32(bits[lane]);
        count += 1.0;
        if (product <= floor_product) {
          return count;
        }
      }
    }
    return count;
  }
  let b = 0.931 + 2.53 * f32_sqrt(mean);
  let a = -0.059 + 0.02483 * b;
  let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  let accept = 0.9277 - 3.6224 / (b - 2.0);
  for (var trip = 0u; trip < 64u; trip++) {
    let bits = philox(vec4<u32>(base.xyz, base.w + trip), key);
    let u = philox_uniform_f32(bits.x) - 0.5;
    let v = philox_open_f32(bits.y);
    let us = 0.5 - abs(u);
    let k = floor((2.0 * a / us + b) * u + mean + 0.43);
    if (us >= 0.07 && v <= accept) {
      return k;
    }
    if (k >= 0.0 && (us >= 0.013 || v <= us)) {
      let density = f32_log(v * inverse_alpha / (a / (us * us) + b));
      if (density <= philox_poisson_log_pmf(k, mean)) {
        return k;
      }
    }
  }
  return floor(mean);
}

// For p of at most 0.5: below n p = 10 a walk over geometric gaps, from there Hörmann's BTRS.
fn philox_binomial_half(n: f32, p: f32, base: vec4<u32>, key: vec2<u32>) -> f32 {
  if (n * p < 10.0) {
    let log_failure = f32_log1p(-p);
    var position = 0.0;
    var count = 0.0;
    for (var trip = 0u; trip < 32u; trip++) {
      let bits = philox(vec4<u32>(base.xyz, base.w + trip), key);
      for (var lane = 0u; lane < 4u; lane++) {
        position += max(ceil(f32_log(philox_tail_f32(bits[lane])) / log_failure), 1.0);
        if (position > n) {
          return count;
        }
        count += 1.0;
      }
    }
    return count;
  }
  let q = 1.0 - p;
  let deviation = f32_sqrt(n * p * q);
  let b = 1.15 + 2.53 * deviation;
  let a = -0.0873 + 0.0248 * b + 0.01 * p;
  let accept = 0.92 - 4.2 / b;
  let alpha = (2.83 + 5.1 / b) * deviation;
  let mode = floor((n + 1.0) * p);
  let top = philox_binomial_log_pmf(mode, n, p, q);
  for (var trip = 0u; trip < 64u; trip++) {
    let bits = philox(vec4<u32>(base.xyz, base.w + trip), key);
    let u = philox_uniform_f32(bits.x) - 0.5;
    let v = philox_open_f32(bits.y);
    let us = 0.5 - abs(u);
    let k = floor((2.0 * a / us + b) * u + n * p + 0.5);
    if (k >= 0.0 && k <= n) {
      if (us >= 0.07 && v <= accept) {
        return k;
      }
      let density = f32_log(v * alpha / (a / (us * us) + b));
      if (density <= philox_binomial_log_pmf(k, n, p, q) - top) {
        return k;
      }
    }
  }
  return mode;
}

fn philox_binomial(count: f32, p: f32, base: vec4<u32>, key: vec2<u32>) -> f32 {
  if (f32_isnan(p) || f32_isnan(count)) {
    return f32_nan();
  }
  if (count <= 0.0 || p <= 0.0) {
    return 0.0;
  }
  if (p >= 1.0) {
    return count;
  }
  if (p <= 0.5) {
    return philox_binomial_half(count, p, base, key);
  }
  return count - philox_binomial_half(count, 1.0 - p, base, key);
}
