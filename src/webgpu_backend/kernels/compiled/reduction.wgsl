{% set beside = 1 if source.along else workgroup // lanes %}
{% for text in accessors %}

{{ text }}
{% endfor %}

{{ source.functions }}
{% for name, fields in source.joins %}
struct S_{{ name }} { {% for f, t in fields %}{{ f }}: {{ t }}, {% endfor %} }

{% if lanes > near %}
var<workgroup> shared_{{ name }}: array<S_{{ name }}, {{ workgroup // near }}>;

{% endif %}
// What all threads of a row have together.
fn total_{{ name }}(s: S_{{ name }}, lid: u32, lane: i32) -> S_{{ name }} {
    var t = s;
{% if near > 1 %}
    for (var half = {{ near // 2 }}u; half > 0u; half /= 2u) {
        t = join_{{ name }}(t, S_{{ name }}({% for f, _ in fields %}subgroupShuffleXor(t.{{ f }}, half), {% endfor %}));
    }
{% endif %}
{% if lanes > near and near > 1 %}
    if (lid % {{ near }}u == 0u) {
        shared_{{ name }}[lid / {{ near }}u] = t;
    }
    workgroupBarrier();
    let first = (lid - u32(lane)) / {{ near }}u;
    t = shared_{{ name }}[first];
    for (var i = 1u; i < {{ lanes // near }}u; i++) {
        t = join_{{ name }}(t, shared_{{ name }}[first + i]);
    }
    workgroupBarrier();
{% elif lanes > 1 and near == 1 %}
    shared_{{ name }}[lid] = t;
    workgroupBarrier();
    for (var half = {{ lanes // 2 }}; half > 0; half /= 2) {
        if (lane < half) {
            shared_{{ name }}[lid] = join_{{ name }}(shared_{{ name }}[lid], shared_{{ name }}[lid + u32(half) * {{ beside }}u]);
        }
        workgroupBarrier();
    }
    t = shared_{{ name }}[lid - u32(lane) * {{ beside }}u];
    workgroupBarrier();
{% endif %}
    return t;
}

{% endfor %}
{% for name, fields in source.scans %}
struct S_{{ name }} { {% for f, t in fields %}{{ f }}: {{ t }}, {% endfor %} }

{% if lanes > 1 %}
var<workgroup> shared_{{ name }}: array<S_{{ name }}, {{ workgroup }}>;

{% endif %}
// What the threads of a row before this one have together.
fn before_{{ name }}(s: S_{{ name }}, lid: u32, lane: i32) -> S_{{ name }} {
    var t: S_{{ name }};
{% if lanes > 1 %}
    shared_{{ name }}[lid] = s;
    workgroupBarrier();
    if (lane > 0) {
        t = shared_{{ name }}[lid - {{ beside }}u];
    }
    workgroupBarrier();
    for (var step = 1; step < {{ lanes }}; step *= 2) {
        shared_{{ name }}[lid] = t;
        workgroupBarrier();
        if (lane > step) {
            t = join_{{ name }}(shared_{{ name }}[lid - u32(step) * {{ beside }}u], t);
        }
        workgroupBarrier();
    }
{% endif %}
    return t;
}

{% endfor %}
fn part(group: i32, lid: u32) {
    const LANES = {{ lanes }};
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
