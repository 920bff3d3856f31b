{% include "text/interface.wgsl" %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let i = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (i >= p.n) {
        return;
    }
    let row = i / p.width;
    let h = i % p.width;
{% for line in main %}
    {{ line }}
{% endfor %}
}
