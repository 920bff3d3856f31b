{% extends "text/fours.wgsl" %}
{% block functions %}

fn address(element: u32) -> u32 {
    var r = element;
{% for line in address %}
    {{ line }}
{% endfor %}
}
{% endblock %}
{% block within %}
{% if not spread %}
{{ super() }}
{%- endif %}
{% endblock %}
{% block four %}
{% for line in main %}
        {{ line }}
{% endfor %}
{% if guarded %}
        report();
{% endif %}
{% endblock %}
