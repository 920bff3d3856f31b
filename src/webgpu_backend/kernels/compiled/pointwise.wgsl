{% include "text/interface.wgsl" %}
{% for text in accessors %}

{{ text }}
{% endfor %}

{{ source.functions }}
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let thread = i32(gid.x + gid.y * nwg.x * {{ workgroup }}u);
    for (var turn = 0; turn < {{ groups }}; turn++) {
{% if source.fours %}
        let first = (thread * {{ groups }} + turn) * 4;
        if (first >= {{ count }}) {
            return;
        }
{% for line in source.loads %}
        {{ line }}
{% endfor %}
{# Written out: drivers keep vectors in memory where a variable picks their elements. #}
{% for lane in range(4) %}
        {% if source.whole %}{{ "{" }}{% else %}if (first + {{ lane }} < {{ count }}) {{ "{" }}{% endif +%}
            const lane4 = {{ lane }};
            let xindex = first + lane4;
{% for line in body %}
            {{ line }}
{% endfor %}
        }
{% endfor %}
{% for line in source.stores %}
        {{ line }}
{% endfor %}
{% else %}
        let xindex = thread * {{ groups }} + turn;
        if (xindex >= {{ count }}) {
            return;
        }
{% for line in body %}
        {{ line }}
{% endfor %}
{% endif %}
    }
}
