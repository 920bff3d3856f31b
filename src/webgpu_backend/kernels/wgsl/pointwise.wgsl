struct P {
{% for field in fields %}
    {{ field }},
{% endfor %}
}
{% for name, access, type in bindings %}
@group(0) @binding({{ loop.index0 }}) var<storage, {{ access }}> {{ name }}: {{ type }};
{% endfor %}
{% if outputs | length > 1 %}
struct R {
{% for name, type in outputs %}
    {{ name }}: {{ type }},
{% endfor %}
}
{% endif %}

fn op({{ arguments }}) -> {{ result }} {
{% for line in body %}
    {{ line }}
{% endfor %}
    return {{ returned }};
}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let thread = gid.x + gid.y * nwg.x * {{ workgroup }}u;
{% if groups > 1 %}
    for (var u = 0u; u < {{ groups }}u; u++) {
    let g = thread * {{ groups }}u + u;
{% else %}
    let g = thread;
{% endif %}
    if (g >= (p.n + 3u) / 4u) {
        return;
    }
{% for line in main %}
    {{ line }}
{% endfor %}
{% if groups > 1 %}
    }
{% endif %}
}
