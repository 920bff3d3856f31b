{# How the threads of a workgroup read a tile of an operand, four elements at a time, into registers `areg` and `breg`: for all
   kernels that keep tiles in workgroup memory. #}
{% set xyzw = "xyzw" %}
{# What lies along k is turned on its way into the tile: four rows at a time where a thread has so many, else by elements. #}
{% macro blocks(class, loads) %}{{ "yes" if t.twist == 2 and class in "kq" and loads % 4 == 0 }}{% endmacro %}
{# Where load l of a thread goes: `row` and `k` within the tile; the row's base is computed once, outside the loop. #}
{% macro place(x, class, loads, wide4, origin, size) %}
{% for l in range(loads) %}
    let {{ x }}id{{ l }} = lid + {{ (l // 4 if blocks(class, loads) else l) * threads }}u;
{% if class in "kKwq" %}
    let {{ x }}k{{ l }} = ({{ x }}id{{ l }} % {{ t.bk // 4 }}u) * 4u;
    let {{ x }}row{{ l }} = {{ x }}id{{ l }} / {{ t.bk // 4 }}u{{ " * 4u + %du" % (l % 4) if blocks(class, loads) }};
{% if class == "q" %}
    let {{ x }}base{{ l }} = min({{ origin }} + {{ x }}row{{ l }}, {{ size }} - 1u);
{% elif class == "w" %}
    let {{ x }}tap{{ l }} = tap(min({{ origin }} + {{ x }}row{{ l }}, {{ size }} - 1u));
{% else %}
    let {{ x }}base{{ l }} = {{ x }}start + min({{ origin }} + {{ x }}row{{ l }}, {{ size }} - 1u) * p.{{ x }}_r;
{% endif %}
{% else %}
    let {{ x }}row{{ l }} = {{ x }}id{{ l }} % {{ wide4 }}u;
    let {{ x }}k{{ l }} = {{ x }}id{{ l }} / {{ wide4 }}u;
{% if class == "r" %}
    let {{ x }}base{{ l }} = {{ x }}start + min({{ origin }} / 4u + {{ x }}row{{ l }}, ({{ size }} + 3u) / 4u - 1u);
{% elif class in "gtu" %}
{% for c in range(4) %}
    let {{ x }}pos{{ l }}_{{ c }} = position(min({{ origin }} + 4u * {{ x }}row{{ l }} + {{ c }}u, {{ size }} - 1u));
{% endfor %}
{% else %}
{% for c in range(4) %}
    let {{ x }}base{{ l }}_{{ c }} = {{ x }}start + min({{ origin }} + 4u * {{ x }}row{{ l }} + {{ c }}u, {{ size }} - 1u) * p.{{ x }}_r;
{% endfor %}
{% endif %}
{% endif %}
{% endfor %}
{% endmacro %}
{# Loads the tile at k0 into registers; in a checked one what lies past the end of k becomes zero. #}
{% macro load(x, class, loads, checked) %}
{% for l in range(loads) %}
{% set k = "k0 + %sk%d" % (x, l) %}
{% if class in "gtuw" %}
{% if class != "w" %}
        let {{ x }}tap{{ l }} = tap({{ "min(%s, k_last - 1u)" % k if checked else k }});
{% endif %}
{% for c in range(4) %}
{% if class == "w" %}
{% set kc = "%s + %du" % (k, c) %}
{% set value = "fetch(%sstart, position(%s), %stap%d)" % (x, "min(%s, k_last - 1u)" % kc if checked else kc, x, l) %}
{% else %}
{% set kc = k %}
{% set value = "fetch(%sstart, %spos%d_%d, %stap%d)" % (x, x, l, c, x, l) %}
{% endif %}
{% if checked %}
        {{ x }}reg{{ l }}.{{ xyzw[c] }} = select({{ zeros[x] }}, {{ value }}, {{ kc }} < k_last);
{% else %}
        {{ x }}reg{{ l }}.{{ xyzw[c] }} = {{ value }};
{% endif %}
{% endfor %}
{% elif class == "q" %}
{% if checked %}
        {{ x }}reg{{ l }} = select(vec4<{{ types[x] }}>({{ zeros[x] }}), weights_at({{ x }}base{{ l }}, min({{ k }}, p.k - 4u)), {{ k }} < k_last);
{% else %}
        {{ x }}reg{{ l }} = weights_at({{ x }}base{{ l }}, {{ k }});
{% endif %}
{% elif class in "kr" %}
{% if class == "k" %}
{% set at = "%sbase%d + (%s) / 4u" % (x, l, "min(%s, p.k - 4u)" % k if checked else k) %}
{% else %}
{% set at = "%sbase%d + (%s) * p.%s_k" % (x, l, "min(%s, k_last - 1u)" % k if checked else k, x) %}
{% endif %}
{% if checked %}
        {{ x }}reg{{ l }} = select(vec4<{{ types[x] }}>({{ zeros[x] }}), {{ read4(x, at) }}, {{ k }} < k_last);
{% else %}
        {{ x }}reg{{ l }} = {{ read4(x, at) }};
{% endif %}
{% else %}
{% for c in range(4) %}
{% if class == "K" %}
{% set kc = "%s + %du" % (k, c) %}
{% set base = "%sbase%d" % (x, l) %}
{% else %}
{% set kc = k %}
{% set base = "%sbase%d_%d" % (x, l, c) %}
{% endif %}
        let {{ x }}at{{ l }}_{{ c }} = {{ base }} + ({{ "min(%s, k_last - 1u)" % kc if checked else kc }}) * p.{{ x }}_k;
{% if checked %}
        {{ x }}reg{{ l }}.{{ xyzw[c] }} = select({{ zeros[x] }}, {{ read(x, "%sat%d_%d" % (x, l, c)) }}, {{ kc }} < k_last);
{% else %}
        {{ x }}reg{{ l }}.{{ xyzw[c] }} = {{ read(x, "%sat%d_%d" % (x, l, c)) }};
{% endif %}
{% endfor %}
{% endif %}
{% endfor %}
{% endmacro %}
