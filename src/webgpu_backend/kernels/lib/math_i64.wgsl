// 64-bit integers on adapters without shader-int64, as vec2<u32>: x = low word, y = high word, two's complement.
// Exact over the whole range with wraparound, as torch int64. `u64_*` reads the same words as unsigned;
// add, sub, mul and the bit operations are the same for both.

const I64_ZERO: vec2<u32> = vec2<u32>(0u, 0u);
const I64_ONE: vec2<u32> = vec2<u32>(1u, 0u);
const I64_MINUS_ONE: vec2<u32> = vec2<u32>(0xffffffffu, 0xffffffffu);
const I64_MIN: vec2<u32> = vec2<u32>(0u, 0x80000000u);

fn i64_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + u32(low < a.x));
}

fn i64_sub(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x, a.y - b.y - u32(a.x < b.x));
}

fn i64_mul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = u32_mul_wide(a.x, b.x);
  return vec2<u32>(low.x, low.y + a.x * b.y + a.y * b.x);
}

fn i64_neg(a: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(~a.x + 1u, ~a.y + u32(a.x == 0u));
}

// MIN stays MIN, which the unsigned functions read as its true magnitude 2^63.
fn i64_abs(a: vec2<u32>) -> vec2<u32> {
  return select(a, i64_neg(a), i64_negative(a));
}

fn i64_negative(a: vec2<u32>) -> bool {
  return (a.y & 0x80000000u) != 0u;
}

fn i64_negate_if(a: vec2<u32>, negate: bool) -> vec2<u32> {
  return select(a, i64_neg(a), negate);
}

fn i64_eq(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.x == b.x && a.y == b.y;
}

fn i64_ne(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.x != b.x || a.y != b.y;
}

fn i64_lt(a: vec2<u32>, b: vec2<u32>) -> bool {
  return i32(a.y) < i32(b.y) || (a.y == b.y && a.x < b.x);
}

fn i64_le(a: vec2<u32>, b: vec2<u32>) -> bool {
  return !i64_lt(b, a);
}

fn i64_gt(a: vec2<u32>, b: vec2<u32>) -> bool {
  return i64_lt(b, a);
}

fn i64_ge(a: vec2<u32>, b: vec2<u32>) -> bool {
  return !i64_lt(a, b);
}

fn i64_min(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(a, b, i64_lt(b, a));
}

fn i64_max(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(a, b, i64_lt(a, b));
}

fn i64_and(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return a & b;
}

fn i64_or(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return a | b;
}

fn i64_xor(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return a ^ b;
}

fn i64_not(a: vec2<u32>) -> vec2<u32> {
  return ~a;
}

// A count below 0 or above 63 empties the word.
fn i64_shl(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(I64_ZERO, u64_shl_bits(a, b.x & 63u), b.y == 0u && b.x < 64u);
}

// Arithmetic; a count below 0 or above 63 leaves only the sign.
fn i64_shr(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return i64_shr_bits(a, select(63u, b.x, b.y == 0u && b.x < 64u));
}

// Counts 0 to 63. WGSL takes shift counts modulo 32, so the words are moved first and `32 - n` never is 32.
fn u64_shl_bits(a: vec2<u32>, n: u32) -> vec2<u32> {
  let s = n & 31u;
  let carried = (a.x >> 1u) >> (31u - s);
  return select(vec2<u32>(a.x << s, (a.y << s) | carried), vec2<u32>(0u, a.x << s), n > 31u);
}

fn u64_shr_bits(a: vec2<u32>, n: u32) -> vec2<u32> {
  let s = n & 31u;
  let carried = (a.y << 1u) << (31u - s);
  return select(vec2<u32>((a.x >> s) | carried, a.y >> s), vec2<u32>(a.y >> s, 0u), n > 31u);
}

fn i64_shr_bits(a: vec2<u32>, n: u32) -> vec2<u32> {
  let s = n & 31u;
  let carried = (a.y << 1u) << (31u - s);
  let high = u32(i32(a.y) >> s);
  let fill = u32(i32(a.y) >> 31u);
  return select(vec2<u32>((a.x >> s) | carried, high), vec2<u32>(high, fill), n > 31u);
}

fn u64_shl(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return i64_shl(a, b);
}

fn u64_shr(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(I64_ZERO, u64_shr_bits(a, b.x & 63u), b.y == 0u && b.x < 64u);
}

fn u64_lt(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.y < b.y || (a.y == b.y && a.x < b.x);
}

fn u64_le(a: vec2<u32>, b: vec2<u32>) -> bool {
  return !u64_lt(b, a);
}

fn u64_gt(a: vec2<u32>, b: vec2<u32>) -> bool {
  return u64_lt(b, a);
}

fn u64_ge(a: vec2<u32>, b: vec2<u32>) -> bool {
  return !u64_lt(a, b);
}

