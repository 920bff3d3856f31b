{% include "matmul_head.wgsl" %}
{% include "matmul_store.wgsl" %}
{# Few rows times rows of b that lie along k: a workgroup takes four of them, its threads a share of k each. #}
{% set xyzw = "xyzw" %}
{% set unit = 8 if b_class == "8" else 4 %}
var<workgroup> sums: array<vec4<{{ type }}>, {{ threads * (rows + 1 - rows % 2) }}>;
{% macro multiply(i, half) %}
{% for j in range(4) %}
{% for c in "xyzw" %}
            c{{ i }}.{{ xyzw[j] }} += x.{{ c }} * y{{ j }}{{ half }}.{{ c }};
{% endfor %}
{% endfor %}
{% endmacro %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(local_invocation_index) lid: u32,
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>,
) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
    let n = (group % p.tiles_n) * 4u;
    let z = group / p.tiles_n;
    let split = z % p.splits;
    let ob = (z / p.splits) / p.inner;
    let ib = (z / p.splits) % p.inner;
    let k_first = split * p.chunk;
    let k_last = min(k_first + p.chunk, p.k);
    let astart = p.a_o + ob * p.a_b + ib * p.a_i;
    let bstart = p.b_o + ob * p.b_b + ib * p.b_i;
{% for i in range(rows) %}
    let a{{ i }} = astart + min({{ i }}u, p.m - 1u) * p.a_r;
    var c{{ i }} = vec4<{{ type }}>({{ zero }});
{% endfor %}
{% for j in range(4) %}
    let b{{ j }} = bstart + min(n + {{ j }}u, p.n - 1u) * p.b_r;
{% endfor %}
    let last = k_last / {{ unit }}u;
{# Packed words are widened where they are used: half a vector of eight at a time. #}
{% set parts_of = ("xy", "zw") if unit == 8 else ("",) %}
    for (var k = k_first / {{ unit }}u + lid; k < last; k += {{ threads }}u) {
{% for j in range(4) %}
        let yw{{ j }} = b_in[b{{ j }} + k];
{% endfor %}
{% for i in range(rows) %}
        let xw{{ i }} = a_in[a{{ i }} + k];
{% endfor %}
{% for half in parts_of %}
{% for j in range(4) %}
        let y{{ j }}{{ half }} = {{ widened("b", "yw%d" % j, half) }};
{% endfor %}
{% for i in range(rows) %}
        {
            let x = {{ widened("a", "xw%d" % i, half) }};
{{ multiply(i, half) }}
        }
{% endfor %}
{% endfor %}
    }
{# An odd distance between the threads' sums keeps them on different banks. #}
{% set wide = rows + 1 - rows % 2 %}
{% set parts = [threads // rows, 8] | min %}
{% for i in range(rows) %}
    sums[lid * {{ wide }}u + {{ i }}u] = c{{ i }};
{% endfor %}
    workgroupBarrier();
    let row = lid % {{ rows }}u;
    var v = vec4<{{ type }}>({{ zero }});
    if (lid < {{ parts * rows }}u) {
        for (var i = 0u; i < {{ threads // parts }}u; i++) {
            v += sums[(lid / {{ rows }}u + {{ parts }}u * i) * {{ wide }}u + row];
        }
    }
    workgroupBarrier();
    if (lid < {{ parts * rows }}u) {
        sums[lid] = v;
    }
    workgroupBarrier();
    if (lid < {{ rows }}u) {
        v = sums[lid];
        for (var i = 1u; i < {{ parts }}u; i++) {
            v += sums[i * {{ rows }}u + lid];
        }
        store(v.x, v.y, v.z, v.w, lid, n, p.o_o + ob * p.o_b + ib * p.o_i + split * p.o_s, ob, ib);
    }
}
