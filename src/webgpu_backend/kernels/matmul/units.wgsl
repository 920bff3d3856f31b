{% include "text/interface.wgsl" %}
{% include "matmul/store.wgsl" %}
{% if b_class == "q" %}
{% include "quantized/codes.wgsl" %}
{% endif %}
{% from "matmul/loads.wgsl" import place, load with context %}
{# Each subgroup has {{ t.wm }} rows and {{ t.wn }} columns of the tile, in matrices of `size`. Operands lie in workgroup memory as
   they do in their buffers: along k, a row behind the other, or k by k along the rows; either way lines have `pad` vectors more. #}
{% set along = {"a": a_class in "kK", "b": b_class in "kKq"} %}
{% set tall = {"a": t.bm, "b": t.bn} %}
{% set loads = {"a": t.bm * t.bk // 4 // threads, "b": t.bn * t.bk // 4 // threads} %}
{% set wide, lines = {}, {} %}
{% for x in "ab" %}
{% set _ = wide.update({x: (t.bk if along[x] else tall[x]) // 4 + pad}) %}
{% set _ = lines.update({x: tall[x] if along[x] else t.bk}) %}
var<workgroup> {{ x }}_tile: array<vec4<f16>, {{ t.stages * lines[x] * wide[x] }}>;
{% endfor %}
{% set across = hand // 4 %}
var<workgroup> sums: array<vec4<f32>, {{ threads // lanes * size * across }}>;
{% if scales %}

fn power(e: f32) -> f32 {
    return bitcast<f32>(u32(i32(e) + 127) << 23u);
}

// x * 2^-e, where 2^-e may pass what one f32 holds.
fn unscale(x: f32, e: f32) -> f32 {
    let all = -i32(e);
    let part = all / 2;
    return x * power(f32(part)) * power(f32(all - part));
}

// A number that is not zero stays so: an infinity on the other side must not meet a zero that was none.
fn shrink(x: f32, y: f32) -> f32 {
    return select(y, select(-5.9604645e-8, 5.9604645e-8, x > 0.0), abs(y) < 5.9604645e-8 && abs(x) > 0.0);
}
{% endif %}

{# Where the tile that is written, or read, begins. #}
{% macro slot(x) %}{{ "stage * %du + " % (lines[x] * wide[x]) if t.stages > 1 }}{% endmacro %}
{# From registers into the tile. #}
{% macro keep(x, class) %}
{% for l in range(loads[x]) %}
{% set reg = "%sreg%d" % (x, l) %}
{% if x in scales %}
        let {{ x }}y{{ l }} = {{ reg }} * {{ x }}scale{{ l }};
        let {{ x }}half{{ l }} = vec4<f16>(vec4<f32>({% for c in "xyzw" %}shrink({{ reg }}.{{ c }}, {{ x }}y{{ l }}.{{ c }}){{ ", " if not loop.last }}{% endfor %}));
{% else %}
        let {{ x }}half{{ l }} = {{ reg if x in half else "vec4<f16>(%s)" % reg }};
{% endif %}
{% if along[x] %}
        {{ x }}_tile[{{ slot(x) }}{{ x }}row{{ l }} * {{ wide[x] }}u + {{ x }}k{{ l }} / 4u] = {{ x }}half{{ l }};
{% else %}
        {{ x }}_tile[{{ slot(x) }}{{ x }}k{{ l }} * {{ wide[x] }}u + {{ x }}row{{ l }}] = {{ x }}half{{ l }};
{% endif %}
{% endfor %}
{% endmacro %}
{% macro fetch() %}
{% if whole %}
{{ load("a", a_class, loads.a, false) }}
{{ load("b", b_class, loads.b, false) }}
{% else %}
        if (k0 + {{ t.bk }}u <= k_last) {
{{ load("a", a_class, loads.a, false) }}
{{ load("b", b_class, loads.b, false) }}
        } else {
{{ load("a", a_class, loads.a, true) }}
{{ load("b", b_class, loads.b, true) }}
        }
{% endif %}
{% endmacro %}
{# A matrix of the tile: `first` of its rows, at k. Of `a` rows are lines where it lies along k, of `b` columns are. #}
{% macro matrix(x, first, k) %}
{% set name = "coopLoadT" if along[x] == (x == "a") else "coopLoad" %}
{% set at = "(%s) * %du + %du" % (first, wide[x], k // 4) if along[x] else "%du + (%s) / 4u" % (k * wide[x], first) %}
{{ name }}<coop_mat{{ size }}x{{ size }}<f16, {{ x | upper }}>>(&{{ x }}_tile[{{ slot(x) }}{{ at }}], {{ wide[x] }}u)
{%- endmacro %}

@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
{% include "matmul/group.wgsl" %}
    let split = z % p.splits;
    let ob = (z / p.splits) / p.inner;
    let ib = (z / p.splits) % p.inner;
    let k_first = split * p.chunk;
    let k_last = min(k_first + p.chunk, p.k);
    let length = k_last - k_first;
    let lane = lid % {{ lanes }}u;
    let unit = lid / {{ lanes }}u;
    let um = unit % {{ t.bm // t.wm }}u * {{ t.wm }}u;
    let un = unit / {{ t.bm // t.wm }}u * {{ t.wn }}u;
{% for i in range(t.wm // size) %}
{% for j in range(t.wn // size) %}
    var c{{ i }}_{{ j }} = coop_mat{{ size }}x{{ size }}<f32, C>();
{% endfor %}
{% endfor %}
{% for x in "ab" %}
{% for l in range(loads[x]) %}
    var {{ x }}reg{{ l }} = vec4<{{ types[x] }}>({{ zeros[x] }});
{% endfor %}
{% endfor %}
    let astart = p.a_o + ob * p.a_b + ib * p.a_i;
    let bstart = p.b_o + ob * p.b_b + ib * p.b_i;
{{ place("a", a_class, loads.a, t.bm // 4, "m0", "p.m") }}
{{ place("b", b_class, loads.b, t.bn // 4, "n0", "p.n") }}
{% for x, origin, rows in (("a", "m0", "p.m"), ("b", "n0", "p.n")) if x in scales %}
    let {{ x }}powers = ob * p.e{{ x }}_b + ib * p.e{{ x }}_i;
{% for l in range(loads[x]) %}
{% if along[x] %}
    let {{ x }}scale{{ l }} = power(e{{ x }}_in[{{ x }}powers + min({{ origin }} + {{ x }}row{{ l }}, {{ rows }} - 1u)]);
{% else %}
    let {{ x }}scale{{ l }} = vec4<f32>({% for c in range(4) %}power(e{{ x }}_in[{{ x }}powers + min({{ origin }} + 4u * {{ x }}row{{ l }} + {{ c }}u, {{ rows }} - 1u)]){{ ", " if c < 3 }}{% endfor %});
{% endif %}
{% endfor %}
{% endfor %}
{% macro next() %}
        // The next tile is under way while this one is used; {{ "after the last one that is read again" if whole else "past the end it is zeros" }}.
        {
            let k0 = {{ "min(k_first + done + %du, k_last - %du)" % (t.bk, t.bk) if whole else "k_first + done + %du" % t.bk }};
{{ fetch() }}
        }
{% endmacro %}
{% macro multiply() %}
{% for kk in range(0, t.bk, size) %}
        {
{% for i in range(t.wm // size) %}
            let a{{ i }} = {{ matrix("a", "um + %du" % (i * size), kk) | trim }};
{% endfor %}
{% for j in range(t.wn // size) %}
            let b{{ j }} = {{ matrix("b", "un + %du" % (j * size), kk) | trim }};
{% for i in range(t.wm // size) %}
            c{{ i }}_{{ j }} = coopMultiplyAdd(a{{ i }}, b{{ j }}, c{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
        }
{% endfor %}
{% endmacro %}
    {
        let k0 = k_first;
{{ fetch() }}
    }
{% if t.stages > 1 %}
    var stage = 0u;
{{ keep("a", a_class) }}
{{ keep("b", b_class) }}
    workgroupBarrier();
{% endif %}
    for (var done = 0u; done < length; done += {{ t.bk }}u) {
{% if t.stages > 1 %}
{{ next() }}
{{ multiply() }}
        stage = 1u - stage;
{{ keep("a", a_class) }}
{{ keep("b", b_class) }}
{% else %}
{{ keep("a", a_class) }}
{{ keep("b", b_class) }}
        workgroupBarrier();
{{ next() }}
{{ multiply() }}
{% endif %}
        workgroupBarrier();
    }
    let base = p.o_o + ob * p.o_b + ib * p.o_i + split * p.o_s;
    let mine = unit * {{ size * across }}u;
    // Sums leave the matrices by way of workgroup memory, some columns of a row of matrices at a time.
{% for i in range(t.wm // size) %}
{% for first in range(0, t.wn, hand) %}
{% set last = loop.last %}
{% for j in range(first // size, (first + hand) // size) %}
    coopStoreT(c{{ i }}_{{ j }}, &sums[mine + {{ (j * size - first) // 4 }}u], {{ across }}u);
{% endfor %}
    workgroupBarrier();
{% for l in range(size * across // lanes) %}
    {
        let e = lane + {{ l * lanes }}u;
        let v = sums[mine + e];
        let m = m0 + um + {{ i * size }}u + e / {{ across }}u;
        let n = n0 + un + {{ first }}u + e % {{ across }}u * 4u;
{% if scales %}
        let em = ea_in[apowers + min(m, p.m - 1u)];
        store({% for j in range(4) %}unscale(v.{{ "xyzw"[j] }}, em{{ " + eb_in[bpowers + min(n + %du, p.n - 1u)]" % j if "b" in scales }}), {% endfor %}m, n, base, ob, ib);
{% else %}
        store(v.x, v.y, v.z, v.w, m, n, base, ob, ib);
{% endif %}
    }
{% endfor %}
{% if not (last and i + 1 == t.wm // size) %}
    workgroupBarrier();
{% endif %}
{% endfor %}
{% endfor %}
}
