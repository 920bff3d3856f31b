// A convolution's image as the right operand: where a position and a tap of the window meet, or zero outside it.
// The fourth component of both is its share of the element's index.
{% set sign = "-" if b_class == "u" else "+" %}
{% set strides = "vec3<i32>(vec3<u32>(p.xs_d, p.xs_h, p.xs_w))" %}
fn linear(at: vec3<i32>) -> i32 {
    let parts = at * {{ strides }};
    return parts.x + parts.y + parts.z;
}

fn position_at(z: u32, y: u32, x: u32) -> vec4<i32> {
    let at = vec3<i32>(vec3<u32>(z, y, x));
    let pad = vec3<i32>(vec3<u32>(p.pad_d, p.pad_h, p.pad_w));
{% if b_class in "tu" %}
    let origin = at + pad;
{% else %}
    let origin = at * vec3<i32>(vec3<u32>(p.step_d, p.step_h, p.step_w)) - pad;
{% endif %}
    return vec4<i32>(origin, linear(origin));
}

fn position(j: u32) -> vec4<i32> {
    return position_at(j / (p.pos_h * p.pos_w), j / p.pos_w % p.pos_h, j % p.pos_w);
}

fn tap_at(channel: u32, z: u32, y: u32, x: u32) -> vec4<i32> {
    let offset = vec3<i32>(vec3<u32>(z * p.dil_d, y * p.dil_h, x * p.dil_w));
{% if b_class == "t" %}
    return vec4<i32>(offset, i32(channel * p.xs_c));
{% elif b_class == "u" %}
    return vec4<i32>(offset, i32(channel * p.xs_c) - linear(offset));
{% else %}
    return vec4<i32>(offset, i32(channel * p.xs_c) + linear(offset));
{% endif %}
}

fn tap(q: u32) -> vec4<i32> {
    let plane = q / (p.win_w * p.win_h);
    return tap_at(plane / p.win_d, plane % p.win_d, q / p.win_w % p.win_h, q % p.win_w);
}

// Whether a position meets the image where a tap reaches.
fn meets(position: vec4<i32>, tap: vec4<i32>) -> bool {
    let size = vec3<u32>(p.x_d, p.x_h, p.x_w);
{% if b_class == "t" %}
    let reach = position.xyz - tap.xyz;
    let step = vec3<u32>(p.step_d, p.step_h, p.step_w);
    let at = vec3<u32>(max(reach, vec3<i32>(0))) / step;
    return all(reach >= vec3<i32>(0)) & all(at * step == vec3<u32>(reach)) & all(at < size);
{% elif flat %}
    // `&`, not `&&`: a branch for each of the forty reads of a tile takes SwiftShader minutes to compile.
    return (u32(position.y {{ sign }} tap.y) < size.y) & (u32(position.z {{ sign }} tap.z) < size.z);
{% else %}
    return all(vec3<u32>(position.xyz {{ sign }} tap.xyz) < size);
{% endif %}
}

fn fetch(base: u32, position: vec4<i32>, tap: vec4<i32>) -> {{ type }} {
    let inside = meets(position, tap);
{% if b_class == "t" %}
    let at = vec3<u32>(max(position.xyz - tap.xyz, vec3<i32>(0))) / vec3<u32>(p.step_d, p.step_h, p.step_w);
    let e = base + select(0u, u32(tap.w + linear(vec3<i32>(at))), inside);
{% else %}
    let e = base + select(0u, u32(position.w + tap.w), inside);
{% endif %}
    return select({{ zero }}, {{ read("b", "e") }}, inside);
}
{% if repairs %}
{% if turns %}
var<private> turns: u32 = {{ turns }}u; // of loops: one software driver has an end to them
{% endif %}

// Four sums of a row without the places outside the image: zeros there, times infinity, would be NaN.
fn again(m: u32, n: u32, ob: u32, parts: vec2<u32>, k_first: u32, k_last: u32) -> vec4<{{ type }}> {
    var sums = vec4<{{ type }}>({{ zero }});
{% for c in range(4) %}
    let along{{ c }} = {{ "tap" if b_class == "w" else "position" }}(min(n + {{ c }}u, p.n - 1u));
{% endfor %}
    for (var part = parts.x; part < parts.y; part++) {
        let a = p.a_o + ob * p.a_b + part * p.a_i;
        let b = p.b_o + ob * p.b_b + part * p.b_i;
        for (var k = k_first; k < k_last{{ " && turns > 0u" if turns }}; k++) {
{% if turns %}
            turns--;
{% endif %}
            let across = {{ "position" if b_class == "w" else "tap" }}(k);
{% if a_class == "k" %}
            let left = {{ read4("a", "a + m * p.a_r + k / 4u") }}[k % 4u];
{% elif a_class == "r" %}
            let left = {{ read4("a", "a + m / 4u + k * p.a_k") }}[m % 4u];
{% else %}
            let e = a + m * p.a_r + k * p.a_k;
            let left = {{ read("a", "e") }};
{% endif %}
{% for c in range(4) %}
{% set where = ("across, along%d" if b_class == "w" else "along%d, across") % c %}
            if (meets({{ where }})) {
                sums.{{ "xyzw"[c] }} += left * fetch(b, {{ where }});
            }
{% endfor %}
        }
    }
    return {{ "select(vec4<%s>(%s_nan()), sums, turns > 0u)" % (type, type) if turns else "sums" }};
}
{% endif %}
