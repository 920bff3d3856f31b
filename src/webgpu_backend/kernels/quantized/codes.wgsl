{# From words to weights. Codes of up to eight bits become the low bits of a float of 2^23, or stand further left in it; one
   multiplication and subtraction, both exact, brings them to their place and takes off their zero. #}
{% if f.codes[0] in "468" %}
{% if f.codes[0] == "4" %}
fn codes(w: u32) -> vec4<f32> {
    let bits = vec4<u32>(w) & vec4<u32>(0xfu, 0xf0u, 0xf00u, 0xf000u);
{% elif f.codes[0] == "6" %}
fn codes(w: u32, high: u32) -> vec4<f32> {
    let bits = (vec4<u32>(w) & vec4<u32>(0xfu, 0xf0u, 0xf00u, 0xf000u)) | (vec4<u32>(high) & vec4<u32>(0x30u, 0x300u, 0x3000u, 0x30000u));
{% else %}
fn codes(word: u32) -> vec4<f32> {
    let w = word ^ 0x80808080u;
    let bits = vec4<u32>(w, w, w >> 16u, w >> 16u) & vec4<u32>(0xffu, 0xff00u, 0xffu, 0xff00u);
{% endif %}
{% set places = (0, 8, 0, 8) if f.codes[0] == "8" else (0, 4, 8, 12) %}
    let held = bitcast<vec4<f32>>(bits | vec4<u32>(0x4b000000u));
    return fma(held, vec4<f32>({% for s in places %}{{ 2.0 ** -s }}{{ ", " if not loop.last }}{% endfor %}), vec4<f32>({% for s in places %}{{ -(2.0 ** (23 - s) + low) }}{{ ", " if not loop.last }}{% endfor %}));
}
{% else %}
fn codes(w: u32) -> vec4<f32> {
    let bytes = vec4<u32>(w, w >> 8u, w >> 16u, w >> 24u) & vec4<u32>(255u);
    return vec4<f32>({% for c in "xyzw" %}f8_{{ f.codes }}(bytes.{{ c }}){{ ", " if not loop.last }}{% endfor %});
}
{% endif %}

{# `scale_held` reads what the scale of row n from element k on is made of, `scale_in` makes it, with the offset. #}
{% for i in numbers %}
{% if f.scales == "plain" %}
fn scale_held{{ i }}(n: u32, k: u32) -> f32 {
    let at = p.s_o{{ i }} + n * p.s_n{{ i }} + (k >> p.s_shift) * p.s_g;
    return {{ read_scale(i, "at") }};
}
{% elif f.scales == "zeros" %}
fn scale_held{{ i }}(n: u32, k: u32) -> vec2<f32> {
    let at = p.s_o{{ i }} + n * p.s_n{{ i }} + (k >> p.s_shift) * p.s_g;
    let zero = at + p.s_z;
    return vec2<f32>({{ read_scale(i, "at") }}, {{ read_scale(i, "zero") }});
}
{% elif f.scales == "k4" %}
fn scale_held{{ i }}(n: u32, k: u32) -> vec4<u32> {
    return s{{ i }}_in[p.s_o{{ i }} + n * p.s_n{{ i }} + k / 256u];
}
{% else %}
// Of sixteen elements; those of 64 share a word.
fn scale_held{{ i }}(n: u32, k: u32) -> vec2<u32> {
    let at = p.s_o{{ i }} + (n * p.s_n{{ i }} + k / 256u) * 5u;
    return vec2<u32>(s{{ i }}_in[at], s{{ i }}_in[at + 1u + ((k / 64u) & 3u)]);
}
{% endif %}
{% endfor %}

{% if f.scales == "plain" %}
fn scale_in(held: f32, k: u32) -> f32 {
    return held;
}
{% elif f.scales == "zeros" %}
fn scale_in(held: vec2<f32>, k: u32) -> vec2<f32> {
    return held;
}
{% elif f.scales == "k4" %}
fn scale_in(held: vec4<u32>, k: u32) -> vec2<f32> {
    let place = (k / 8u) & 28u;
    let more = held.w >> place;
    let scale = ((held.y >> place) & 15u) | ((more & 3u) << 4u);
    let least = ((held.z >> place) & 15u) | ((more & 12u) << 2u);
    return unpack2x16float(held.x ^ 0x80000000u) * vec2<f32>(vec2<u32>(scale, least));
}
{% else %}
fn scale_in(held: vec2<u32>, k: u32) -> f32 {
    return unpack2x16float(held.x).x * f32(extractBits(bitcast<i32>(held.y), ((k / 16u) & 3u) * 8u, 8u));
}
{% endif %}

{% if numbers[0] == "" %}
fn scale_of(n: u32, k: u32) -> {{ "vec2<f32>" if f.offsets else "f32" }} {
    return scale_in(scale_held(n, k), k);
}

// Weights k to k + 3 of row n; k is a multiple of four.
fn weights_at(n: u32, k: u32) -> vec4<f32> {
    let piece = p.b_o + n * p.b_r + k / 32u;
    let s = scale_of(n, k);
{% if f.words == 8 %}
    let c = codes(b_in[piece * 2u + ((k / 16u) & 1u)][(k / 4u) & 3u]);
{% elif f.words == 4 %}
    let c = codes(b_in[piece][(k / 8u) & 3u] >> ((k & 4u) << 2u));
{% else %}
    let low = b_in[piece * 3u + ((k / 16u) & 1u)][(k / 8u) & 1u] >> ((k & 4u) << 2u);
    let v = (k / 4u) & 3u;
    let high = b_in[piece * 3u + 2u][(k / 16u) & 1u];
    // Its two bits stand 16 * (v / 2) + 2 * (v % 2) up, and belong 4 up.
    let c = codes(low, ((high >> ((v & 2u) << 3u)) << 4u) >> ((v & 1u) << 1u));
{% endif %}
{% if f.offsets %}
    return c * s.x + s.y;
{% else %}
    return c * s;
{% endif %}
}
{% endif %}
