{% include "text/interface.wgsl" %}
// Masked scores lie far below the lowest maximum of a row, so that their weight is exactly zero and never NaN.
const NEVER = -3.0e38;
const LOWEST = -1.0e38;
const LOG2E = 1.4426950408889634;
{% if packed %}

// Rows are the queries of every head that shares the keys, one head after the other.
fn q_start(q_at: u32, row: u32) -> u32 {
    return q_at + row / p.n * p.q_h + row % p.n * p.q_r;
}
{% endif %}

fn score(s: f32, query: u32, key: u32{{ ", mask_at: u32" if mask }}) -> f32 {
    let inside = query < p.l && key < p.s{{ " && key <= query" + (" % p.n" if packed else "") if causal }};
{% if mask %}
{% if packed %}
    let row = min(query, p.l - 1u);
    let at = mask_at + row / p.n * p.mask_h + row % p.n * p.mask_r + min(key, p.s - 1u) * p.mask_c;
{% else %}
    let at = mask_at + min(query, p.l - 1u) * p.mask_r + min(key, p.s - 1u) * p.mask_c;
{% endif %}
{% endif %}
{% if mask == "bool" %}
    return select(NEVER, s, inside && {{ read_mask("at") }});
{% elif mask %}
    // Not max, which may lose a NaN.
    let masked = s + {{ read_mask("at") }} * LOG2E;
    return select(NEVER, select(masked, NEVER, masked < NEVER), inside);
{% else %}
    return select(NEVER, s, inside);
{% endif %}
}
{% if dropout %}

// What the weights of a row for keys k, k + 8, k + 16 and k + 24 are times; every kernel counts the groups alike.
fn kept(row: u32, group: u32) -> vec4<f32> {
    let bits = philox(vec4<u32>(p.draw_x, p.draw_y, row, group + 1u), vec2<u32>(p.seed_x, p.seed_y));
    return select(vec4<f32>(0.0), vec4<f32>(p.rest), bits >= vec4<u32>(p.dropped));
}
{% endif %}
