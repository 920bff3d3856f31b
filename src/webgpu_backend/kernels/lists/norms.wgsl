// Norms of a list of tensors: a workgroup reduces a part of one of them to a number.
{% include "text/interface.wgsl" %}
var<workgroup> sums: array<f32, {{ threads }}>;

{% macro meet(a, b) %}{{ "f32_max(%s, %s)" % (a, b) if kind == "inf" else "%s + %s" % (a, b) }}{% endmacro %}
@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32, @builtin(num_workgroups) nwg: vec3<u32>) {
    let wg = wid.x + wid.y * nwg.x;
    var acc = 0.0;
{% if loads %}
{% include "lists/slot.wgsl" %}
    if (wg >= p.stop{{ loads | length - 1 }}) {
        return;
    }
    let first = (wg - start) * {{ threads * each }}u + lid;
    let last = min(first + {{ threads * (each - 1) + 1 }}u, (count + 3u) / 4u);
    switch (slot) {
{% for lines, lanes in loads %}
        {% if loop.last %}default{% else %}case {{ loop.index0 }}u{% endif %}: {
            for (var g = first; g < last; g += {{ threads }}u) {
{% for line in lines %}
                {{ line }}
{% endfor %}
                let v = select(vec4<f32>(0.0), vec4<f32>({{ lanes | join(", ") }}), vec4<u32>(g * 4u) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(count));
{% for c in "xyzw" %}
                acc = {{ meet("acc", "abs(v.%s)" % c if kind != "2" else "v.%s * v.%s" % (c, c)) }};
{% endfor %}
            }
        }
{% endfor %}
    }
    let to = p.first + wg;
{% else %}
    if (wg >= p.count) {
        return;
    }
    for (var i = starts[wg] + lid; i < starts[wg + 1u]; i += {{ threads }}u) {
        acc = {{ meet("acc", "part[i]") }};
    }
    let to = wg;
{% endif %}
    sums[lid] = acc;
    workgroupBarrier();
    for (var reach = {{ threads // 2 }}u; reach > 0u; reach /= 2u) {
        if (lid < reach) {
            sums[lid] = {{ meet("sums[lid]", "sums[lid + reach]") }};
        }
        workgroupBarrier();
    }
    if (lid == 0u) {
        out[to] = {{ "sqrt(sums[0])" if kind == "2" and not loads else "sums[0]" }};
    }
}
