// A convolution's image as the right operand: where a position and a tap of the window meet, or zero outside it.
// The fourth component of both is its share of the element's index.
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

fn fetch(base: u32, position: vec4<i32>, tap: vec4<i32>) -> {{ type }} {
    let size = vec3<u32>(p.x_d, p.x_h, p.x_w);
{% if b_class == "t" %}
    let reach = position.xyz - tap.xyz;
    let step = vec3<u32>(p.step_d, p.step_h, p.step_w);
    let at = vec3<u32>(max(reach, vec3<i32>(0))) / step;
    let inside = all(reach >= vec3<i32>(0)) & all(at * step == vec3<u32>(reach)) & all(at < size);
    let e = base + select(0u, u32(tap.w + linear(vec3<i32>(at))), inside);
{% else %}
{% set sign = "-" if b_class == "u" else "+" %}
{% if flat %}
    // `&`, not `&&`: a branch for each of the forty reads of a tile takes SwiftShader minutes to compile.
    let inside = (u32(position.y {{ sign }} tap.y) < size.y) & (u32(position.z {{ sign }} tap.z) < size.z);
{% else %}
    let inside = all(vec3<u32>(position.xyz {{ sign }} tap.xyz) < size);
{% endif %}
    let e = base + select(0u, u32(position.w + tap.w), inside);
{% endif %}
    return select({{ zero }}, {{ read("b", "e") }}, inside);
}
