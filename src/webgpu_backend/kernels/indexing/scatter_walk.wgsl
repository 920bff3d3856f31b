struct P {
    n: u32,
}
@group(0) @binding(0) var<storage, read> b_val: {{ value }};
@group(0) @binding(1) var<storage, read> b_next: array<i32>;
@group(0) @binding(2) var<storage, read_write> b_head: array<i32>;
@group(0) @binding(3) var<storage, read_write> b_dst: {{ value }};

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
