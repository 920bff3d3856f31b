{% include "matmul_head.wgsl" %}
{% include "matmul_store.wgsl" %}
{# Products of packed halves. Both operands lie as [k / 2][rows][2] in f16, scaled row by row so that no sum of `chunk`
   products leaves its range: two sums, over even and over odd k, which go to f32. Padded to whole tiles: nothing is
   checked but the store. #}
{% set xyzw, halves = "xyzw", ("xy", "zw") %}
{% set nty, ntx = t.bm // t.tm, t.bn // t.tn %}
{% set threads = nty * ntx %}
{% set a4, b4 = t.bm // 4, t.bn // 4 %}
{% set a_loads = t.bm * t.bk // 4 // threads %}
{% set b_loads = t.bn * t.bk // 4 // threads %}
var<workgroup> a_tile: array<vec4<f16>, {{ t.bk * a4 }}>;
var<workgroup> b_tile: array<vec4<f16>, {{ t.bk * b4 }}>;
{% if t.twist == 2 %}
var<workgroup> s_tile: array<vec4<f16>, {{ t.bk * b4 }}>;
{% endif %}

// x * 2^-e, where 2^-e may pass what one f32 holds.
fn unscale(x: f32, e: f32) -> f32 {
    let all = -i32(e);
    let part = all / 2;
    return x * bitcast<f32>(u32(part + 127) << 23u) * bitcast<f32>(u32(all - part + 127) << 23u);
}
{% macro place(x, loads, wide4, origin) %}
{% for l in range(loads) %}
    let {{ x }}at{{ l }} = lid + {{ l * threads }}u;
    let {{ x }}from{{ l }} = {{ x }}start + {{ origin }} / 4u + {{ x }}at{{ l }} % {{ wide4 }}u + {{ x }}at{{ l }} / {{ wide4 }}u * p.{{ x }}_w;
{% endfor %}
{% endmacro %}
{% macro load(x, loads, let) %}
{% for l in range(loads) %}
        {{ let }} {{ x }}reg{{ l }} = {{ x }}_in[{{ x }}from{{ l }} + k0 * p.{{ x }}_w];
{% endfor %}
{% endmacro %}
{# Where group g of four lies: eight neighbours to a thread. #}
{% macro quad(g, n, thread, per) %}{% if per == 4 %}{{ thread }}{% else %}{{ g // 2 * n * 2 + g % 2 }}u + {{ thread }} * 2u{% endif %}{% endmacro %}
{% macro keep(x, loads) %}
{% for l in range(loads) %}
        {{ x }}_tile[{{ x }}at{{ l }}] = {{ x }}reg{{ l }};
{% if x == "b" and t.twist == 2 %}
        s_tile[{{ x }}at{{ l }}] = {{ x }}reg{{ l }}.yxwz;
{% endif %}
{% endfor %}
{% endmacro %}

@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
{% include "matmul_place.wgsl" %}
    let ob = z / p.inner;
    let ib = z % p.inner;
    let astart = ob * p.a_b + ib * p.a_i;
    let bstart = ob * p.b_b + ib * p.b_i;
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
    var c{{ i }}_{{ j }} = 0.0;
{% endfor %}
{% endfor %}
{{ place("a", a_loads, a4, "m0") }}
{{ place("b", b_loads, b4, "n0") }}
    var k0 = 0u;
{% if t.buffers %}
{{ load("a", a_loads, "var") }}
{{ load("b", b_loads, "var") }}
{% endif %}
    while (k0 < p.k) {
{% if not t.buffers %}
{{ load("a", a_loads, "let") }}
{{ load("b", b_loads, "let") }}
{% endif %}
{{ keep("a", a_loads) }}
{{ keep("b", b_loads) }}
        workgroupBarrier();
        k0 += {{ t.bk }}u;
{% if t.buffers %}
        if (k0 < p.k) {
{{ load("a", a_loads, "") }}
{{ load("b", b_loads, "") }}
        }
{% endif %}
{% for k1 in range(0, t.bk, chunk) %}
        {
{% for kk in range(k1, k1 + chunk) %}
{{ "{" if kk > k1 }}
{% for g in range(t.tm // 4) %}
            let a{{ g }} = a_tile[{{ kk * a4 }}u + {{ quad(g, nty, "ty", t.tm) }}];
{% endfor %}
{% for h in range(t.tn // 4) %}
            let b{{ h }} = b_tile[{{ kk * b4 }}u + {{ quad(h, ntx, "tx", t.tn) }}];
{% if t.twist == 2 %}
            let s{{ h }} = s_tile[{{ kk * b4 }}u + {{ quad(h, ntx, "tx", t.tn) }}];
{% else %}
            let s{{ h }} = b{{ h }}.yxwz;
{% endif %}
{% endfor %}
{% for i in range(t.tm // 2) %}
{% for j in range(t.tn // 2) %}
{% for h, y in (("h", "b"), ("x", "s")) %}
{% set u, v, w = "a%d.%s" % (i // 2, halves[i % 2]), "%s%d.%s" % (y, j // 2, halves[j % 2]), "%s%d_%d" % (h, i, j) %}
            {{ "var %s = %s * %s;" % (w, u, v) if kk == k1 else "%s = fma(%s, %s, %s);" % (w, u, v, w) }}
{% endfor %}
{% endfor %}
{% endfor %}
{{ "}" if kk > k1 }}
{% endfor %}
{% for i in range(t.tm // 2) %}
{% for j in range(t.tn // 2) %}
            c{{ 2 * i }}_{{ 2 * j }} += f32(h{{ i }}_{{ j }}.x);
            c{{ 2 * i + 1 }}_{{ 2 * j + 1 }} += f32(h{{ i }}_{{ j }}.y);
            c{{ 2 * i }}_{{ 2 * j + 1 }} += f32(x{{ i }}_{{ j }}.x);
            c{{ 2 * i + 1 }}_{{ 2 * j }} += f32(x{{ i }}_{{ j }}.y);
{% endfor %}
{% endfor %}
        }
{% endfor %}
        workgroupBarrier();
    }
    let base = p.o_o + ob * p.o_b + ib * p.o_i;
    let ae = astart + p.k * p.a_w + m0 / 4u;
    let be = bstart + p.k * p.b_w + n0 / 4u;
{% for g in range(t.tm // 4) %}
    let ea{{ g }} = vec4<f32>(a_in[ae + {{ quad(g, nty, "ty", t.tm) }}]);
{% endfor %}
{% for h in range(t.tn // 4) %}
    let eb{{ h }} = vec4<f32>(b_in[be + {{ quad(h, ntx, "tx", t.tn) }}]);
{% endfor %}
{% for i in range(t.tm) %}
{% for h in range(t.tn // 4) %}
    store({% for j in range(4) %}unscale(c{{ i }}_{{ 4 * h + j }}, ea{{ i // 4 }}.{{ xyzw[i % 4] }} + eb{{ h }}.{{ xyzw[j] }}), {% endfor %}m0 + ({{ quad(i // 4, nty, "ty", t.tm) }}) * 4u + {{ i % 4 }}u, n0 + ({{ quad(h, ntx, "tx", t.tn) }}) * 4u, base, ob, ib);
{% endfor %}
{% endfor %}
}
