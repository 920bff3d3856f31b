{% extends "text/fours.wgsl" %}
{% block functions %}
{% if "columns: u32" in fields %}

// The sum of clamp(t, 0, columns) over all t up to x.
fn below(x: i32) -> u32 {
    let t = u32(max(x, 0));
    let c = p.columns;
    return select(c * (c + 1u) / 2u + (t - c) * c, t * (t + 1u) / 2u, t <= c);
}
{% endif %}

fn element(i: u32) -> {{ type }} {
{% for line in body %}
    {{ line }}
{% endfor %}
    return value;
}
{% endblock %}
{% block four %}
{% include "text/four_elements.wgsl" %}
{% endblock %}
