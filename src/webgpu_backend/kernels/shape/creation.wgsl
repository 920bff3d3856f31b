struct P {
{% for field in fields %}
    {{ field }},
{% endfor %}
}
@group(0) @binding(0) var<storage, read_write> b_out: {{ out }};
{% if "columns: u32" in fields %}

// The sum of clamp(t, 0, columns) over all t up to x.
fn below(x: i32) -> u32 {
    let t = u32(max(x, 0));
    let c = p.columns;
    return select(c * (c + 1u) / 2u + (t - c) * c, t * (t + 1u) / 2u, t <= c);
}
{% endif %}

fn element(i: u32) -> {{ type }} {
{% for line in body %}
    {{ line }}
{% endfor %}
    return value;
}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let thread = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    for (var u = 0u; u < {{ groups }}u; u++) {
        let g = thread * {{ groups }}u + u;
        if (g >= (p.n + 3u) / 4u) {
            return;
        }
{% for lane in range(4) %}
        let v{{ lane }} = element(min(g * 4u + {{ lane }}u, p.n - 1u));
{% endfor %}
{% for line in store %}
        {{ line }}
{% endfor %}
    }
}
