// What the Jacobi methods share. A sweep rotates every pair of columns once, in rounds of pairs that have no column in
// common: pair 0 has the last column, the others are opposite each other on the ring of the rest.
var<workgroup> finished: u32;
var<workgroup> moved: atomic<u32>;

fn pair_of(pair: u32, turn: u32) -> vec2<u32> {
    let ring = (p.n + 1u) / 2u * 2u - 1u;
    let i = select((turn + pair) % ring, ring, pair == 0u);
    let j = select((turn + ring - pair) % ring, turn, pair == 0u);
    return vec2<u32>(min(i, j), max(i, j));
}

{% if complex %}
fn magnitude(x: E) -> f32 {
    let m = max(abs(x.x), abs(x.y));
    return m * sqrt(square(x / m));
}

fn phase(x: E) -> E {
    let y = x / max(abs(x.x), abs(x.y));
    return y / sqrt(square(y));
}
{% else %}
fn magnitude(x: E) -> f32 { return abs(x); }
fn phase(x: E) -> E { return select(1.0, -1.0, x < 0.0); }
{% endif %}

// The rotation that makes [[x, g], [g, y]] diagonal, for g > 0: its sine, and the tangent of half its angle.
fn rotation(x: f32, y: f32, g: f32) -> vec2<f32> {
    let zeta = (y - x) / (2.0 * g);
    let t = select(1.0, -1.0, zeta < 0.0) / (abs(zeta) + sqrt(1.0 + zeta * zeta));
    let c = 1.0 / sqrt(1.0 + t * t);
    return vec2<f32>(c * t, c * t / (1.0 + c));
}

// Columns x, y become c x - s u y, s x + c u y: u turns y so that its product with x is real. Written as corrections
// (Rutishauser): a cosine rounded to 1 would lengthen every column a little at every small rotation.
fn turned(x: E, y: E, r: vec2<f32>, u: E) -> array<E, 2> {
    let z = mul(u, y);
    return array<E, 2>(x - r.x * (z + r.y * x), z + r.x * (x - r.y * z));
}
