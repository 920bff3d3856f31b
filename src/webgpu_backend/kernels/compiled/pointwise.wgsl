{% for text in accessors %}

{{ text }}
{% endfor %}

{{ source.functions }}
fn part(group: i32, lid: u32) {
    let thread = group * {{ workgroup }} + i32(lid);
{% if source.tile %}
{% set inner, step, other = source.tile %}
{% set across, along, between = inner // tile, other // tile, step // inner %}
    // Lines of both dimensions are used whole while they are in the cache.
    let square = thread / {{ workgroup }};
    let place = thread % {{ workgroup }};
    let column = square % {{ across }} * {{ tile }} + place % {{ tile // 4 }} * 4;
    let line = square / {{ across }} % {{ along }} * {{ tile }} + place / {{ tile // 4 }};
    let rest = square / {{ across * along }};
    let tiled = rest / {{ between }} * {{ step * other }} + line * {{ step }} + rest % {{ between }} * {{ inner }} + column;
{% endif %}
    for (var turn = 0; turn < {{ groups }}; turn++) {
{% if source.fours %}
        let first = {% if source.tile %}tiled{% else %}(thread * {{ groups }} + turn) * 4{% endif %};
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
