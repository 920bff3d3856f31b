{% include "text/interface.wgsl" %}
{% include "matmul/store.wgsl" %}
{% if gather %}
{% include "matmul/gather.wgsl" %}
{% endif %}
{% if b_class == "q" %}
{% include "quantized/codes.wgsl" %}
{% endif %}
{% set xyzw = "xyzw" %}
{% set parts = "vec2<u32>(first, last)" if summed else "vec2<u32>(ib, ib + 1u)" %}
{% set nty, ntx = t.bm // t.tm, t.bn // t.tn %}
{% set threads = nty * ntx %}
{% set a4, b4 = t.bm // 4, t.bn // 4 %}
{% set a_loads = t.bm * t.bk // 4 // threads %}
{% set b_loads = t.bn * t.bk // 4 // threads %}
var<workgroup> a_tile: array<vec4<{{ type }}>, {{ t.slices * t.bk * a4 }}>;
var<workgroup> b_tile: array<vec4<{{ type }}>, {{ t.slices * t.bk * b4 }}>;

{% from "matmul/loads.wgsl" import blocks, place, load with context %}
{# A tile turned on the way in may be twisted every fourth k: else the threads of a row write to one bank. #}
{% set spread = [32 // t.bk, 1] | max %}
{% macro slot(class, kk, wide4, first, thread) %}
{% set twist = kk // 4 * spread % 8 if t.twist and class in "kKwq" else 0 %}
{% if twist %}{{ kk * wide4 }}u + (({{ first }}u + {{ thread }}) ^ {{ twist }}u){% else %}{{ kk * wide4 + first }}u + {{ thread }}{% endif %}
{% endmacro %}
{% macro keep(x, class, loads, wide4) %}
{% for l in range(loads) %}
{% set group = "((%srow%d / 4u)%s)" % (x, l, " ^ (%sk%d / 4u * %du %% 8u)" % (x, l, spread) if t.twist) %}
{% if blocks(class, loads) %}
        {{ x }}_tile[{{ x }}slot + ({{ x }}k{{ l }} + {{ l % 4 }}u) * {{ wide4 }}u + {{ group }}] = vec4<{{ type }}>({% for c in range(4) %}{{ x }}reg{{ l // 4 * 4 + c }}.{{ xyzw[l % 4] }}{{ ", " if c < 3 }}{% endfor %});
{% elif class in "kKwq" %}
{% for c in range(4) %}
        {{ x }}_tile[{{ x }}slot + ({{ x }}k{{ l }} + {{ c }}u) * {{ wide4 }}u + {{ group }}][{{ x }}row{{ l }} % 4u] = {{ x }}reg{{ l }}.{{ xyzw[c] }};
{% endfor %}
{% else %}
        {{ x }}_tile[{{ x }}slot + {{ x }}k{{ l }} * {{ wide4 }}u + {{ x }}row{{ l }}] = {{ x }}reg{{ l }};
{% endif %}
{% endfor %}
{% endmacro %}
{# The tile at k0 of both operands, into registers. #}
{% macro fetch() %}
{% if whole %}
{{ load("a", a_class, a_loads, false) }}
{{ load("b", b_class, b_loads, false) }}
{% else %}
        if (k0 + {{ t.bk }}u <= k_last) {
{{ load("a", a_class, a_loads, false) }}
{{ load("b", b_class, b_loads, false) }}
        } else {
{{ load("a", a_class, a_loads, true) }}
{{ load("b", b_class, b_loads, true) }}
        }
{% endif %}
{% endmacro %}
{% macro compute() %}
{% for kk in range(t.bk) %}
        {
{% for g in range(t.tm // 4) %}
            let a{{ g }} = a_tile[aslot + {{ slot(a_class, kk, a4, g * nty, "ty") | trim }}];
{% endfor %}
{% for h in range(t.tn // 4) %}
            let b{{ h }} = b_tile[bslot + {{ slot(b_class, kk, b4, h * ntx, "tx") | trim }}];
{% endfor %}
{% for i in range(t.tm) %}
{% for h in range(t.tn // 4) %}
            c{{ i }}_{{ h }} += a{{ i // 4 }}.{{ xyzw[i % 4] }} * b{{ h }};
{% endfor %}
{% endfor %}
        }
{% endfor %}
{% endmacro %}

@compute @workgroup_size({{ threads * t.slices }})
fn main(@builtin(local_invocation_index) {{ "local" if t.slices > 1 else "lid" }}: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
{% if t.slices > 1 %}
    // {{ t.slices }} teams of threads share the tile: each takes a part of k, with memory of its own.
    let lid = local % {{ threads }}u;
    let slice = local / {{ threads }}u;
{% endif %}
{% include "matmul/place.wgsl" %}
    let split = z % p.splits;
{% if summed %}
    let ob = z / p.splits;
    let ib = 0u;
    let first = split * p.chunk;
    let last = min(first + p.chunk, p.inner);
    let k_first = 0u;
    let k_last = p.k;
{% else %}
    let ob = (z / p.splits) / p.inner;
    let ib = (z / p.splits) % p.inner;
{% if t.slices > 1 %}
    let k_end = min(split * p.chunk + p.chunk, p.k);
    // As long for every team, for the barriers' sake: a part that ends early adds zeros.
    let length = (k_end - split * p.chunk + {{ t.slices * t.bk - 1 }}u) / {{ t.slices * t.bk }}u * {{ t.bk }}u;
    let k_first = split * p.chunk + slice * length;
    let k_last = min(k_first + length, k_end);
{% else %}
    let k_first = split * p.chunk;
    let k_last = min(k_first + p.chunk, p.k);
{% endif %}
{% endif %}
{% if t.slices == 1 %}
    let length = k_last - k_first;
{% endif %}
{% for i in range(t.tm) %}
{% for h in range(t.tn // 4) %}
    var c{{ i }}_{{ h }} = vec4<{{ type }}>({{ zero }});
{% endfor %}
{% endfor %}
{% for l in range(a_loads) %}
    var areg{{ l }} = vec4<{{ type }}>({{ zero }});
{% endfor %}
{% for l in range(b_loads) %}
    var breg{{ l }} = vec4<{{ type }}>({{ zero }});
{% endfor %}
{% if t.slices > 1 %}
    let aslot = slice * {{ t.bk * a4 }}u;
    let bslot = slice * {{ t.bk * b4 }}u;
{% else %}
    const aslot = 0u;
    const bslot = 0u;
{% endif %}
{% if summed %}
    for (var part = first; part < last; part++) {
    let astart = p.a_o + ob * p.a_b + part * p.a_i;
    let bstart = p.b_o + ob * p.b_b + part * p.b_i;
{% else %}
    let astart = p.a_o + ob * p.a_b + ib * p.a_i;
    let bstart = p.b_o + ob * p.b_b + ib * p.b_i;
{% endif %}
{{ place("a", a_class, a_loads, a4, "m0", "p.m") }}
{{ place("b", b_class, b_loads, b4, "n0", "p.n") }}
    {
        let k0 = k_first;
{{ fetch() }}
    }
    for (var done = 0u; done < length; done += {{ t.bk }}u) {
{{ keep("a", a_class, a_loads, a4) }}
{{ keep("b", b_class, b_loads, b4) }}
        workgroupBarrier();
        // The next tile is under way while this one is used; {{ "after the last one that is read again" if whole else "past the end it is zeros" }}.
        {
            let k0 = {{ "min(k_first + done + %du, k_last - %du)" % (t.bk, t.bk) if whole else "k_first + done + %du" % t.bk }};
{{ fetch() }}
        }
{{ compute() }}
        workgroupBarrier();
    }
{% for half in halving %}
{# The tiles are done with: half of the teams hand their sums over there, so many rows of a thread at a time. #}
{% set rows = [2 * t.bk * t.tm // t.bn, t.tm] | min %}
{% for first in range(0, t.tm, rows) %}
    if (slice >= {{ half }}u && slice < {{ 2 * half }}u) {
{% for i in range(first, [first + rows, t.tm] | min) %}
{% for h in range(t.tn // 4) %}
        a_tile[{{ ((i - first) * t.tn // 4 + h) * half * threads }}u + (slice - {{ half }}u) * {{ threads }}u + lid] = c{{ i }}_{{ h }};
{% endfor %}
{% endfor %}
    }
    workgroupBarrier();
    if (slice < {{ half }}u) {
{% for i in range(first, [first + rows, t.tm] | min) %}
{% for h in range(t.tn // 4) %}
        c{{ i }}_{{ h }} += a_tile[{{ ((i - first) * t.tn // 4 + h) * half * threads }}u + slice * {{ threads }}u + lid];
{% endfor %}
{% endfor %}
    }
    workgroupBarrier();
{% endfor %}
{% endfor %}
{% if t.slices > 1 %}
    if (slice > 0u) {
        return;
    }
{% endif %}
{% if summed %}
    }
{% endif %}
    let base = p.o_o + ob * p.o_b + ib * p.o_i + split * p.o_s;
{% if repairs %}
    var spoilt = 0u;
{% for i in range(t.tm) %}
{% for h in range(t.tn // 4) %}
    spoilt |= select(0u, {{ 2 ** (i * (t.tn // 4) + h) }}u, f32_isnan(c{{ i }}_{{ h }}.x + c{{ i }}_{{ h }}.y + c{{ i }}_{{ h }}.z + c{{ i }}_{{ h }}.w));
{% endfor %}
{% endfor %}
{% endif %}
{% for i in range(t.tm) %}
{% for h in range(t.tn // 4) %}
    store({% for j in range(4) %}c{{ i }}_{{ h }}.{{ xyzw[j] }}, {% endfor %}m0 + {{ (i // 4) * nty * 4 + i % 4 }}u + ty * 4u, n0 + {{ h * ntx * 4 }}u + tx * 4u, base, ob, ib);
{% endfor %}
{% endfor %}
{% if repairs %}
    // After the stores, where nothing of the product is kept any more.
    while (spoilt != 0u) {
        let r = firstTrailingBit(spoilt);
        spoilt &= spoilt - 1u;
        let m = m0 + r / {{ t.tn }}u * {{ nty * 4 }}u + r / {{ t.tn // 4 }}u % 4u + ty * 4u;
        let n = n0 + r % {{ t.tn // 4 }}u * {{ ntx * 4 }}u + tx * 4u;
        if (m < p.m && n < p.n) {
            let v = again(m, n, ob, {{ parts }}, {{ "split * p.chunk, k_end" if t.slices > 1 and not summed else "k_first, k_last" }});
            store(v.x, v.y, v.z, v.w, m, n, base, ob, ib);
        }
    }
{% endif %}
}
