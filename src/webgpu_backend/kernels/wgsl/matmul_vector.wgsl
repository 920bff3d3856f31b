{% include "matmul_head.wgsl" %}
{% include "matmul_store.wgsl" %}
{% set xyzw = "xyzw" %}
{% set threads = along_k * along_n %}
{% set by_column = b_class in "kK" %}
{# By column: a thread's share of k of one column, for every row. By row of b: four columns, every along_k-th k. #}
var<workgroup> sums: array<{{ type if by_column else "vec4<%s>" % type }}, {{ threads }}>;

@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
    let tile = group % p.tiles_n;
    let z = group / p.tiles_n;
    let split = z % p.splits;
    let ob = (z / p.splits) / p.inner;
    let ib = (z / p.splits) % p.inner;
    let k_first = split * p.chunk;
    let k_last = min(k_first + p.chunk, p.k);
    let astart = p.a_o + ob * p.a_b + ib * p.a_i;
    let bstart = p.b_o + ob * p.b_b + ib * p.b_i;
{% for i in range(rows) %}
{% if a_class == "r" %}
    let a{{ i }} = astart + min({{ i }}u, p.m - 1u) / 4u;
{% else %}
    let a{{ i }} = astart + min({{ i }}u, p.m - 1u) * p.a_r;
{% endif %}
{% endfor %}
{% macro element(i, k) %}
{% if a_class == "k" %}{{ read4("a", "a%d + (%s) / 4u" % (i, k)) }}[({{ k }}) % 4u]{% elif a_class == "r" %}{{ read4("a", "a%d + (%s) * p.a_k" % (i, k)) }}.{{ xyzw[i % 4] }}{% else %}{{ read("a", "a%d + (%s) * p.a_k" % (i, k)) }}{% endif %}
{% endmacro %}
{% if by_column %}
    let kt = lid % {{ along_k }}u;
    let n = tile * {{ along_n }}u + lid / {{ along_k }}u;
    let b0 = bstart + min(n, p.n - 1u) * p.b_r;
{% for i in range(rows) %}
    var c{{ i }} = {{ zero }};
{% endfor %}
{% if b_class == "k" %}
    for (var k = k_first + kt * 4u; k < k_last; k += {{ 4 * along_k }}u) {
        let y = {{ read4("b", "b0 + k / 4u") }};
{% for i in range(rows) %}
{% if a_class == "k" %}
        let x{{ i }} = {{ read4("a", "a%d + k / 4u" % i) }};
{% else %}
        let x{{ i }} = vec4<{{ type }}>({% for j in range(4) %}{{ element(i, "k + %du" % j) | trim }}{{ ", " if j < 3 }}{% endfor %});
{% endif %}
        let s{{ i }} = x{{ i }} * y;
        c{{ i }} += (s{{ i }}.x + s{{ i }}.y) + (s{{ i }}.z + s{{ i }}.w);
{% endfor %}
    }
{% else %}
    for (var k = k_first + kt; k < k_last; k += {{ along_k }}u) {
        let at = b0 + k * p.b_k;
        let y = {{ read("b", "at") }};
{% for i in range(rows) %}
        c{{ i }} += {{ element(i, "k") | trim }} * y;
{% endfor %}
    }
{% endif %}
    let base = p.o_o + ob * p.o_b + ib * p.o_i + split * p.o_s;
{% for i in range(rows) %}
    sums[lid] = c{{ i }};
    workgroupBarrier();
    for (var half = {{ along_k // 2 }}u; half > 0u; half /= 2u) {
        if (kt < half) {
            sums[lid] += sums[lid + half];
        }
        workgroupBarrier();
    }
    // One thread stores four columns: a packed output word has one writer.
    if (lid % {{ 4 * along_k }}u == 0u) {
        store(sums[lid], sums[lid + {{ along_k }}u], sums[lid + {{ 2 * along_k }}u], sums[lid + {{ 3 * along_k }}u], {{ i }}u, n, base, ob, ib);
    }
    workgroupBarrier();
{% endfor %}
{% else %}
    let nt = lid % {{ along_n }}u;
    let kt = lid / {{ along_n }}u;
    let n = (tile * {{ along_n }}u + nt) * 4u;
{% if b_class == "r" %}
    let b0 = bstart + min(n / 4u, p.n / 4u - 1u);
{% else %}
{% for j in range(4) %}
    let b{{ j }} = bstart + min(n + {{ j }}u, p.n - 1u) * p.b_r;
{% endfor %}
{% endif %}
{% for i in range(rows) %}
    var c{{ i }} = vec4<{{ type }}>({{ zero }});
{% endfor %}
    for (var k = k_first + kt; k < k_last; k += {{ along_k }}u) {
{% if b_class == "r" %}
        let y = {{ read4("b", "b0 + k * p.b_k") }};
{% else %}
{% for j in range(4) %}
        let at{{ j }} = b{{ j }} + k * p.b_k;
{% endfor %}
        let y = vec4<{{ type }}>({% for j in range(4) %}{{ read("b", "at%d" % j) }}{{ ", " if j < 3 }}{% endfor %});
{% endif %}
{% for i in range(rows) %}
        c{{ i }} += {{ element(i, "k") | trim }} * y;
{% endfor %}
    }
    let base = p.o_o + ob * p.o_b + ib * p.o_i + split * p.o_s;
{% for i in range(rows) %}
    sums[lid] = c{{ i }};
    workgroupBarrier();
    for (var half = {{ along_k // 2 }}u; half > 0u; half /= 2u) {
        if (kt < half) {
            sums[lid] += sums[lid + half * {{ along_n }}u];
        }
        workgroupBarrier();
    }
    if (kt == 0u) {
        let v = sums[lid];
        store(v.x, v.y, v.z, v.w, {{ i }}u, n, base, ob, ib);
    }
    workgroupBarrier();
{% endfor %}
{% endif %}
}
