struct P {
{% for field in fields %}
    {{ field }},
{% endfor %}
}
{% for name, access, type in bindings %}
@group(0) @binding({{ loop.index0 }}) var<storage, {{ access }}> {{ name }}: {{ type }};
{% endfor %}
{% for line in declarations %}
{{ line }}
{% endfor %}
{% if guarded %}
@group(0) @binding({{ bindings | length }}) var<storage, read_write> faults: array<atomic<u32>>;

{% include "text/faults.wgsl" %}
{% endif %}
