{% include "text/interface.wgsl" %}
{# For each row the power of two that brings its largest finite element into [2^top, 2^(top + 1)). A workgroup takes `rows` rows
   of an operand: four threads to each where they lie along k, else four rows to a thread and sixteen threads along k. #}
{% set threads = 256 %}
var<workgroup> largest: array<u32, {{ rows * 16 }}>;

// Bits that order magnitudes; of Inf and NaN none, which stay what they are under any power.
fn finite(x: f32) -> u32 {
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    return select(0u, bits, bits < 0x7f800000u);
}

fn of_four(v: vec4<f32>) -> u32 {
    return max(max(finite(v.x), finite(v.y)), max(finite(v.z), finite(v.w)));
}

{% for order in orders %}
{% set x = "ab"[loop.index0] %}
{% set along = order in "kK" %}
fn {{ x }}_powers(group: u32, lid: u32) {
    let first = group % p.{{ x }}_groups * {{ rows }}u;
    let batch = group / p.{{ x }}_groups;
    let start = p.{{ x }}_o + (batch / p.{{ x }}_inner) * p.{{ x }}_b + (batch % p.{{ x }}_inner) * p.{{ x }}_i;
{% if along %}
    let row = min(first + lid / 4u, p.{{ x }}_rows - 1u);
    var found = 0u;
{% if order == "k" %}
    for (var k = lid % 4u; k < p.depth / 4u; k += 4u) {
        let at = start + row * p.{{ x }}_r + k;
        found = max(found, of_four({{ read4(x, "at") }}));
    }
{% else %}
    for (var k = lid % 4u; k < p.depth; k += 4u) {
        let at = start + row * p.{{ x }}_r + k * p.{{ x }}_k;
        found = max(found, finite({{ read(x, "at") }}));
    }
{% endif %}
    largest[lid % 4u * {{ rows }}u + lid / 4u] = found;
{% set parts = 4 %}
{% else %}
    let row = lid % 16u * 4u;
    var found = vec4<u32>();
    for (var k = lid / 16u; k < p.depth; k += 16u) {
{% if order == "r" %}
        let at = start + min(first + row, p.{{ x }}_rows - 4u) / 4u + k * p.{{ x }}_k;
        let v = {{ read4(x, "at") }};
        found = max(found, vec4<u32>(finite(v.x), finite(v.y), finite(v.z), finite(v.w)));
{% else %}
{% for c in range(4) %}
        let at{{ c }} = start + min(first + row + {{ c }}u, p.{{ x }}_rows - 1u) * p.{{ x }}_r + k * p.{{ x }}_k;
        found.{{ "xyzw"[c] }} = max(found.{{ "xyzw"[c] }}, finite({{ read(x, "at%d" % c) }}));
{% endfor %}
{% endif %}
    }
{% for c in range(4) %}
    largest[lid / 16u * {{ rows }}u + row + {{ c }}u] = found.{{ "xyzw"[c] }};
{% endfor %}
{% set parts = 16 %}
{% endif %}
    workgroupBarrier();
    if (lid < {{ rows }}u && first + lid < p.{{ x }}_rows) {
        var all = 0u;
        for (var part = 0u; part < {{ parts }}u; part++) {
            all = max(all, largest[part * {{ rows }}u + lid]);
        }
        e{{ x }}[batch * p.{{ x }}_rows + first + lid] = f32(clamp({{ top }} - (i32(all >> 23u) - 127), -126, 126));
    }
}

{% endfor %}
@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    var group = wid.x + wid.y * nwg.x;
{% for order in orders %}
{% set x = "ab"[loop.index0] %}
    if (group < p.{{ x }}_total) {
        {{ x }}_powers(group, lid);
        return;
    }
    group -= p.{{ x }}_total;
{% endfor %}
}
