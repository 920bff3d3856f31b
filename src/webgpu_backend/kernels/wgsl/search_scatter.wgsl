{{ head }}
{% if kind == "inverse" %}
fn put(i: u32) {
    let to = b_pairs[i * {{ 2 * words }}u + {{ words }}u];
    let group = u32({{ a("i") }}) - 1u;
    {{ out("to", index("group", index_dtype)) }}
}
{% else %}
fn put(i: u32) {
    let x = {{ a("i", "f32") }};
    if (!(x >= p.low && x <= p.high)) {
        return;
    }
    let bin = u32((x - p.low) * f32(p.bins) / (p.high - p.low));
    atomicAdd(&b_out[min(bin, p.bins - 1u)], 1u);
}
{% endif %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let t = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    for (var k = 0u; k < {{ per }}u; k++) {
        let i = t * {{ per }}u + k;
        if (i < p.n) {
            put(i);
        }
    }
}
