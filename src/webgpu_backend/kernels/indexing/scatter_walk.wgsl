{% include "text/interface.wgsl" %}

fn combine(a: {{ type }}, b: {{ type }}) -> {{ type }} {
{% for line in combine %}
    {{ line }}
{% endfor %}
}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let at = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (at >= p.n) {
        return;
    }
    var cursor = b_head[at];
    if (cursor < 0) {
        return;
    }
    var acc = {{ read_target }};
    for (var step = 0u; step < {{ steps }}u; step++) {
        if (cursor < 0) {
            break;
        }
        acc = combine(acc, {{ read_value }});
        cursor = b_next[cursor];
    }
    {{ write_target }}
    b_head[at] = cursor;
}
