{% include "matmul_head.wgsl" %}
{% include "matmul_store.wgsl" %}
{% set xyzw = "xyzw" %}
{% set threads = along_k * along_n %}
{% set by_column = b_class in "kK" %}
{# By column: a thread's share of k of four columns. By row of b: four columns as a vector, every along_k-th k. #}
{% set at_once = [rows, 4] | min %}
{% set unroll = 8 if b_class == "r" else 4 %}
{% set parts = 8 if along_k >= 8 * at_once else 1 %}
var<workgroup> sums: array<vec4<{{ type }}>, {{ threads * at_once }}>;

fn dot4(x: vec4<{{ type }}>, y: vec4<{{ type }}>) -> {{ type }} {
    let s = x * y;
    return (s.x + s.y) + (s.z + s.w);
}

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
{% macro multiply(x, y) %}
{% for j in range(4) %}
            c{{ x }}.{{ xyzw[j] }} += dot4(x{{ x }}, {{ y }}{{ j }});
{% endfor %}
{% endmacro %}
{% if by_column %}
    let kt = lid % {{ along_k }}u;
    let nt = lid / {{ along_k }}u;
    let n = (tile * {{ along_n }}u + nt) * 4u;
{% for j in range(4) %}
    let b{{ j }} = bstart + min(n + {{ j }}u, p.n - 1u) * p.b_r;
{% endfor %}
{% for i in range(rows) %}
    var c{{ i }} = vec4<{{ type }}>({{ zero }});
{% endfor %}
{% if b_class == "k" %}
    for (var k = k_first + kt * 4u; k < k_last; k += {{ 4 * along_k }}u) {
{% for j in range(4) %}
        let y{{ j }} = {{ read4("b", "b%d + k / 4u" % j) }};
{% endfor %}
{% for i in range(rows) %}
        {
{% if a_class == "k" %}
            let x{{ i }} = {{ read4("a", "a%d + k / 4u" % i) }};
{% else %}
            let x{{ i }} = vec4<{{ type }}>({% for j in range(4) %}{{ element(i, "k + %du" % j) | trim }}{{ ", " if j < 3 }}{% endfor %});
{% endif %}
{{ multiply(i, "y") }}
        }
{% endfor %}
    }
{% else %}
    for (var k = k_first + kt; k < k_last; k += {{ along_k }}u) {
{% for j in range(4) %}
        let at{{ j }} = b{{ j }} + k * p.b_k;
{% endfor %}
        let y = vec4<{{ type }}>({% for j in range(4) %}{{ read("b", "at%d" % j) }}{{ ", " if j < 3 }}{% endfor %});
{% for i in range(rows) %}
        c{{ i }} += {{ element(i, "k") | trim }} * y;
{% endfor %}
    }
{% endif %}
{% set slot = "nt * %du + kt" % along_k %}
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
{% macro fetch(to, k) %}
{% if b_class == "r" %}
        let {{ to }} = {{ read4("b", "b0 + (%s) * p.b_k" % k) }};
{% else %}
{% for j in range(4) %}
        let {{ to }}at{{ j }} = b{{ j }} + ({{ k }}) * p.b_k;
{% endfor %}
        let {{ to }} = vec4<{{ type }}>({% for j in range(4) %}{{ read("b", "%sat%d" % (to, j)) }}{{ ", " if j < 3 }}{% endfor %});
{% endif %}
{% endmacro %}
    var k = k_first + kt;
    // Several rows of b under way at once.
    for (; k + {{ (unroll - 1) * along_k }}u < k_last; k += {{ unroll * along_k }}u) {
{% for u in range(unroll) %}
{{ fetch("y%d" % u, "k + %du" % (u * along_k)) }}
{% endfor %}
{% for u in range(unroll) %}
{% for i in range(rows) %}
        c{{ i }} += {{ element(i, "k + %du" % (u * along_k)) | trim }} * y{{ u }};
{% endfor %}
{% endfor %}
    }
    for (; k < k_last; k += {{ along_k }}u) {
{{ fetch("y", "k") }}
{% for i in range(rows) %}
        c{{ i }} += {{ element(i, "k") | trim }} * y;
{% endfor %}
    }
{% set slot = "nt * %du + kt" % along_k %}
{% endif %}
    let base = p.o_o + ob * p.o_b + ib * p.o_i + split * p.o_s;
{% for first in range(0, rows, at_once) %}
{% for i in range(at_once) %}
    sums[{{ i * threads }}u + {{ slot }}] = c{{ first + i }};
{% endfor %}
    workgroupBarrier();
{% if parts > 1 %}
    var v{{ first }} = vec4<{{ type }}>({{ zero }});
    if (lid < {{ at_once * along_n * parts }}u) {
        let from_ = lid / {{ along_n * parts }}u * {{ threads }}u + lid / {{ parts }}u % {{ along_n }}u * {{ along_k }}u + lid % {{ parts }}u;
        for (var i = 0u; i < {{ along_k }}u; i += {{ parts }}u) {
            v{{ first }} += sums[from_ + i];
        }
    }
    workgroupBarrier();
    if (lid < {{ at_once * along_n * parts }}u) {
        sums[lid] = v{{ first }};
    }
    workgroupBarrier();
{% endif %}
    if (lid < {{ at_once * along_n }}u) {
        let row = lid / {{ along_n }}u;
        let column = lid % {{ along_n }}u;
        var v = vec4<{{ type }}>({{ zero }});
{% if parts > 1 %}
        for (var i = 0u; i < {{ parts }}u; i++) {
            v += sums[lid * {{ parts }}u + i];
        }
{% else %}
        for (var i = 0u; i < {{ along_k }}u; i++) {
            v += sums[row * {{ threads }}u + column * {{ along_k }}u + i];
        }
{% endif %}
        store(v.x, v.y, v.z, v.w, {{ first }}u + row, (tile * {{ along_n }}u + column) * 4u, base, ob, ib);
    }
    workgroupBarrier();
{% endfor %}
}
