{% extends "text/fours.wgsl" %}
{# The weights as numbers, row after row, or those rows that an index names. #}
{% block functions %}
{% include "quantized/codes.wgsl" %}
{% endblock %}
{% block four %}
        let n = g * 4u / p.k;
{% if index %}
        let named = index_in[p.first + n];
        let row = {{ "checked(named.x, named.y, p.limit, p.site)" if index == 8 else "checked(named, select(0u, 0xffffffffu, named > 0x7fffffffu), p.limit, p.site)" }};
{% endif %}
        let v = weights_at({{ "row" if index else "n" }}, g * 4u - n * p.k);
{% for line in store %}
        {{ line }}
{% endfor %}
{% endblock %}
