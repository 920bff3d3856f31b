// A convolution as in by_tables.wgsl, of f16, by matrix units: each subgroup has a part of the tile, in square matrices.
{% include "text/interface.wgsl" %}
{# Operands lie in workgroup memory along k where threads read neighbours along k. #}
{% set along = {"a": a_class != "r", "b": mode == "weight"} %}
{% from "conv/loads.wgsl" import a_loads, b_loads, place, load, registers, walk, walk_on with context %}
{% from "conv/again.wgsl" import lies, done, done4, again with context %}
{% from "text/matrices.wgsl" import begin, column_of, declare, hand_on, row_of, slot, steps, wide with context %}
{{ declare() }}

{# From registers into the tiles: fours along k, ones along k, fours along the rows, ones along the rows. #}
{% macro fours_along(x, loads) %}
{% for l in range(loads) %}
        {{ x }}_tile[{{ slot(x) }}{{ x }}row{{ l }} * {{ wide[x] }}u + four / 4u] = {{ x }}reg{{ l }};
{% endfor %}
{% endmacro %}
{% macro ones_along(x, loads) %}
{% for l in range(loads) %}
        {{ x }}_tile[{{ slot(x) }}({{ x }}row + {{ l * threads // t.bk }}u) * {{ wide[x] }}u + one / 4u][one % 4u] = {{ x }}reg{{ l }};
{% endfor %}
{% endmacro %}
{% macro fours_across(x, loads, rows) %}
{% for l in range(loads) %}
        {{ x }}_tile[{{ slot(x) }}({{ x }}k + {{ l * threads // (rows // 4) }}u) * {{ wide[x] }}u + {{ x }}row] = {{ x }}reg{{ l }};
{% endfor %}
{% endmacro %}
{% macro ones_across(x, loads, rows) %}
{% for l in range(loads) %}
        {{ x }}_tile[{{ slot(x) }}({{ x }}k + {{ l * threads // rows }}u) * {{ wide[x] }}u + {{ x }}row / 4u][{{ x }}row % 4u] = {{ x }}reg{{ l }};
{% endfor %}
{% endmacro %}
{% macro keep() %}
{% if a_class == "k" %}{{ fours_along("a", a_loads) }}{% elif a_class == "r" %}{{ fours_across("a", a_loads, t.bm) }}{% else %}{{ ones_along("a", a_loads) }}{% endif %}
{% if mode == "weight" %}{{ fours_along("b", b_loads) if b_class == "v" else ones_along("b", b_loads) }}{% else %}{{ fours_across("b", b_loads, t.bn) if b_class == "v" else ones_across("b", b_loads, t.bn) }}{% endif %}
{% endmacro %}
{% macro next() %}
        k0 += {{ t.bk }}u;
        if (k0 < k_last) {
{{ walk_on() }}
{{ load() }}
        }
{% endmacro %}

@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
{% include "conv/group.wgsl" %}
{{ begin() }}
{{ registers() }}
{{ walk() }}
{{ place() }}
    var k0 = k_first;
{{ load() }}
{{ steps("k_last - k_first", next, keep) }}
    let ostart = p.o_o + block * p.o_g + split * p.o_s;
{% if b_class == "g" %}
    var spoilt = 0u;
{% endif %}
{% call(number) hand_on() %}
{% if b_class == "g" %}
        spoilt |= select(0u, {{ 2 ** number }}u, f32_isnan(v.x + v.y + v.z + v.w));
{% endif %}
        if (m < p.m && n < p.n) {
{% set bias4 = " + " + exact("c", "p.c_o + (block * p.m + m) * p.c_s") if bias else "" %}
{% if store == "v" %}
            let w = {{ (done4("v", "n") if after else "v") + bias4 }};
            let o = ostart + {{ "(n / p.places) * p.o_i + (n % p.places) / 4u" if mode == "image" else "n / 4u" }} + m * p.o_m;
            {{ write4("o", ["w.x", "w.y", "w.z", "w.w"]) }}
{% else %}
{% for c in "xyzw" %}
            if (n + {{ loop.index0 }}u < p.n) {
                let at = n + {{ loop.index0 }}u;
                let w = {{ (done("v." + c, "at") if after else "v." + c) + bias4 }};
                let o = ostart + {{ "(at / p.places) * p.o_i + %s" % lies("at") if mode == "image" else "at" }} + m * p.o_m;
                {{ write("o", "w") }}
            }
{% endfor %}
{% endif %}
        }
{% endcall %}
{% if b_class == "g" %}
{{ again(row_of("r"), column_of("r")) }}
{% endif %}
}
