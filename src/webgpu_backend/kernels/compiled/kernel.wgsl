{% include "text/interface.wgsl" %}
{% for text in parts %}

{{ text }}
{% endfor %}

@compute @workgroup_size({{ workgroup }})
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let group = i32(wid.x + wid.y * nwg.x);
{% if parts | length == 1 %}
    part(group, lid);
{% else %}
{% for end in ends %}
    {% if not loop.first %}else {% endif %}if (group < p.{{ end }}) {
        part_{{ loop.index0 }}(group{{ "" if loop.first else " - p." + ends[loop.index0 - 1] }}, lid);
    }
{% endfor %}
    else {
        part_{{ ends | length }}(group - p.{{ ends | last }}, lid);
    }
{% endif %}
}
