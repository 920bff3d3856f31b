{% include "text/interface.wgsl" %}

const LANES = {{ lanes }};
const WORKGROUP = {{ workgroup }};
const BESIDE = {{ 1 if source.along else workgroup // lanes }}u;  // from one thread of a row to the next
{% for text in accessors %}

{{ text }}
{% endfor %}

{{ source.functions }}
@compute @workgroup_size({{ workgroup }})
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let group = i32(wid.x + wid.y * nwg.x);
{% if source.along %}
    let lane = i32(lid) % LANES;
    let row = group * {{ workgroup // lanes }} + i32(lid) / LANES;
{% else %}
    // Neighbouring threads have neighbouring rows, whose elements are neighbours in memory.
    let lane = i32(lid) / {{ workgroup // lanes }};
    let row = group * {{ workgroup // lanes }} + i32(lid) % {{ workgroup // lanes }};
{% endif %}
    // Threads past the last row repeat it without its elements, so that all of them meet at the barriers.
    let live = row < {{ count }};
    let xindex = min(row, {{ count }} - 1);
{% for line in body %}
    {{ line }}
{% endfor %}
}
