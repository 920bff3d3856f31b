{% extends "text/fours.wgsl" %}
{% block before %}
    let key = vec2<u32>(p.key_x, p.key_y);
{% endblock %}
{% block four %}
        // A counter per four elements, whatever the adapter's work split: a seed gives the same numbers everywhere.
        let counter = philox_advance(vec4<u32>(p.at_x, p.at_y, 0u, 0u), vec2<u32>(g, 0u));
{% for line in main %}
        {{ line }}
{% endfor %}
{% endblock %}
