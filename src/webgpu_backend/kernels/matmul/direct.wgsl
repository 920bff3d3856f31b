{% include "text/interface.wgsl" %}
{% include "matmul/store.wgsl" %}
{% if gather %}
{% include "matmul/gather.wgsl" %}
{% endif %}
{% if b_class == "q" %}
{% include "quantized/codes.wgsl" %}
{% endif %}
{% set xyzw = "xyzw" %}
{% set over = "pos" if b_class == "w" else "win" %}
{% set rows, cols = t.tm, t.tn %}
{% set step = 1 if wide else 4 %}
{# An operand's reads for one step of `count` elements of k starting at `k`: named <x><row>_<kk> or, as vectors, <x>v... #}
{% macro load(x, class, rows, count) %}
{% if class in "gtuw" %}
{% for kk in range(count) %}
        let {{ x }}t{{ kk }} = {{ "position_at(walk_z, walk_y, walk_x)" if class == "w" else "tap_at(walk_c, walk_z, walk_y, walk_x)" }};
        // Counted, not divided: k is the same for all, and an integer division costs as much as a row of the tile.
        {
            let turn_x = walk_x + 1u == p.{{ over }}_w;
            walk_x = select(walk_x + 1u, 0u, turn_x);
            let turn_y = turn_x & (walk_y + 1u == p.{{ over }}_h);
            walk_y = select(walk_y + u32(turn_x), 0u, turn_y);
{% if class == "w" or flat %}
            {{ "walk_z" if class == "w" else "walk_c" }} += u32(turn_y);
{% else %}
            let turn_z = turn_y & (walk_z + 1u == p.win_d);
            walk_z = select(walk_z + u32(turn_y), 0u, turn_z);
            walk_c += u32(turn_z);
{% endif %}
        }
{% for i in range(rows) %}
{% if class == "w" %}
        let {{ x }}s{{ i }}_{{ kk }} = fetch({{ x }}base, {{ x }}t{{ kk }}, {{ x }}{{ i }});
{% else %}
        let {{ x }}s{{ i }}_{{ kk }} = fetch({{ x }}base, {{ x }}{{ i }}, {{ x }}t{{ kk }});
{% endif %}
{% endfor %}
{% endfor %}
{% elif class == "q" %}
{% for i in range(rows) %}
        let {{ x }}v{{ i }} = weights_at({{ x }}{{ i }}, k);
{% endfor %}
{% elif class == "k" %}
{% for i in range(rows) %}
        let {{ x }}v{{ i }} = {{ read4(x, "%s%d + k / 4u" % (x, i)) }};
{% endfor %}
{% elif class == "r" %}
{% for kk in range(count) %}
{% for g in range((rows + 3) // 4) %}
        let {{ x }}w{{ kk }}_{{ g }} = {{ read4(x, "%s%d + (k + %du) * p.%s_k" % (x, g, kk, x)) }};
{% endfor %}
{% endfor %}
{% else %}
{% for i in range(rows) %}
{% for kk in range(count) %}
        let {{ x }}i{{ i }}_{{ kk }} = {{ x }}{{ i }} + (k + {{ kk }}u) * p.{{ x }}_k;
        let {{ x }}s{{ i }}_{{ kk }} = {{ read(x, "%si%d_%d" % (x, i, kk)) }};
{% endfor %}
{% endfor %}
{% endif %}
{% endmacro %}
{% macro element(x, class, i, kk) %}
{% if class in "kq" %}{{ x }}v{{ i }}.{{ xyzw[kk] }}{% elif class == "r" %}{{ x }}w{{ kk }}_{{ i // 4 }}.{{ xyzw[i % 4] }}{% else %}{{ x }}s{{ i }}_{{ kk }}{% endif %}
{% endmacro %}
{% macro work(count) %}
{{ load("a", a_class, rows, count) }}
{{ load("b", b_class, cols, count) }}
{% for kk in range(count) %}
{% if wide %}
{% for i in range(rows) %}
{% for j in range(cols) %}
        {{ mad("c%d_%d" % (i, j), element("a", a_class, i, kk) | trim, element("b", b_class, j, kk) | trim) }}
{% endfor %}
{% endfor %}
{% else %}
{% for g in range(cols // 4) %}
{% if b_class == "r" %}
        let y{{ kk }}_{{ g }} = bw{{ kk }}_{{ g }};
{% else %}
        let y{{ kk }}_{{ g }} = vec4<{{ type }}>({% for j in range(4) %}{{ element("b", b_class, 4 * g + j, kk) | trim }}{{ ", " if j < 3 }}{% endfor %});
{% endif %}
{% for i in range(rows) %}
        c{{ i }}_{{ g }} += {{ element("a", a_class, i, kk) | trim }} * y{{ kk }}_{{ g }};
{% endfor %}
{% endfor %}
{% endif %}
{% endfor %}
{% endmacro %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let tile = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (tile >= p.total) {
        return;
    }
    let n0 = (tile % p.tiles_n) * {{ cols }}u;
    let rest = tile / p.tiles_n;
    let m0 = (rest % p.tiles_m) * {{ rows }}u;
    let z = rest / p.tiles_m;
    let split = z % p.splits;
{% if summed %}
    let ob = z / p.splits;
    let ib = 0u;
    let first = split * p.chunk;
    let last = min(first + p.chunk, p.inner);
    let k_first = 0u;
    let k_last = p.k;
{% else %}
    let batch = z / p.splits;
    let ob = batch / p.inner;
    let ib = batch % p.inner;
    let k_first = split * p.chunk;
    let k_last = min(k_first + p.chunk, p.k);
{% endif %}
{% for x, class, count, origin, size in (("a", a_class, rows, "m0", "p.m"), ("b", b_class, cols, "n0", "p.n")) %}
{% set start = "p.%s_o + ob * p.%s_b + ib * p.%s_i" % (x, x, x) %}
{% if class in "gtuw" %}
    let {{ x }}base{{ "_" if summed }} = {{ start }};
{% for i in range(count) %}
    let {{ x }}{{ i }} = {{ "tap" if class == "w" else "position" }}(min({{ origin }} + {{ i }}u, {{ size }} - 1u));
{% endfor %}
{% elif class == "q" %}
{% for i in range(count) %}
    let {{ x }}{{ i }} = min({{ origin }} + {{ i }}u, {{ size }} - 1u);
{% endfor %}
{% elif class == "r" %}
{% for g in range((count + 3) // 4) %}
    let {{ x }}{{ g }}{{ "_" if summed }} = {{ start }} + min({{ origin }} / 4u + {{ g }}u, {{ size }} / 4u - 1u);
{% endfor %}
{% else %}
{% for i in range(count) %}
    let {{ x }}{{ i }}{{ "_" if summed }} = {{ start }} + min({{ origin }} + {{ i }}u, {{ size }} - 1u) * p.{{ x }}_r;
{% endfor %}
{% endif %}
{% endfor %}
{% for i in range(rows) %}
{% if wide %}
{% for j in range(cols) %}
    var c{{ i }}_{{ j }} = {{ zero }};
{% endfor %}
{% else %}
{% for g in range(cols // 4) %}
    var c{{ i }}_{{ g }} = vec4<{{ type }}>({{ zero }});
{% endfor %}
{% endif %}
{% endfor %}
{% if summed %}
    for (var part = first; part < last; part++) {
{% for x, class, count in (("a", a_class, rows), ("b", b_class, cols)) %}
{% if class in "gtuw" %}
    let {{ x }}base = {{ x }}base_ + part * p.{{ x }}_i;
{% else %}
{% for i in range((count + 3) // 4 if class == "r" else count) %}
    let {{ x }}{{ i }} = {{ x }}{{ i }}_ + part * p.{{ x }}_i;
{% endfor %}
{% endif %}
{% endfor %}
{% endif %}
    var k = k_first;
{% if gather %}
    var walk_x = k % p.{{ over }}_w;
    var walk_y = k / p.{{ over }}_w % p.{{ over }}_h;
{% if b_class == "w" %}
    var walk_z = k / (p.pos_w * p.pos_h);
{% else %}
    var walk_z = k / (p.win_w * p.win_h) % p.win_d;
    var walk_c = k / (p.win_w * p.win_h * p.win_d);
{% endif %}
{% endif %}
    for (; k + {{ step }}u <= k_last; k += {{ step }}u) {
{{ work(step) }}
    }
{% if step > 1 and "k" not in (a_class, b_class) and b_class != "q" %}
    for (; k < k_last; k++) {
{{ work(1) }}
    }
{% endif %}
{% if summed %}
    }
{% endif %}
    let base = p.o_o + ob * p.o_b + ib * p.o_i + split * p.o_s;
{% if repairs %}
    var spoilt = 0u;
{% endif %}
    // A loop, because a call per row is most of what a software driver would compile.
{% if wide %}
    var results = array<{{ type }}, {{ rows * cols }}>(
{% for i in range(rows) %}
        {% for j in range(cols) %}c{{ i }}_{{ j }}, {% endfor %}

{% endfor %}
    );
    for (var r = 0u; r < {{ rows * cols // 4 }}u; r++) {
        let e = r * 4u;
{% if repairs %}
        spoilt |= select(0u, 1u << r, {{ type }}_isnan(results[e] + results[e + 1u] + results[e + 2u] + results[e + 3u]));
{% endif %}
        store(results[e], results[e + 1u], results[e + 2u], results[e + 3u], m0 + r / {{ cols // 4 }}u, n0 + 4u * (r % {{ cols // 4 }}u), base, ob, ib);
    }
{% else %}
    var results = array<vec4<{{ type }}>, {{ rows * cols // 4 }}>(
{% for i in range(rows) %}
        {% for g in range(cols // 4) %}c{{ i }}_{{ g }}, {% endfor %}

{% endfor %}
    );
    for (var r = 0u; r < {{ rows * cols // 4 }}u; r++) {
        let v = results[r];
{% if repairs %}
        spoilt |= select(0u, 1u << r, f32_isnan(v.x + v.y + v.z + v.w));
{% endif %}
        store(v.x, v.y, v.z, v.w, m0 + r / {{ cols // 4 }}u, n0 + 4u * (r % {{ cols // 4 }}u), base, ob, ib);
    }
{% endif %}
{% if repairs %}
    while (spoilt != 0u) {
        let r = firstTrailingBit(spoilt);
        spoilt &= spoilt - 1u;
        let m = m0 + r / {{ cols // 4 }}u;
        let n = n0 + 4u * (r % {{ cols // 4 }}u);
        if (m < p.m && n < p.n) {
            let v = again(m, n, ob, {{ "vec2<u32>(first, last)" if summed else "vec2<u32>(ib, ib + 1u)" }}, k_first, k_last);
            store(v.x, v.y, v.z, v.w, m, n, base, ob, ib);
        }
    }
{% endif %}
}
