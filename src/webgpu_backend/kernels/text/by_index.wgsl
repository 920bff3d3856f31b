{% if members %}
struct R { {{ members | join(", ") }} }

{% endif %}
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let g = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (g * {{ lanes }}u >= p.n) { return; }
{% if lanes == 1 %}
    let y = at(g);
{% else %}
{% for k in range(4) %}
    let y{{ k }} = at(min(4u * g + {{ k }}u, p.n - 1u));
{% endfor %}
{% endif %}
{% for line in stores %}
    {{ line }}
{% endfor %}
}
