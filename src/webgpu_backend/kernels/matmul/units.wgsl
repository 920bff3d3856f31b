{% include "text/interface.wgsl" %}
{% include "matmul/store.wgsl" %}
{% if b_class == "q" %}
{% include "quantized/codes.wgsl" %}
{% endif %}
{% from "matmul/loads.wgsl" import place, load with context %}
{% set along = {"a": a_class in "kK", "b": b_class in "kKq"} %}
{% set loads = {"a": t.bm * t.bk // 4 // threads, "b": t.bn * t.bk // 4 // threads} %}
{% from "text/matrices.wgsl" import begin, declare, hand_on, slot, steps, wide with context %}
{{ declare() }}
{% if scales %}
{% include "matmul/powers.wgsl" %}
{% endif %}

{# From registers into the tile. #}
{% macro put(x) %}
{% for l in range(loads[x]) %}
{% set reg = "%sreg%d" % (x, l) %}
{% if x in scales %}
        let {{ x }}y{{ l }} = {{ reg }} * {{ x }}scale{{ l }};
        let {{ x }}half{{ l }} = vec4<f16>(vec4<f32>({% for c in "xyzw" %}shrink({{ reg }}.{{ c }}, {{ x }}y{{ l }}.{{ c }}){{ ", " if not loop.last }}{% endfor %}));
{% else %}
        let {{ x }}half{{ l }} = {{ reg if x in half else "vec4<f16>(%s)" % reg }};
{% endif %}
{% if along[x] %}
        {{ x }}_tile[{{ slot(x) }}{{ x }}row{{ l }} * {{ wide[x] }}u + {{ x }}k{{ l }} / 4u] = {{ x }}half{{ l }};
{% else %}
        {{ x }}_tile[{{ slot(x) }}{{ x }}k{{ l }} * {{ wide[x] }}u + {{ x }}row{{ l }}] = {{ x }}half{{ l }};
{% endif %}
{% endfor %}
{% endmacro %}
{% macro fetch() %}
{% if whole %}
{{ load("a", a_class, loads.a, false) }}
{{ load("b", b_class, loads.b, false) }}
{% else %}
        if (k0 + {{ t.bk }}u <= k_last) {
{{ load("a", a_class, loads.a, false) }}
{{ load("b", b_class, loads.b, false) }}
        } else {
{{ load("a", a_class, loads.a, true) }}
{{ load("b", b_class, loads.b, true) }}
        }
{% endif %}
{% endmacro %}
{% macro keep() %}
{{ put("a") }}
{{ put("b") }}
{% endmacro %}
{% macro next() %}
        // The next tile is under way while this one is used; {{ "after the last one that is read again" if whole else "past the end it is zeros" }}.
        {
            let k0 = {{ "min(k_first + done + %du, k_last - %du)" % (t.bk, t.bk) if whole else "k_first + done + %du" % t.bk }};
{{ fetch() }}
        }
{% endmacro %}

@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
{% include "matmul/group.wgsl" %}
    let split = z % p.splits;
    let ob = (z / p.splits) / p.inner;
    let ib = (z / p.splits) % p.inner;
    let k_first = split * p.chunk;
    let k_last = min(k_first + p.chunk, p.k);
    let length = k_last - k_first;
{{ begin() }}
{% for x in "ab" %}
{% for l in range(loads[x]) %}
    var {{ x }}reg{{ l }} = vec4<{{ types[x] }}>({{ zeros[x] }});
{% endfor %}
{% endfor %}
    let astart = p.a_o + ob * p.a_b + ib * p.a_i;
    let bstart = p.b_o + ob * p.b_b + ib * p.b_i;
{{ place("a", a_class, loads.a, t.bm // 4, "m0", "p.m") }}
{{ place("b", b_class, loads.b, t.bn // 4, "n0", "p.n") }}
{% for x, origin, rows in (("a", "m0", "p.m"), ("b", "n0", "p.n")) if x in scales %}
    let {{ x }}powers = ob * p.e{{ x }}_b + ib * p.e{{ x }}_i;
{% for l in range(loads[x]) %}
{% if along[x] %}
    let {{ x }}scale{{ l }} = power(e{{ x }}_in[{{ x }}powers + min({{ origin }} + {{ x }}row{{ l }}, {{ rows }} - 1u)]);
{% else %}
    let {{ x }}scale{{ l }} = vec4<f32>({% for c in range(4) %}power(e{{ x }}_in[{{ x }}powers + min({{ origin }} + 4u * {{ x }}row{{ l }} + {{ c }}u, {{ rows }} - 1u)]){{ ", " if c < 3 }}{% endfor %});
{% endif %}
{% endfor %}
{% endfor %}
    {
        let k0 = k_first;
{{ fetch() }}
    }
{{ steps("length", next, keep) }}
    let base = p.o_o + ob * p.o_b + ib * p.o_i + split * p.o_s;
{% call(number) hand_on() %}
{% if scales %}
        let em = ea_in[apowers + min(m, p.m - 1u)];
        store({% for j in range(4) %}unscale(v.{{ "xyzw"[j] }}, em{{ " + eb_in[bpowers + min(n + %du, p.n - 1u)]" % j if "b" in scales }}), {% endfor %}m, n, base, ob, ib);
{% else %}
        store(v.x, v.y, v.z, v.w, m, n, base, ob, ib);
{% endif %}
{% endcall %}
}
