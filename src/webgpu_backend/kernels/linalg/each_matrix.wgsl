{# A workgroup of threads t for each matrix b. #}
{% include "linalg/head.wgsl" %}
{% block declarations %}
{% endblock %}
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let b = wid.x + wid.y * nwg.x;
    if (b >= p.batch) {
        return;
    }
{% block body %}
{% endblock %}
}
