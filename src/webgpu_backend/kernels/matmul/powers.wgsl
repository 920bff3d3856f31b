fn power(e: f32) -> f32 {
    return bitcast<f32>(u32(i32(e) + 127) << 23u);
}

// x * 2^-e, where 2^-e may pass what one f32 holds.
fn unscale(x: f32, e: f32) -> f32 {
    let all = -i32(e);
    let part = all / 2;
    return x * power(f32(part)) * power(f32(all - part));
}

// A number that is not zero stays so: an infinity on the other side must not meet a zero that was none.
fn shrink(x: f32, y: f32) -> f32 {
    return select(y, select(-5.9604645e-8, 5.9604645e-8, x > 0.0), abs(y) < 5.9604645e-8 && abs(x) > 0.0);
}
