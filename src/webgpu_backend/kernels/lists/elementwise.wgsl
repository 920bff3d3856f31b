{# Statements of the slot at hand. #}
{% macro by_slot(cases) %}
        switch (slot) {
{% for lines in cases %}
            {% if loop.last %}default{% else %}case {{ loop.index0 }}u{% endif %}: {
{% for line in lines %}
                {{ line }}
{% endfor %}
            }
{% endfor %}
        }
{% endmacro %}
{% include "text/interface.wgsl" %}

struct R {
{% for out in outs %}
    {{ out }}: f32,
{% endfor %}
}

fn op({{ arguments }}) -> R {
{% for line in body %}
    {{ line }}
{% endfor %}
    return R({{ outs | join(", ") }});
}

@compute @workgroup_size({{ workgroup }})
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
    @builtin(num_workgroups) nwg: vec3<u32>,
) {
    let wg = wid.x + wid.y * nwg.x;
{% include "lists/slot.wgsl" %}
{% for name, value in common %}
    let in_{{ name }} = {{ value }};
{% endfor %}
    let first = ((wg - start) * {{ workgroup }}u + lid) * {{ groups }}u;
    for (var g = first; g < min(first + {{ groups }}u, count); g++) {
{% for name in varying %}
        var in_{{ name }}: vec4<f32>;
{% endfor %}
{{ by_slot(loads) -}}
        // One copy of the operator, whatever the slot: only loads and stores are the slots' own.
{% for lane in lanes %}
        let y{{ loop.index0 }} = op({{ lane }});
{% endfor %}
{{ by_slot(stores) -}}
    }
}
