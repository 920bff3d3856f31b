{% include "text/interface.wgsl" %}
{% if combine %}

fn combine(a: {{ combine[0] }}, b: {{ combine[0] }}) -> {{ combine[0] }} {
{% for line in combine[1] %}
    {{ line }}
{% endfor %}
}
{% endif %}

fn put(element: u32) {
    var r = element;
{% for line in main %}
    {{ line }}
{% endfor %}
    if (bad) {
        report();
        return;
    }
{% for line in store %}
    {{ line }}
{% endfor %}
}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let thread = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    for (var u = 0u; u < {{ each }}u; u++) {
        let element = (thread * {{ each }}u + u) * {{ lanes }}u;
        if (element >= p.n) {
            return;
        }
        put(element);
    }
}