fn u64_min(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(a, b, u64_lt(b, a));
}

fn u64_max(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(a, b, u64_lt(a, b));
}

// The high 64 bits of the 128-bit product.
fn u64_mul_hi(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = u32_mul_wide(a.x, b.x);
  let mid = i64_add(u32_mul_wide(a.y, b.x), vec2<u32>(low.y, 0u));
  let cross = i64_add(u32_mul_wide(a.x, b.y), vec2<u32>(mid.x, 0u));
  let high = i64_add(u32_mul_wide(a.y, b.y), vec2<u32>(mid.y, 0u));
  return i64_add(high, vec2<u32>(cross.y, 0u));
}

// One base-2^16 digit of a quotient by the normalised divisor v: (head, next digit) / v, corrected at most twice
// (Knuth's algorithm D). Returns the digit and the remainder.
fn u64_quotient_digit(head: u32, next: u32, v: u32) -> vec2<u32> {
  let vh = v >> 16u;
  let vl = v & 0xffffu;
  var q = head / vh;
  var r = head - q * vh;
  if (q > 0xffffu || q * vl > ((r << 16u) | next)) {
    q -= 1u;
    r += vh;
    if (r < 0x10000u && (q > 0xffffu || q * vl > ((r << 16u) | next))) {
      q -= 1u;
    }
  }
  return vec2<u32>(q, (head << 16u) + next - q * v);
}

// (high, low) / v for high < v: quotient and remainder fit one word each.
fn u64_div_word(high: u32, low: u32, v: u32) -> vec2<u32> {
  let s = countLeadingZeros(v) & 31u;
  let u = u64_shl_bits(vec2<u32>(low, high), s);
  let d = v << s;
  let first = u64_quotient_digit(u.y, u.x >> 16u, d);
  let second = u64_quotient_digit(first.y, u.x & 0xffffu, d);
  return vec2<u32>((first.x << 16u) | second.x, second.y >> s);
}

// Quotient in xy, remainder in zw. Free of loops: the driver's bound on loop trips is per invocation.
// Division by zero gives all ones and the dividend.
fn u64_divmod(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
  if (b.y == 0u) {
    if (b.x == 0u) {
      return vec4<u32>(0xffffffffu, 0xffffffffu, a.x, a.y);
    }
    let high = a.y / b.x;
    if (a.y == 0u) {
      let q = a.x / b.x;
      return vec4<u32>(q, 0u, a.x - q * b.x, 0u);
    }
    let word = u64_div_word(a.y - high * b.x, a.x, b.x);
    return vec4<u32>(word.x, high, word.y, 0u);
  }
  // The quotient fits a word: estimate it from the divisor's top 32 bits, at most one too large (Hacker's Delight 9-5).
  let n = countLeadingZeros(b.y);
  let top = u64_shl_bits(b, n).y;
  let half = u64_shr_bits(a, 1u);
  let estimate = u64_div_word(half.y, half.x, top).x;
  var q = u64_shr_bits(vec2<u32>(estimate, 0u), 31u - n).x;
  q = select(q, q - 1u, q != 0u);
  var r = i64_sub(a, i64_mul(vec2<u32>(q, 0u), b));
  if (u64_ge(r, b)) {
    q += 1u;
    r = i64_sub(r, b);
  }
  return vec4<u32>(q, 0u, r.x, r.y);
}

fn u64_div(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return u64_divmod(a, b).xy;
}

fn u64_rem(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return u64_divmod(a, b).zw;
}

// Truncated quotient in xy, remainder with the dividend's sign in zw; MIN / -1 wraps to MIN. By zero both are all ones,
// as CUDA has them.
fn i64_divmod(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
  let magnitude = u64_divmod(i64_abs(a), i64_abs(b));
  let negative = i64_negative(a);
  let q = i64_negate_if(magnitude.xy, negative != i64_negative(b));
  return select(vec4<u32>(q, i64_negate_if(magnitude.zw, negative)), vec4<u32>(0xffffffffu), (b.x | b.y) == 0u);
}

fn i64_div_trunc(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return i64_divmod(a, b).xy;
}

fn i64_fmod(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return i64_divmod(a, b).zw;
}

fn i64_div_floor(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let d = i64_divmod(a, b);
  let down = (b.x | b.y) != 0u && i64_to_bool(d.zw) && (i64_negative(d.zw) != i64_negative(b));
  return select(d.xy, i64_sub(d.xy, I64_ONE), down);
}

fn i64_remainder(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let r = i64_divmod(a, b).zw;
  let up = (b.x | b.y) != 0u && i64_to_bool(r) && (i64_negative(r) != i64_negative(b));
  return select(r, i64_add(r, b), up);
}

