{% extends "text/fours.wgsl" %}
{# The weights as numbers, row after row. #}
{% block functions %}
{% include "quantized/codes.wgsl" %}
{% endblock %}
{% block four %}
        let n = g * 4u / p.k;
        let v = weights_at(n, g * 4u - n * p.k);
{% for line in store %}
        {{ line }}
{% endfor %}
{% endblock %}
