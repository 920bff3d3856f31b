{% include "text/interface.wgsl" %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let thread = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    let key = vec2<u32>(p.key_x, p.key_y);
    for (var u = 0u; u < {{ groups }}u; u++) {
        let g = thread * {{ groups }}u + u;
        if (g >= (p.n + 3u) / 4u) {
            return;
        }
        // A counter per four elements, whatever the adapter's work split: a seed gives the same numbers everywhere.
        let counter = philox_advance(vec4<u32>(p.at_x, p.at_y, 0u, 0u), vec2<u32>(g, 0u));
{% for line in main %}
        {{ line }}
{% endfor %}
    }
}
