{# A thread for each column of the matrices b. #}
{% include "linalg/head.wgsl" %}
{% block declarations %}
{% endblock %}
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let thread = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (thread >= p.batch * p.columns) {
        return;
    }
    let b = thread / p.columns;
{% block body %}
{% endblock %}
}
