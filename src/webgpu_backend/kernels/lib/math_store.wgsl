// bfloat16 from f32, round to nearest even; NaN stays NaN (its payload could round to infinity).
fn bf16_bits(x: f32) -> u32 {
    let u = bitcast<u32>(x);
    let rounded = (u + 0x7fffu + ((u >> 16u) & 1u)) >> 16u;
    return select(rounded, 0x7fc0u, (u & 0x7fffffffu) > 0x7f800000u);
}

// Two of them in a word, with fewer instructions than one by one. NaN by its bits: compilers take a == a for true.
fn bf16_pair(a: f32, b: f32) -> u32 {
    let u = bitcast<u32>(a);
    let v = bitcast<u32>(b);
    let low = select(u + 0x7fffu + ((u >> 16u) & 1u), 0x7fc00000u, (u << 1u) > 0xff000000u);
    let high = select(v + 0x7fffu + ((v >> 16u) & 1u), 0x7fc00000u, (v << 1u) > 0xff000000u);
    return (low >> 16u) | (high & 0xffff0000u);
}

// float16 from f32, round to nearest even with denormals, written out because pack2x16float may clamp or flush.
fn f16_bits(x: f32) -> u32 {
    let u = bitcast<u32>(x);
    let sign = (u >> 16u) & 0x8000u;
    let m = u & 0x7fffffffu;
    let normal = (m - 0x38000000u + 0xfffu + ((m >> 13u) & 1u)) >> 13u;
    let tiny = bitcast<u32>(bitcast<f32>(m) + 0.5) - 0x3f000000u;
    var r = select(normal, tiny, m < 0x38800000u);
    r = select(r, 0x7c00u, m >= 0x477ff000u);
    r = select(r, 0x7e00u, m > 0x7f800000u);
    return sign | r;
}

fn bf16_value(bits: u32) -> f32 {
    return bitcast<f32>(bits << 16u);
}

// The neighbour of a 16-bit pattern (sign and magnitude) on the way from a to b.
fn step_bits16(bits: u32, a: f32, b: f32) -> u32 {
    let up = (a < b) == ((bits & 0x8000u) == 0u);
    let near_zero = select(1u, 0x8001u, b < 0.0);
    return select(select(bits - 1u, bits + 1u, up), near_zero, (bits & 0x7fffu) == 0u);
}

// nextafter of the 16-bit formats, on values that they hold.
fn f32_nextafter_bf16(a: f32, b: f32) -> f32 {
    let r = select(bf16_value(step_bits16(bf16_bits(a), a, b)), b, a == b);
    return select(r, f32_nan(), f32_isnan(a) || f32_isnan(b));
}

fn f32_nextafter_f16(a: f32, b: f32) -> f32 {
    let r = select(unpack2x16float(step_bits16(f16_bits(a), a, b)).x, b, a == b);
    return select(r, f32_nan(), f32_isnan(a) || f32_isnan(b));
}

// A value as the 16-bit formats hold it. NVIDIA's compiler takes conversions to a half and back out, packing and
// unpacking too; quantizeToF16 stays, but makes zeros of denormals, which that compiler then leaves as they are.
fn f32_half(x: f32) -> f32 {
    let tiny = unpack2x16float(pack2x16float(vec2<f32>(x, 0.0))).x;
    return select(quantizeToF16(x), tiny, abs(x) < 6.103515625e-05);
}

fn f32_brain(x: f32) -> f32 {
    return bf16_value(bf16_bits(x));
}
