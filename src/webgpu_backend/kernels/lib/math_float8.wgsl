// A float of one byte: the rest of its exponent and digits from the sign down, with so many digits and such a bias.
fn f8_value(b: u32, digits: u32, bias: u32) -> f32 {
    let m = b & 0x7fu;
    let normal = bitcast<f32>((m << (23u - digits)) + ((127u - bias) << 23u));
    let tiny = f32(m) * bitcast<f32>((128u - bias - digits) << 23u);
    let v = select(normal, tiny, (m >> digits) == 0u);
    return bitcast<f32>(bitcast<u32>(v) | ((b & 0x80u) << 24u));
}

fn f8_e4m3fn(b: u32) -> f32 {
    return select(f8_value(b, 3u, 7u), f32_nan(), (b & 0x7fu) == 0x7fu);
}

fn f8_e5m2(b: u32) -> f32 {
    // The upper byte of a half.
    return unpack2x16float(b << 8u).x;
}

fn f8_e4m3fnuz(b: u32) -> f32 {
    return select(f8_value(b, 3u, 8u), f32_nan(), b == 0x80u);
}

fn f8_e5m2fnuz(b: u32) -> f32 {
    return select(f8_value(b, 2u, 16u), f32_nan(), b == 0x80u);
}

// The magnitude of x, rounded to nearest even: from the code of the largest number up where it is too large.
fn f8_magnitude(x: f32, digits: u32, bias: u32) -> u32 {
    let m = min(bitcast<u32>(x) & 0x7fffffffu, 0x4e000000u);
    let drop = 23u - digits;
    let normal = (m - ((127u - bias) << 23u) + (1u << (drop - 1u)) - 1u + ((m >> drop) & 1u)) >> drop;
    // The sum's last place is the least number's.
    let ones = (151u - bias - digits) << 23u;
    let tiny = bitcast<u32>(bitcast<f32>(m) + bitcast<f32>(ones)) - ones;
    return select(normal, tiny, m < ((128u - bias) << 23u));
}

fn f8_sign(x: f32) -> u32 {
    return (bitcast<u32>(x) >> 24u) & 0x80u;
}

fn f8_is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn f8_e4m3fn_bits(x: f32) -> u32 {
    return f8_sign(x) | select(min(f8_magnitude(x, 3u, 7u), 0x7eu), 0x7fu, f8_is_nan(x));
}

fn f8_e4m3fn_nan_bits(x: f32) -> u32 {
    return f8_sign(x) | select(min(f8_magnitude(x, 3u, 7u), 0x7fu), 0x7fu, f8_is_nan(x));
}

fn f8_e5m2_bits(x: f32) -> u32 {
    return f8_sign(x) | select(min(f8_magnitude(x, 2u, 15u), 0x7cu), 0x7fu, f8_is_nan(x));
}

// Without a negative zero, whose code is the only NaN.
fn f8_unsigned_zero(x: f32, code: u32) -> u32 {
    return select(select(f8_sign(x) | code, 0u, code == 0u), 0x80u, code >= 0x80u || f8_is_nan(x));
}

fn f8_e4m3fnuz_bits(x: f32) -> u32 {
    return f8_unsigned_zero(x, f8_magnitude(x, 3u, 8u));
}

fn f8_e5m2fnuz_bits(x: f32) -> u32 {
    return f8_unsigned_zero(x, f8_magnitude(x, 2u, 16u));
}
