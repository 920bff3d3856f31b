// A convolution's image as the right operand: where a position and a tap of the window meet, or zero outside it.
fn position(j: u32) -> vec3<i32> {
    let at = vec3<i32>(vec3<u32>(j / (p.pos_h * p.pos_w), j / p.pos_w % p.pos_h, j % p.pos_w));
    let pad = vec3<i32>(vec3<u32>(p.pad_d, p.pad_h, p.pad_w));
{% if b_class == "t" %}
    return at + pad;
{% else %}
    return at * vec3<i32>(vec3<u32>(p.step_d, p.step_h, p.step_w)) - pad;
{% endif %}
}

// The tap's offset, and its channel's in elements.
fn tap(q: u32) -> vec4<i32> {
    let x = q % p.win_w;
    let y = q / p.win_w % p.win_h;
    let plane = q / (p.win_w * p.win_h);
    return vec4<i32>(vec4<u32>(plane % p.win_d * p.dil_d, y * p.dil_h, x * p.dil_w, plane / p.win_d * p.xs_c));
}

fn fetch(base: u32, position: vec3<i32>, tap: vec4<i32>) -> {{ type }} {
    let size = vec3<u32>(p.x_d, p.x_h, p.x_w);
{% if b_class == "t" %}
    let reach = position - tap.xyz;
    let step = vec3<u32>(p.step_d, p.step_h, p.step_w);
    let at = vec3<u32>(max(reach, vec3<i32>(0))) / step;
    let inside = all(reach >= vec3<i32>(0)) && all(at * step == vec3<u32>(reach)) && all(at < size);
{% else %}
    let at = vec3<u32>(position + tap.xyz);
    let inside = all(at < size);
{% endif %}
    let e = select(0u, u32(tap.w) + at.x * p.xs_d + at.y * p.xs_h + at.z * p.xs_w, inside) + base;
    return select({{ zero }}, {{ read("b", "e") }}, inside);
}
