{% include "matmul_head.wgsl" %}
{% include "matmul_store.wgsl" %}
{# Products of packed halves. Both operands lie as [k][rows] in f16, scaled row by row so that no sum of {{ chunk }} products
   leaves its range; such a sum goes to f32. Padded to whole tiles: nothing is checked but the store. #}
{% set xyzw = "xyzw" %}
{% set nty, ntx = t.bm // t.tm, t.bn // t.tn %}
{% set threads = nty * ntx %}
{% set a4, b4 = t.bm // 4, t.bn // 4 %}
{% set a_loads = t.bm * t.bk // 4 // threads %}
{% set b_loads = t.bn * t.bk // 4 // threads %}
var<workgroup> a_tile: array<vec4<f16>, {{ t.buffers * t.bk * a4 }}>;
var<workgroup> b_tile: array<vec4<f16>, {{ t.buffers * t.bk * b4 }}>;

// 2^-e, where e may pass what one f32 holds.
fn unscale(x: f32, e: f32) -> f32 {
    let all = -i32(e);
    let half = all / 2;
    return x * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(all - half + 127) << 23u);
}
{% macro place(x, loads, wide4, origin) %}
{% for l in range(loads) %}
    let {{ x }}slot{{ l }} = lid + {{ l * threads }}u;
    let {{ x }}from{{ l }} = {{ x }}start + {{ origin }} / 4u + {{ x }}slot{{ l }} % {{ wide4 }}u + {{ x }}slot{{ l }} / {{ wide4 }}u * p.{{ x }}_w;
{% endfor %}
{% endmacro %}
{% macro load(x, loads) %}
{% for l in range(loads) %}
        {{ x }}reg{{ l }} = {{ x }}_in[{{ x }}from{{ l }} + k0 * p.{{ x }}_w];
{% endfor %}
{% endmacro %}
{% macro keep(x, loads) %}
{% for l in range(loads) %}
        {{ x }}_tile[{{ x }}slot + {{ x }}slot{{ l }}] = {{ x }}reg{{ l }};
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
{% for h in range(t.tn // 4) %}
    var c{{ i }}_{{ h }} = vec4<f32>();
{% endfor %}
{% endfor %}
{{ place("a", a_loads, a4, "m0") }}
{{ place("b", b_loads, b4, "n0") }}
{% for x, loads in (("a", a_loads), ("b", b_loads)) %}
{% for l in range(loads) %}
    var {{ x }}reg{{ l }} = {{ x }}_in[{{ x }}from{{ l }}];
{% endfor %}
{% endfor %}
{% if t.buffers == 1 %}
    const aslot = 0u;
    const bslot = 0u;
{% else %}
    var flip = 0u;
{% endif %}
    for (var k0 = {{ t.bk }}u; k0 <= p.k; k0 += {{ t.bk }}u) {
{% if t.buffers == 2 %}
        let aslot = flip * {{ t.bk * a4 }}u;
        let bslot = flip * {{ t.bk * b4 }}u;
        flip = 1u - flip;
{% endif %}
{{ keep("a", a_loads) }}
{{ keep("b", b_loads) }}
        workgroupBarrier();
        if (k0 < p.k) {
{{ load("a", a_loads) }}
{{ load("b", b_loads) }}
        }
{% for k1 in range(0, t.bk, chunk) %}
        {
{% for kk in range(k1, k1 + chunk) %}
{{ "{" if kk > k1 }}
{% for g in range(t.tm // 4) %}
            let a{{ g }} = a_tile[aslot + {{ kk * a4 + g * nty }}u + ty];
{% endfor %}
{% for h in range(t.tn // 4) %}
            let b{{ h }} = b_tile[bslot + {{ kk * b4 + h * ntx }}u + tx];
{% endfor %}
{% for i in range(t.tm) %}
{% for h in range(t.tn // 4) %}
            {{ "var " if kk == k1 }}h{{ i }}_{{ h }} {{ "=" if kk == k1 else "+=" }} a{{ i // 4 }}.{{ xyzw[i % 4] }} * b{{ h }};
{% endfor %}
{% endfor %}
{{ "}" if kk > k1 }}
{% endfor %}
{% for i in range(t.tm) %}
{% for h in range(t.tn // 4) %}
            c{{ i }}_{{ h }} += vec4<f32>(h{{ i }}_{{ h }});
{% endfor %}
{% endfor %}
        }
{% endfor %}
{% if t.buffers == 1 %}
        workgroupBarrier();
{% endif %}
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
    store({% for j in range(4) %}unscale(c{{ i }}_{{ h }}.{{ xyzw[j] }}, ea{{ i // 4 }}.{{ xyzw[i % 4] }} + eb{{ h }}.{{ xyzw[j] }}), {% endfor %}m0 + {{ (i // 4) * nty * 4 + i % 4 }}u + ty * 4u, n0 + {{ h * ntx * 4 }}u + tx * 4u, base, ob, ib);
{% endfor %}
{% endfor %}
}
