{# A kernel whose threads have groups of four elements each: `before` them, and what is done with group g (`four`). #}
{% include "text/interface.wgsl" %}
{% block functions %}
{% endblock %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let thread = gid.x + gid.y * nwg.x * {{ workgroup }}u;
{% block before %}
{% endblock %}
    for (var u = 0u; u < {{ groups }}u; u++) {
        let g = thread * {{ groups }}u + u;
{% block within %}
        if (g >= (p.n + 3u) / 4u) {
            return;
        }
{% endblock %}
{% block four %}
{% endblock %}
    }
}
