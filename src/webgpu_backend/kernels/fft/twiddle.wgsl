// exp(-2 pi i q / length) for q < length: reduced to an eighth of a turn in integers, so the angle is exact.
fn twiddle(q: u32, length: u32) -> vec2<f32> {
    let quarter = (4u * q + length / 2u) / length;
    let angle = 1.5707963267948966 * (f32(i32(4u * q - quarter * length)) / f32(length));
    let s = f32_sin_poly(angle);
    let c = f32_cos_poly(angle);
    var w = vec2<f32>(c, -s);
    w = select(w, vec2<f32>(w.y, -w.x), (quarter & 1u) != 0u);
    return select(w, -w, (quarter & 2u) != 0u);
}

// A number times a twiddle: zero times infinity is nothing here, as in transforms that know their quarter turns.
fn times(a: vec2<f32>, w: vec2<f32>) -> vec2<f32> {
    let c = select(a * w.x, vec2<f32>(0.0), w.x == 0.0);
    let s = select(a * w.y, vec2<f32>(0.0), w.y == 0.0);
    return vec2<f32>(c.x - s.y, s.x + c.y);
}
