{% include "text/interface.wgsl" %}

{% for name in ("key", "value") %}
fn put_{{ name }}(i: u32, at: u32) {
    let d = i % p.{{ name }}_n;
    let row = i / p.{{ name }}_n;
    let head = row % p.heads;
    let batch = row / p.heads;
    let source = p.{{ name }}_o + batch * p.{{ name }}_b + head * p.{{ name }}_h + d;
    {{ name }}s[p.{{ name }}s_o + batch * p.{{ name }}s_b + head * p.{{ name }}s_h + at * p.{{ name }}s_r + d] = {{ name }}[source];
}

{% endfor %}
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(local_invocation_index) lane: u32) {
    let now = count[p.count_o];
    let at = placed(now.x, now.y, p.size, p.site);
    storageBarrier();  // all threads have read the count, and there is no other workgroup
    if (lane == 0u) {
        count[p.count_o] = vec2<u32>(now.x + 1u, now.y + select(0u, 1u, now.x == 0xffffffffu));
    }
    if (bad) {
        report();
        return;
    }
    for (var i = lane; i < p.rows * p.key_n; i += {{ workgroup }}u) {
        put_key(i, at);
    }
    for (var i = lane; i < p.rows * p.value_n; i += {{ workgroup }}u) {
        put_value(i, at);
    }
}
