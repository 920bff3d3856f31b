// bfloat16 from f32, round to nearest even; NaN stays NaN (its payload could round to infinity).
fn bf16_bits(x: f32) -> u32 {
    let u = bitcast<u32>(x);
    let rounded = (u + 0x7fffu + ((u >> 16u) & 1u)) >> 16u;
    return select(rounded, 0x7fc0u, (u & 0x7fffffffu) > 0x7f800000u);
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
