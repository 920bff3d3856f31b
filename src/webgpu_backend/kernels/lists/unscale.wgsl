{% extends "text/fours.wgsl" %}
{% block before %}
    let s = scale[p.scale_o];
{% endblock %}
{% block four %}
        let i = p.a_o + g;
{% for line in main %}
        {{ line }}
{% endfor %}
{% endblock %}
