{# `ig(2)` is the element of that name and gate, or 0 where that input is not there; `keep("hy", 0, y)` stores one where
   it is wanted. #}
{% macro keep(name, gate, value) %}
{% if name in wanted %}
    let {{ name }}_{{ gate }} = {{ value }};
    {{ write(name, gate) }}
{% endif %}
{% endmacro %}
{% include "text/interface.wgsl" %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let i = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (i >= p.n) {
        return;
    }
    let row = i / p.width;
    let h = i % p.width;
{% if cell == "lstm" %}
    let a0 = f32_sigmoid({{ ig(0) }} + {{ hg(0) }} + {{ ib(0) }} + {{ hb(0) }});
    let a1 = f32_sigmoid({{ ig(1) }} + {{ hg(1) }} + {{ ib(1) }} + {{ hb(1) }});
    let a2 = f32_tanh({{ ig(2) }} + {{ hg(2) }} + {{ ib(2) }} + {{ hb(2) }});
    let a3 = f32_sigmoid({{ ig(3) }} + {{ hg(3) }} + {{ ib(3) }} + {{ hb(3) }});
    let c = a1 * {{ cx(0) }} + a0 * a2;
    let y = a3 * f32_tanh(c);
{{ keep("cy", 0, "c") -}}
{{ keep("cells", 0, "c") -}}
{{ keep("hy", 0, "y") -}}
{{ keep("out", 0, "y") -}}
{{ keep("ws", 0, "a0") -}}
{{ keep("ws", 1, "a1") -}}
{{ keep("ws", 2, "a2") -}}
{{ keep("ws", 3, "a3") -}}
{% elif cell == "lstm_backward" %}
    let a0 = {{ ws(0) }};
    let a1 = {{ ws(1) }};
    let a2 = {{ ws(2) }};
    let a3 = {{ ws(3) }};
    let t = f32_tanh({{ cy(0) }});
    let g = {{ ghy(0) }} + {{ ghn(0) }};
    let gc = {{ gcy(0) }} + g * a3 * (1.0 - t * t);
{{ keep("gg", 0, "gc * a2 * a0 * (1.0 - a0)") -}}
{{ keep("gg", 1, "gc * %s * a1 * (1.0 - a1)" % cx(0)) -}}
{{ keep("gg", 2, "gc * a0 * (1.0 - a2 * a2)") -}}
{{ keep("gg", 3, "g * t * a3 * (1.0 - a3)") -}}
{{ keep("gcx", 0, "gc * a1") -}}
{% elif cell == "gru" %}
    let r = f32_sigmoid({{ ig(0) }} + {{ hg(0) }} + {{ ib(0) }} + {{ hb(0) }});
    let z = f32_sigmoid({{ ig(1) }} + {{ hg(1) }} + {{ ib(1) }} + {{ hb(1) }});
    let x = {{ hg(2) }} + {{ hb(2) }};
    let m = f32_tanh({{ ig(2) }} + {{ ib(2) }} + r * x);
    let old = {{ hx(0) }};
    let y = m + z * (old - m);
{{ keep("hy", 0, "y") -}}
{{ keep("out", 0, "y") -}}
{{ keep("ws", 0, "r") -}}
{{ keep("ws", 1, "z") -}}
{{ keep("ws", 2, "m") -}}
{{ keep("ws", 3, "old") -}}
{{ keep("ws", 4, "x") -}}
{% else %}
    let r = {{ ws(0) }};
    let z = {{ ws(1) }};
    let m = {{ ws(2) }};
    let old = {{ ws(3) }};
    let x = {{ ws(4) }};
    let g = {{ ghy(0) }} + {{ ghn(0) }};
    let gm = g * (1.0 - z) * (1.0 - m * m);
    let gr = gm * x * r * (1.0 - r);
    let gz = g * (old - m) * z * (1.0 - z);
{{ keep("gi", 0, "gr") -}}
{{ keep("gi", 1, "gz") -}}
{{ keep("gi", 2, "gm") -}}
{{ keep("gh", 0, "gr") -}}
{{ keep("gh", 1, "gz") -}}
{{ keep("gh", 2, "gm * r") -}}
{{ keep("ghx", 0, "g * z") -}}
{% endif %}
}
