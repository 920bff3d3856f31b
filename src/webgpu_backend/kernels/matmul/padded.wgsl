{% include "text/interface.wgsl" %}
{# An operand, line by line as it lies, into lines of whole vectors; what is added at the end of lines, and lines, is zero. #}
{% for x in names %}
fn {{ x }}_copy(g: u32) {
    if (g >= p.{{ x }}_total) {
        return;
    }
    let line = g / p.{{ x }}_wide % p.{{ x }}_height;
    let batch = g / p.{{ x }}_wide / p.{{ x }}_height;
    let start = p.{{ x }}_o + batch / p.{{ x }}_inner * p.{{ x }}_b + batch % p.{{ x }}_inner * p.{{ x }}_i + min(line, p.{{ x }}_lines - 1u) * p.{{ x }}_apart;
    let e = g % p.{{ x }}_wide * 4u;
    var v = vec4<u32>();
{% for c in range(4) %}
    v[{{ c }}] = select(0u, {{ x }}[start + min(e + {{ c }}u, p.{{ x }}_width - 1u) * p.{{ x }}_along], e + {{ c }}u < p.{{ x }}_width && line < p.{{ x }}_lines);
{% endfor %}
    p{{ x }}[g] = v;
}

{% endfor %}
@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    var group = wid.x + wid.y * nwg.x;
{% for x in names %}
    if (group < p.{{ x }}_groups) {
        {{ x }}_copy(group * {{ threads }}u + lid);
        return;
    }
    group -= p.{{ x }}_groups;
{% endfor %}
}
