{% include "matmul_head.wgsl" %}
{% include "matmul_store.wgsl" %}
{# Products of packed halves. Both operands lie as [k][rows] in f16, scaled row by row so that no sum of `chunk` products
   leaves its range; such a sum goes to f32. Padded to whole tiles: nothing is checked but the store. #}
{% set xyzw, halves = "xyzw", ("xy", "zw") %}
{% set nty, ntx = t.bm // t.tm, t.bn // t.tn %}
{% set threads = nty * ntx %}
{% set a4, b4 = t.bm // 4, t.bn // 4 %}
{% set a_loads = t.bm * t.bk // 4 // threads %}
{% set b_loads = t.bn * t.bk // 4 // threads %}
// Every number of a twice: a driver multiplies pairs at once only where they are read as pairs.
var<workgroup> a_tile: array<vec4<f16>, {{ t.buffers * t.bk * a4 * 2 }}>;
var<workgroup> b_tile: array<vec4<f16>, {{ t.buffers * t.bk * b4 }}>;

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
    var {{ x }}reg{{ l }} = {{ x }}_in[{{ x }}from{{ l }}];
{% endfor %}
{% endmacro %}
{% macro load(x, loads) %}
{% for l in range(loads) %}
            {{ x }}reg{{ l }} = {{ x }}_in[{{ x }}from{{ l }} + k0 * p.{{ x }}_w];
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
{% for j in range(t.tn // 2) %}
    var c{{ i }}_{{ j }} = vec2<f32>();
{% endfor %}
{% endfor %}
{{ place("a", a_loads, a4, "m0") }}
{{ place("b", b_loads, b4, "n0") }}
{% if t.buffers == 1 %}
    const aslot = 0u;
    const bslot = 0u;
{% else %}
    var flip = 0u;
{% endif %}
    for (var k0 = {{ t.bk }}u; k0 <= p.k; k0 += {{ t.bk }}u) {
{% if t.buffers == 2 %}
        let aslot = flip * {{ t.bk * a4 * 2 }}u;
        let bslot = flip * {{ t.bk * b4 }}u;
        flip = 1u - flip;
{% endif %}
{% for l in range(a_loads) %}
        a_tile[aslot + 2u * aat{{ l }}] = areg{{ l }}.xxyy;
        a_tile[aslot + 2u * aat{{ l }} + 1u] = areg{{ l }}.zzww;
{% endfor %}
{% for l in range(b_loads) %}
        b_tile[bslot + bat{{ l }}] = breg{{ l }};
{% endfor %}
        workgroupBarrier();
        if (k0 < p.k) {
{{ load("a", a_loads) }}
{{ load("b", b_loads) }}
        }
{% for k1 in range(0, t.bk, chunk) %}
        {
{% for kk in range(k1, k1 + chunk) %}
{{ "{" if kk > k1 }}
{% for g in range(t.tm // 2) %}
            let a{{ g }} = a_tile[aslot + {{ kk * a4 * 2 + g }}u + ty * {{ t.tm // 2 }}u];
{% endfor %}
{% for h in range(t.tn // 4) %}
            let b{{ h }} = b_tile[bslot + {{ kk * b4 + h }}u + tx * {{ t.tn // 4 }}u];
{% endfor %}
{% for i in range(t.tm) %}
{% for j in range(t.tn // 2) %}
            {% if kk == k1 %}var h{{ i }}_{{ j }} = a{{ i // 2 }}.{{ halves[i % 2] }} * b{{ j // 2 }}.{{ halves[j % 2] }};{% else %}h{{ i }}_{{ j }} = fma(a{{ i // 2 }}.{{ halves[i % 2] }}, b{{ j // 2 }}.{{ halves[j % 2] }}, h{{ i }}_{{ j }});{% endif %}

{% endfor %}
{% endfor %}
{{ "}" if kk > k1 }}
{% endfor %}
{% for i in range(t.tm) %}
{% for j in range(t.tn // 2) %}
            c{{ i }}_{{ j }} += vec2<f32>(h{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
        }
{% endfor %}
{% if t.buffers == 1 %}
        workgroupBarrier();
{% endif %}
    }
    let base = p.o_o + ob * p.o_b + ib * p.o_i;
    let ae = astart + p.k * p.a_w + m0 / 4u + ty * {{ t.tm // 4 }}u;
    let be = bstart + p.k * p.b_w + n0 / 4u + tx * {{ t.tn // 4 }}u;
{% for g in range(t.tm // 4) %}
    let ea{{ g }} = vec4<f32>(a_in[ae + {{ g }}u]);
{% endfor %}
{% for h in range(t.tn // 4) %}
    let eb{{ h }} = vec4<f32>(b_in[be + {{ h }}u]);
{% endfor %}
{% for i in range(t.tm) %}
{% for h in range(t.tn // 4) %}
    store({% for j in range(4) %}unscale(c{{ i }}_{{ 2 * h + j // 2 }}.{{ xyzw[j % 2] }}, ea{{ i // 4 }}.{{ xyzw[i % 4] }} + eb{{ h }}.{{ xyzw[j] }}), {% endfor %}m0 + {{ i }}u + ty * {{ t.tm }}u, n0 + {{ h * 4 }}u + tx * {{ t.tn }}u, base, ob, ib);
{% endfor %}
{% endfor %}
}
