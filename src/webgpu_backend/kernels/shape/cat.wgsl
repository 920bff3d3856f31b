{% extends "text/fours.wgsl" %}
{% macro choose() %}
{% for lines in inputs %}
{% set k = loop.index0 %}
    {{ "" if loop.first else "else " }}{% if not loop.last %}if (column < p.start{{ k }} + p.length{{ k }}) {% endif %}{
{% if strided %}
        let upper = row / p.n0_{{ k }};
        let line = row % p.n0_{{ k }} * p.s0_{{ k }} + upper % p.n1_{{ k }} * p.s1_{{ k }} + upper / p.n1_{{ k }} * p.s2_{{ k }};
{% else %}
        let line = row * p.length{{ k }};
{% endif %}
        let at = p.offset{{ k }} + line + column - p.start{{ k }};
{% for line in lines %}
        {{ line }}
{% endfor %}
    }
{% endfor %}
{% endmacro %}
{% block functions %}
{% if not vector %}

fn element(i: u32) -> {{ type }} {
    let row = i / p.total;
    let column = i % p.total;
{{ choose() }}
}
{% endif %}
{% endblock %}
{% block four %}
{% if vector %}
        let row = (g * 4u) / p.total;
        let column = (g * 4u) % p.total;
{{ choose() }}
{% else %}
{% include "text/four_elements.wgsl" %}
{% endif %}
{% endblock %}