// Negative exponents as torch: 1 and -1 keep magnitude one, every other base gives 0 (0 included).
fn i64_pow(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if (i64_negative(b)) {
    let unit = select(I64_ONE, a, (b.x & 1u) != 0u);
    return select(I64_ZERO, unit, i64_eq(a, I64_ONE) || i64_eq(a, I64_MINUS_ONE));
  }
  return u64_pow(a, b);
}

fn u64_pow(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  var result = I64_ONE;
  var base = a;
  var left = b;
  for (var trip = 0; trip < 64 && i64_to_bool(left); trip++) {
    if ((left.x & 1u) != 0u) {
      result = i64_mul(result, base);
    }
    base = i64_mul(base, base);
    left = u64_shr_bits(left, 1u);
  }
  return result;
}

fn i64_sign(a: vec2<u32>) -> vec2<u32> {
  return select(I64_MINUS_ONE, vec2<u32>(u32(i64_to_bool(a)), 0u), !i64_negative(a));
}

fn u64_sign(a: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(u32(i64_to_bool(a)), 0u);
}

// Euclid with C's signed remainder, so that operands equal to MIN (whose magnitude does not fit) give torch's sign.
// Consecutive Fibonacci numbers are the worst case: 91 trips.
fn i64_gcd(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  var x = i64_abs(a);
  var y = i64_abs(b);
  for (var trip = 0; trip < 100 && i64_to_bool(x); trip++) {
    let r = i64_fmod(y, x);
    y = x;
    x = r;
  }
  return y;
}

fn i64_lcm(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let g = i64_gcd(a, b);
  if (!i64_to_bool(g)) {
    return I64_ZERO;
  }
  return i64_abs(i64_mul(i64_div_trunc(a, g), b));
}

fn i64_from_i32(a: i32) -> vec2<u32> {
  return vec2<u32>(u32(a), u32(a >> 31u));
}

fn i64_from_u32(a: u32) -> vec2<u32> {
  return vec2<u32>(a, 0u);
}

fn i64_from_bool(a: bool) -> vec2<u32> {
  return vec2<u32>(u32(a), 0u);
}

fn i64_to_i32(a: vec2<u32>) -> i32 {
  return i32(a.x);
}

fn i64_to_u32(a: vec2<u32>) -> u32 {
  return a.x;
}

fn i64_to_bool(a: vec2<u32>) -> bool {
  return (a.x | a.y) != 0u;
}

// The 24 significant bits placed by the exponent, truncated; for magnitudes below 2^64.
fn u64_from_f32_bits(bits: u32) -> vec2<u32> {
  let exponent = (bits >> 23u) & 0xffu;
  let mantissa = vec2<u32>((bits & 0x7fffffu) | 0x800000u, 0u);
  if (exponent < 127u) {
    return I64_ZERO;
  }
  if (exponent < 150u) {
    return u64_shr_bits(mantissa, 150u - exponent);
  }
  return u64_shl_bits(mantissa, (exponent - 150u) & 63u);
}

// Truncates toward zero; NaN, infinities and values out of range give MIN, as torch on a CPU.
fn i64_from_f32(x: f32) -> vec2<u32> {
  let bits = bitcast<u32>(x);
  if ((bits & 0x7fffffffu) >= 0x5f000000u) {
    return I64_MIN;
  }
  return i64_negate_if(u64_from_f32_bits(bits), (bits & 0x80000000u) != 0u);
}

// As i64_from_f32 below 2^63 (negative values wrap), exact up to 2^64, 0 beyond: what x86 compilers do, and so torch.
fn u64_from_f32(x: f32) -> vec2<u32> {
  let bits = bitcast<u32>(x);
  if (bits < 0x5f000000u || bits > 0x7f800000u) {
    return i64_from_f32(x);
  }
  return select(I64_ZERO, u64_from_f32_bits(bits), bits < 0x5f800000u);
}

// Correctly rounded (nearest, ties to even) by integer steps: WGSL leaves the rounding of u32 -> f32 open.
fn u64_to_f32(a: vec2<u32>) -> f32 {
  if (!i64_to_bool(a)) {
    return 0.0;
  }
  let zeros = select(countLeadingZeros(a.y), 32u + countLeadingZeros(a.x), a.y == 0u);
  let n = u64_shl_bits(a, zeros);
  let kept = n.y >> 8u;
  let rest = n.y & 0xffu;
  let up = rest > 0x80u || (rest == 0x80u && (n.x != 0u || (kept & 1u) != 0u));
  // The leading one of `kept` adds one to the exponent field, and a carry out of the mantissa one more.
  return bitcast<f32>(((189u - zeros) << 23u) + kept + u32(up));
}

fn i64_to_f32(a: vec2<u32>) -> f32 {
  let magnitude = bitcast<u32>(u64_to_f32(i64_abs(a)));
  return bitcast<f32>(magnitude | (a.y & 0x80000000u));
}
