{% include "text/interface.wgsl" %}

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
    atomicAdd(&{{ "near" if near else "b_out" }}[min(bin, p.bins - 1u)], 1u);
}
{% endif %}
{% if near %}
var<workgroup> near: array<atomic<u32>, {{ near }}>;

// A workgroup counts for itself first: its threads would wait for each other at the few words of the result.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32, @builtin(num_workgroups) nwg: vec3<u32>) {
    for (var i = lid; i < p.bins; i += {{ workgroup }}u) {
        atomicStore(&near[i], 0u);
    }
    workgroupBarrier();
    let first = (wid.x + wid.y * nwg.x) * {{ workgroup * per }}u + lid;
    for (var k = 0u; k < {{ per }}u; k++) {
        let i = first + k * {{ workgroup }}u;
        if (i < p.n) {
            put(i);
        }
    }
    workgroupBarrier();
    for (var i = lid; i < p.bins; i += {{ workgroup }}u) {
        let count = atomicLoad(&near[i]);
        if (count > 0u) {
            atomicAdd(&b_out[i], count);
        }
    }
}
{% else %}

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
{% endif %}
