{% include "text/interface.wgsl" %}
{% include "matmul/store.wgsl" %}
{# Products of packed halves. Both operands lie in panels as [k / 2][rows][2] in f16, scaled row by row so that no sum of
   `chunk` products leaves its range: two sums, over even and over odd k, which go to f32. Padded to whole tiles: nothing is
   checked but the store. While a tile is used the next one is read, and stored in the other's place: one barrier a tile. #}
{% set xyzw, halves = "xyzw", ("xy", "zw") %}
{% set nty, ntx = t.bm // t.tm, t.bn // t.tn %}
{% set threads = nty * ntx %}
{% set sizes = (("a", t.bm * t.bk // 4), ("b", t.bn * t.bk // 4)) %}
{% for x, size in sizes %}
{% for r in range(2) %}
var<workgroup> {{ x }}_tile{{ r }}: array<vec4<f16>, {{ size }}>;
{% endfor %}
{% endfor %}

{# Where vector l of a thread's lies in a tile: two neighbours at a time, which are one load, if their number is even. #}
{% macro place(l, size) -%}
{{ "lid * 2u + %du" % (l // 2 * 2 * threads + l % 2) if size // threads % 2 == 0 else "lid + %du" % (l * threads) }}
{%- endmacro %}
// x * 2^-e, where 2^-e may pass what one f32 holds.
fn unscale(x: f32, e: f32) -> f32 {
    let all = -i32(e);
    let part = all / 2;
    return x * bitcast<f32>(u32(part + 127) << 23u) * bitcast<f32>(u32(all - part + 127) << 23u);
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
{% include "matmul/place.wgsl" %}
    let ob = z / p.inner;
    let ib = z % p.inner;
    let astart = ob * p.a_b + ib * p.a_i;
    let bstart = ob * p.b_b + ib * p.b_i;
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
    var c{{ i }}_{{ j }} = 0.0;
{% endfor %}
{% endfor %}
    let afirst = astart + m0 / 4u * p.k;
    let bfirst = bstart + n0 / 4u * p.k;
{% for x, size in sizes %}
{% for l in range(size // threads) %}
    {{ x }}_tile0[{{ place(l, size) }}] = {{ x }}_in[{{ x }}first + {{ place(l, size) }}];
{% endfor %}
{% endfor %}
    workgroupBarrier();
    for (var k0 = 0u; k0 < p.k; k0 += {{ chunk }}u) {
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
        var h{{ i }}_{{ j }} = vec2<f16>();
{% endfor %}
{% endfor %}
{% set written = 2 if chunk // t.bk % 4 else 4 %}
{% if chunk > written * t.bk %}
        for (var k1 = k0; k1 < k0 + {{ chunk }}u; k1 += {{ written * t.bk }}u) {
{% else %}
        let k1 = k0;
        {
{% endif %}
{% for r in range(written) %}
        {
            // After the last tile that one is read again, and not used.
            let next = min(k1 + {{ (r + 1) * t.bk }}u, p.k - {{ t.bk }}u);
{% for x, size in sizes %}
            let {{ x }}next = {{ x }}first + next * {{ size // t.bk }}u;
{% for l in range(size // threads) %}
            let {{ x }}reg{{ l }} = {{ x }}_in[{{ x }}next + {{ place(l, size) }}];
{% endfor %}
{% endfor %}
{% for kk in range(0, t.bk, 2) %}
            {
{% for x, t_, n_, vectors, wide in (("a", "ty", nty, t.tm // 2, t.bm // 2), ("b", "tx", ntx, t.tn // 2, t.bn // 2)) %}
{% for g in range(vectors) %}
                let {{ x }}{{ g }} = {{ x }}_tile{{ r % 2 }}[{{ kk // 2 * wide + g // 2 * n_ * 2 + g % 2 }}u + {{ t_ }} * 2u];
{% endfor %}
{% endfor %}
{# Row by row, there and back: what is not new from one to the next need not be read again. #}
{% for i in range(t.tm) %}
{% for j in (range(t.tn) if i % 2 == 0 else range(t.tn - 1, -1, -1)) %}
                h{{ i }}_{{ j }} = fma(a{{ i // 2 }}.{{ halves[i % 2] }}, b{{ j // 2 }}.{{ halves[j % 2] }}, h{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
            }
{% endfor %}
{% for x, size in sizes %}
{% for l in range(size // threads) %}
            {{ x }}_tile{{ 1 - r % 2 }}[{{ place(l, size) }}] = {{ x }}reg{{ l }};
{% endfor %}
{% endfor %}
            workgroupBarrier();
        }
{% endfor %}
        }
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
        c{{ i }}_{{ j }} += f32(h{{ i }}_{{ j }}.x) + f32(h{{ i }}_{{ j }}.y);
{% endfor %}
{% endfor %}
    }
    let base = p.o_o + ob * p.o_b + ib * p.o_i;
    let ae = astart + p.k * p.a_w + m0 / 4u + ty;
    let be = bstart + p.k * p.b_w + n0 / 4u + tx;
{% for g in range(t.tm // 4) %}
    let ea{{ g }} = vec4<f32>(a_in[ae + {{ g * nty }}u]);
{% endfor %}
{% for h in range(t.tn // 4) %}
    let eb{{ h }} = vec4<f32>(b_in[be + {{ h * ntx }}u]);
{% endfor %}
{% for i in range(t.tm) %}
{% for h in range(t.tn // 4) %}
    store({% for j in range(4) %}unscale(c{{ i }}_{{ 4 * h + j }}, ea{{ i // 4 }}.{{ xyzw[i % 4] }} + eb{{ h }}.{{ xyzw[j] }}), {% endfor %}m0 + {{ (i // 4) * nty * 4 + i % 4 }}u + ty * 4u, n0 + {{ h * ntx * 4 }}u + tx * 4u, base, ob, ib);
{% endfor %}
{% endfor %}
}
