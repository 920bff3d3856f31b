// Convolutions whose groups have one input channel. A thread has {{ rows }} outputs down the image, its neighbours the next column.
{% include "text/interface.wgsl" %}
{# Where tap k of an axis meets position `at`: `reach` along the image, and whether it lies there. #}
{% macro meet(axis, at, k, name) %}
{% if kind == "g" %}
    let {{ name }} = {{ at }} * p.step_{{ axis }} + {{ k }} * p.dil_{{ axis }} - p.pad_{{ axis }};
    let {{ name }}_in = {{ name }} < p.x_{{ axis }};
{% elif kind == "u" %}
    let {{ name }} = {{ at }} + p.pad_{{ axis }} - {{ k }} * p.dil_{{ axis }};
    let {{ name }}_in = {{ name }} < p.x_{{ axis }};
{% else %}
    let {{ name }}_far = {{ at }} + p.pad_{{ axis }} - {{ k }} * p.dil_{{ axis }};
    let {{ name }} = {{ name }}_far / p.step_{{ axis }};
    let {{ name }}_in = {{ name }}_far < 0x80000000u && {{ name }} * p.step_{{ axis }} == {{ name }}_far && {{ name }} < p.x_{{ axis }};
{% endif %}
{% endmacro %}
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    var t = gid.x + gid.y * nwg.x * 64u;
    if (t >= p.total) {
        return;
    }
    let x = t % p.pos_w;
    t /= p.pos_w;
    let y = (t % p.bands) * {{ rows }}u;
    t /= p.bands;
    let z = t % p.pos_d;
    t /= p.pos_d;
    let o = t % p.channels;
    let image = t / p.channels;
{% for r in range(rows) %}
    var v{{ r }} = 0.0;
{% endfor %}
    let window = p.win_d * p.win_h * p.win_w;
{% if kind == "g" %}
    {
        let source = o / p.multiple;
        var w_at = p.w_o + o * window;
{% else %}
    for (var j = 0u; j < p.multiple; j++) {
        let source = o * p.multiple + j;
        var w_at = p.w_o + source * window;
{% endif %}
        let base = p.x_o + image * p.xs_n + source * p.xs_c;
        for (var kz = 0u; kz < p.win_d; kz++) {
            {{ meet("d", "z", "kz", "iz") }}
            for (var ky = 0u; ky < p.win_h; ky++) {
{% for r in range(rows) %}
                {{ meet("h", "(y + %du)" % r, "ky", "iy%d" % r) }}
{% endfor %}
                for (var kx = 0u; kx < p.win_w; kx++) {
                    {{ meet("w", "x", "kx", "ix") }}
                    let w = {{ read("w", "w_at") }};
                    w_at++;
                    if (iz_in && ix_in) {
                        let place = base + iz * p.xs_d + ix * p.xs_w;
{% for r in range(rows) %}
                        if (iy{{ r }}_in) {
                            let at = place + iy{{ r }} * p.xs_h;
                            v{{ r }} += w * {{ read("x", "at") }};
                        }
{% endfor %}
                    }
                }
            }
        }
    }
{% if bias %}
    let add = {{ read("c", "p.c_o + o * p.c_s") }};
{% endif %}
    let to = (((image * p.channels + o) * p.pos_d + z) * p.pos_h + y) * p.pos_w + x;
{% for r in range(rows) %}
    if (y + {{ r }}u < p.pos_h) {
        let at = to + {{ r }}u * p.pos_w;
{% if after %}
        let v = epilogue(v{{ r }}, o, (z * p.pos_h + y + {{ r }}u) * p.pos_w + x, image, 0u);
{% else %}
        let v = v{{ r }}{% if bias %} + add{% endif %};
{% endif %}
        {{ write("at", "v") }}
    }
{% endfor %}
}
