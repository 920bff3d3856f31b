{% include "text/interface.wgsl" %}
{% if guarded %}
@group(0) @binding({{ bindings | length }}) var<storage, read_write> faults: array<atomic<u32>>;

{% include "text/faults.wgsl" %}
{% endif %}
{% for line in private %}
{{ line }}
{% endfor %}

fn address(element: u32) -> u32 {
    var r = element;
{% for line in address %}
    {{ line }}
{% endfor %}
}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let thread = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    for (var u = 0u; u < {{ groups }}u; u++) {
        let g = thread * {{ groups }}u + u;
{% if not spread %}
        if (g >= (p.n + 3u) / 4u) {
            return;
        }
{% endif %}
{% for line in main %}
        {{ line }}
{% endfor %}
{% if guarded %}
        report();
{% endif %}
    }
}
