{% include "text/interface.wgsl" %}
{% for line in widen %}
{{ line }}
{% endfor %}
{% if signature %}
{{ signature }} {
    {{ function }}
}
{% endif %}
