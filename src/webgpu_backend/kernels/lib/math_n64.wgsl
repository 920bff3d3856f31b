// 64-bit integers on adapters with shader-int64: what `i64` lacks or leaves to the driver, with torch's meaning.
// naga has no bitcast between i64 and vec2<u32>; words are joined and split by shifts and conversions.

// Through u64: naga 29 widens by the signedness of the target, so `i64(u32)` extends the sign and `u64(i32)` does not.
fn n64_load(lo: u32, hi: u32) -> i64 {
  return i64((u64(hi) << 32u) | u64(lo));
}

fn n64_lo(a: i64) -> u32 {
  return u32(u64(a) & 0xfffffffflu);
}

fn n64_hi(a: i64) -> u32 {
  return u32(u64(a) >> 32u);
}

fn n64_words(a: i64) -> vec2<u32> {
  return vec2<u32>(n64_lo(a), n64_hi(a));
}

// The whole product of two words: a GPU has an instruction for it.
fn n64_mul_wide(a: u32, b: u32) -> vec2<u32> {
  let product = u64(a) * u64(b);
  return vec2<u32>(u32(product & 0xfffffffflu), u32(product >> 32u));
}

fn n64_min(a: i64, b: i64) -> i64 {
  return select(a, b, b < a);
}

fn n64_max(a: i64, b: i64) -> i64 {
  return select(a, b, a < b);
}

fn n64_abs(a: i64) -> i64 {
  return select(a, 0li - a, a < 0li);
}

fn n64_sign(a: i64) -> i64 {
  return select(select(0li, 1li, a > 0li), -1li, a < 0li);
}

fn n64_div_trunc(a: i64, b: i64) -> i64 {
  return select(a / b, -1li, b == 0li);
}

// From the quotient, as i32_fmod and for its reason.
fn n64_fmod(a: i64, b: i64) -> i64 {
  return select(a - (a / b) * b, -1li, b == 0li);
}

fn n64_div_floor(a: i64, b: i64) -> i64 {
  let q = a / b;
  let r = a - q * b;
  return select(select(q, q - 1li, r != 0li && ((r ^ b) < 0li)), -1li, b == 0li);
}

fn n64_remainder(a: i64, b: i64) -> i64 {
  let r = a - (a / b) * b;
  return select(select(r, r + b, r != 0li && ((r ^ b) < 0li)), -1li, b == 0li);
}

// Negative exponents as torch: 1 and -1 keep magnitude one, every other base gives 0 (0 included).
fn n64_pow(a: i64, b: i64) -> i64 {
  if (b < 0li) {
    let unit = select(1li, a, (b & 1li) != 0li);
    return select(0li, unit, a == 1li || a == -1li);
  }
  var result = 1li;
  var base = a;
  var left = b;
  for (var trip = 0; trip < 64 && left != 0li; trip++) {
    result = select(result, result * base, (left & 1li) != 0li);
    base = base * base;
    left = left >> 1u;
  }
  return result;
}

// A count below 0 or above 63 empties the word, or leaves only the sign.
fn n64_shl(a: i64, b: i64) -> i64 {
  return select(0li, a << (u32(b & 63li)), b >= 0li && b < 64li);
}

fn n64_shr(a: i64, b: i64) -> i64 {
  return a >> select(63u, u32(b & 63li), b >= 0li && b < 64li);
}

// Euclid with C's signed remainder, so that operands equal to MIN (whose magnitude does not fit) give torch's sign.
fn n64_gcd(a: i64, b: i64) -> i64 {
  var x = n64_abs(a);
  var y = n64_abs(b);
  for (var trip = 0; trip < 100 && x != 0li; trip++) {
    let r = n64_fmod(y, x);
    y = x;
    x = r;
  }
  return y;
}

fn n64_lcm(a: i64, b: i64) -> i64 {
  let g = n64_gcd(a, b);
  if (g == 0li) {
    return 0li;
  }
  return n64_abs((a / g) * b);
}

// Tested on the bits because comparisons with NaN are unreliable; naga's own conversion saturates.
fn n64_from_f32(x: f32) -> i64 {
  let inside = (bitcast<u32>(x) & 0x7fffffffu) < 0x5f000000u;
  return select(n64_load(0u, 0x80000000u), i64(select(0.0, x, inside)), inside);
}

// Vulkan requires the correctly rounded conversion, and the drivers tried give it.
fn n64_to_f32(a: i64) -> f32 {
  return f32(a);
}

// Word by word: Mesa 25's software driver takes `i64(a) < constant` for false, whatever `a` is.
fn n64_from_i32(a: i32) -> i64 {
  return n64_load(u32(a), select(0u, 0xffffffffu, a < 0));
}

fn n64_from_u32(a: u32) -> i64 {
  return i64(u64(a));
}

fn n64_to_bool(a: i64) -> bool {
  return a != 0li;
}
