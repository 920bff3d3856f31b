{% include "text/interface.wgsl" %}
{% if outputs | length > 1 %}
struct R {
{% for name, type in outputs %}
    {{ name }}: {{ type }},
{% endfor %}
}
{% endif %}

fn op({{ arguments }}) -> {{ result }} {
{% for line in body %}
    {{ line }}
{% endfor %}
    return {{ returned }};
}

@compute @workgroup_size({{ workgroup }})
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
    @builtin(num_workgroups) nwg: vec3<u32>,
) {
{% if reversible %}
    let wg = u32(abs(i32(wid.x + wid.y * nwg.x) - i32(p.turn)));
{% else %}
    let wg = wid.x + wid.y * nwg.x;
{% endif %}
{% if tile %}
    let rows = {{ rows }};
    let across = (p.d0 + {{ tile - 1 }}u) / {{ tile }}u;
    let down = (rows + {{ tile - 1 }}u) / {{ tile }}u;
    let c0 = wg % across * {{ tile }}u + lid % {{ tile // 4 }}u * 4u;
    let c1 = wg / across % down * {{ tile }}u + lid / {{ tile // 4 }}u;
    var r = wg / across / down;
    let g = ((r * rows + c1) * p.d0 + c0) / 4u;
    if (c0 >= p.d0 || c1 >= rows || g >= p.n / 4u) {
        return;
    }
{% else %}
{% if groups > 1 %}
    for (var u = 0u; u < {{ groups }}u; u++) {
{% endif %}
{% if groups > 1 and interleaved %}
    let g = (wg * {{ groups }}u + u) * {{ workgroup }}u + lid;
{% elif groups > 1 %}
    let g = (wg * {{ workgroup }}u + lid) * {{ groups }}u + u;
{% else %}
    let g = wg * {{ workgroup }}u + lid;
{% endif %}
    if (g >= (p.n + 3u) / 4u) {
        return;
    }
{% endif %}
{% for line in main %}
    {{ line }}
{% endfor %}
{% if groups > 1 and not tile %}
    }
{% endif %}
}
