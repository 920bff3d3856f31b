{# Elements in workgroup memory, read sixteen bytes at a time. #}
{% macro shared(name, count) %}var<workgroup> {{ name }}: array<vec4<f32>, {{ count * (2 if complex else 1) // 4 }}>;{% endmacro %}
{% macro put(name, index, value) %}
{% if complex %}
{{ name }}[({{ index }}) / 2u][({{ index }}) % 2u * 2u] = {{ value }}.x; {{ name }}[({{ index }}) / 2u][({{ index }}) % 2u * 2u + 1u] = {{ value }}.y;
{%- else %}
{{ name }}[({{ index }}) / 4u][({{ index }}) % 4u] = {{ value }};
{%- endif %}
{% endmacro %}
{# As many elements from `base` on, a multiple of four, as name0.. #}
{% macro get(name, base, count, as) %}
{% set each = 2 if complex else 4 %}
{% for g in range(count // each) %}
let {{ as }}_{{ g }} = {{ name }}[({{ base }}) / {{ each }}u + {{ g }}u];
{% for e in range(each) %}
let {{ as }}{{ g * each + e }} = {{ as }}_{{ g }}{{ (".xy", ".zw")[e] if complex else "." + "xyzw"[e] }};
{% endfor %}
{% endfor %}
{% endmacro %}
