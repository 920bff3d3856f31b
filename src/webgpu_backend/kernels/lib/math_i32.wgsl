// 32-bit integer arithmetic with torch's meaning where WGSL's operators differ:
// floor division, sign of the remainder, shift counts out of range, conversion of floats out of range.
// Nothing here knows about buffers, shapes or other dtypes.

const I32_MIN: i32 = -2147483647 - 1;

// WGSL defines x / 0 = x and MIN / -1 = MIN, so the operators themselves never trap. Quotients and remainders by zero are
// all ones, as CUDA has them.
fn i32_div_trunc(a: i32, b: i32) -> i32 {
  return select(a / b, -1, b == 0);
}

// Remainders are taken from the quotient: `%` becomes OpSRem, which Vulkan leaves undefined for negative operands, and
// NVIDIA's driver (580) answers -2147483647 % -2147483648 with 1.
fn i32_fmod(a: i32, b: i32) -> i32 {
  return select(a - (a / b) * b, -1, b == 0);
}

fn i32_div_floor(a: i32, b: i32) -> i32 {
  let q = a / b;
  let r = a - q * b;
  return select(select(q, q - 1, r != 0 && ((r ^ b) < 0)), -1, b == 0);
}

fn i32_remainder(a: i32, b: i32) -> i32 {
  let r = a - (a / b) * b;
  return select(select(r, r + b, r != 0 && ((r ^ b) < 0)), -1, b == 0);
}

// Negative exponents as torch: 1 and -1 keep magnitude one, every other base gives 0 (0 included).
fn i32_pow(a: i32, b: i32) -> i32 {
  if (b < 0) {
    let unit = select(1, a, (b & 1) != 0);
    return select(0, unit, a == 1 || a == -1);
  }
  return i32(u32_pow(u32(a), u32(b)));
}

fn i32_shl(a: i32, b: i32) -> i32 {
  return select(0, a << (u32(b) & 31u), u32(b) < 32u);
}

fn i32_shr(a: i32, b: i32) -> i32 {
  return a >> select(31u, u32(b), u32(b) < 32u);
}

// Euclid with C's signed remainder, so that operands equal to MIN (whose magnitude does not fit) give torch's sign.
fn i32_gcd(a: i32, b: i32) -> i32 {
  var x = abs(a);
  var y = abs(b);
  for (var trip = 0; trip < 64 && x != 0; trip++) {
    let r = y - (y / x) * x;
    y = x;
    x = r;
  }
  return y;
}

fn i32_lcm(a: i32, b: i32) -> i32 {
  let g = i32_gcd(a, b);
  if (g == 0) {
    return 0;
  }
  return abs((a / g) * b);
}

fn i32_sign(a: i32) -> i32 {
  return (a >> 31u) | i32(u32(-a) >> 31u);
}

// WGSL saturates, torch on a CPU gives MIN for NaN and for everything out of range; tested on the bits
// because comparisons with NaN are unreliable.
fn i32_from_f32(x: f32) -> i32 {
  let inside = (bitcast<u32>(x) & 0x7fffffffu) < 0x4f000000u;
  return select(I32_MIN, i32(select(0.0, x, inside)), inside);
}

fn u32_div(a: u32, b: u32) -> u32 {
  return a / b;
}

fn u32_rem(a: u32, b: u32) -> u32 {
  return a % b;
}

fn u32_pow(a: u32, b: u32) -> u32 {
  var result = 1u;
  var base = a;
  var left = b;
  for (var trip = 0; trip < 32 && left != 0u; trip++) {
    result = select(result, result * base, (left & 1u) != 0u);
    base = base * base;
    left = left >> 1u;
  }
  return result;
}

// Counts are unsigned: a negative count arrives as a large one and empties the word as torch does.
fn u32_shl(a: u32, b: u32) -> u32 {
  return select(0u, a << (b & 31u), b < 32u);
}

fn u32_shr(a: u32, b: u32) -> u32 {
  return select(0u, a >> (b & 31u), b < 32u);
}

fn u32_gcd(a: u32, b: u32) -> u32 {
  var x = a;
  var y = b;
  for (var trip = 0; trip < 64 && x != 0u; trip++) {
    let r = y % x;
    y = x;
    x = r;
  }
  return y;
}

fn u32_lcm(a: u32, b: u32) -> u32 {
  let g = u32_gcd(a, b);
  if (g == 0u) {
    return 0u;
  }
  return (a / g) * b;
}

fn u32_sign(a: u32) -> u32 {
  return min(a, 1u);
}

// The low word of the 64-bit conversion, so that negative values wrap instead of saturating at 0.
fn u32_from_f32(x: f32) -> u32 {
  return i64_from_f32(x).x;
}

// Full 32 x 32 -> 64 bit product (x = low word, y = high word) from 16-bit halves.
fn u32_mul_wide(a: u32, b: u32) -> vec2<u32> {
  let al = a & 0xffffu;
  let ah = a >> 16u;
  let bl = b & 0xffffu;
  let bh = b >> 16u;
  let low = al * bl;
  let mid = ah * bl + (low >> 16u);
  let cross = al * bh + (mid & 0xffffu);
  return vec2<u32>((cross << 16u) | (low & 0xffffu), ah * bh + (mid >> 16u) + (cross >> 16u));
}
