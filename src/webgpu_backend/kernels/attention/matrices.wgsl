{% include "attention/head.wgsl" %}
{# Attention by matrix units. A subgroup has `t.high` queries of the workgroup's: their scores with the keys of a step, their
   weights, which go back into the units as f16, and their sums, which stay in the units. Whatever is done to single elements goes
   through workgroup memory: lanes read scores from there, `share` lanes a row. Sums cannot be faded by rows in the units; so weights
   are relative to a base of their row, which follows the largest score only where that has grown by more than `growth` powers of two,
   and then all sums of the workgroup are brought out, faded and put back. #}
{% set teams = t.rows // t.high %}
{% set threads = teams * lanes %}
{% set share = lanes // t.high %}
{% set e4, v4 = e_wide // 4, v_wide // 4 %}
{% set xw, yw, zw, pw, sw = e4 + pad, e4 + pad, v4 + pad, t.cols // 4 + pad, t.cols // 4 + 1 %}
{% set own = t.cols // 4 // share %}
{% set growth, raised = 8, 7 %}
// Queries, which the units then hold; values take their place.
var<workgroup> x_tile: array<vec4<f16>, {{ [t.rows * xw, t.cols * zw] | max }}>;
// Keys; then weights.
var<workgroup> y_tile: array<vec4<f16>, {{ [t.cols * yw, t.rows * pw] | max }}>;
// Scores; and sums, when they are brought out.
var<workgroup> s_tile: array<vec4<f32>, {{ t.rows * sw }}>;
var<workgroup> grown: u32;
{% if wide %}

// The power of two that takes x to [2^14, 2^15); 1 where there is none.
fn unit_scale(x: f32) -> f32 {
    let e = clamp(bitcast<u32>(x) >> 23u, 64u, 250u);
    return select(bitcast<f32>((268u - e) << 23u), 1.0, x > 3.0e38);
}
{% endif %}
{% macro mat(name, role, at, stride) %}{{ name }}<coop_mat{{ size }}x{{ size }}<f16, {{ role }}>>(&{{ at }}, {{ stride }}u){% endmacro %}

{# Rows of an operand into a tile, zero behind the last row and behind the head's end. #}
{% macro stage(to, x, rows, first, limit, given4, wide4, dim4, stride, factor) %}
{% for l in range((rows * wide4 + threads - 1) // threads) %}
        {
            let id = lid + {{ l * threads }}u;
            let row = id / {{ wide4 }}u;
            let e = id % {{ wide4 }}u;
            let inside = {{ first }} + row < {{ limit }}{{ " && e < %s" % dim4 if not whole[dim4] }};
            let at = {{ x }}_at + min({{ first }} + row, {{ limit }} - 1u) * p.{{ x }}_r + {{ "e" if whole[dim4] else "min(e, %s - 1u)" % dim4 }};
            {{ "if (row < %du) " % rows if rows * wide4 % threads }}{
                {{ to }}[row * {{ stride }}u + e] = select(vec4<f16>(), {{ narrow4(x, "at", factor) }}, inside);
            }
        }
{% endfor %}
{% endmacro %}
{# The sums, as many columns at a time as there are keys in a step; between `out` and `back` lanes have them in s_tile. #}
{% macro out(first, columns) %}
{% for i in range(t.high // size) %}
{% for j in range(first // size, (first + columns) // size) %}
        coopStoreT(o{{ i }}_{{ j }}, &s_tile[(row0 + {{ i * size }}u) * {{ sw }}u + {{ (j * size - first) // 4 }}u], {{ sw }}u);
{% endfor %}
{% endfor %}
        workgroupBarrier();
{% endmacro %}
{% macro back(first, columns) %}
        workgroupBarrier();
{% for i in range(t.high // size) %}
{% for j in range(first // size, (first + columns) // size) %}
        o{{ i }}_{{ j }} = coopLoadT<coop_mat{{ size }}x{{ size }}<f32, C>>(&s_tile[(row0 + {{ i * size }}u) * {{ sw }}u + {{ (j * size - first) // 4 }}u], {{ sw }}u);
{% endfor %}
{% endfor %}
        workgroupBarrier();
{% endmacro %}
{# How many columns of sums are brought out at once, from each first one on. #}
{% macro columns(first) %}{{ [t.cols, v_wide - first] | min }}{% endmacro %}
{# Lanes of a row are neighbours. #}
{% macro across(text, value) %}
{% for n in (1, 2, 4) if n < share %}
        {{ text % ("subgroupShuffleXor(%s, %du)" % (value, n)) }}
{% endfor %}
{% endmacro %}

@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.blocks * p.sequences) {
        return;
    }
{% include "attention/queries.wgsl" %}
    let lane = lid % {{ lanes }}u;
    let team = lid / {{ lanes }}u;
    let row0 = team * {{ t.high }}u;
    let part = lane % {{ share }}u;
    let row = row0 + lane / {{ share }}u;
{% if wide %}
    let k_blocks = (p.s + 63u) / 64u;
    let k_bounds = (batch * (p.heads / p.ratio) + shared_head) * k_blocks;
    let q_bounds = (p.sequences / p.ratio) * k_blocks + (batch * p.heads + head) * ((p.l + 63u) / 64u) + first / 64u;
    let q_scale = unit_scale(bounds[2u * q_bounds].y);
    var v_most = 0.0;
    for (var b = lid; b < k_blocks; b += {{ threads }}u) {
        v_most = max(v_most, bounds[2u * (k_bounds + b)].w);
    }
    v_most = subgroupMax(v_most);
    if (lane == 0u) {
        s_tile[team].x = v_most;
    }
    workgroupBarrier();
{% for i in range(teams) %}
    v_most = max(v_most, s_tile[{{ i }}].x);
{% endfor %}
    let v_scale = unit_scale(v_most);
{% endif %}
    if (lid == 0u) {
        grown = 0u;
    }
{{ stage("x_tile", "q", t.rows, "first", "p.l", "p.e4", e4, "p.e4", xw, "q_scale") }}
    workgroupBarrier();
{% for i in range(t.high // size) %}
{% for k in range(e_wide // size) %}
    let q{{ i }}_{{ k }} = {{ mat("coopLoadT", "A", "x_tile[(row0 + %du) * %du + %du]" % (i * size, xw, k * size // 4), xw) }};
{% endfor %}
{% for j in range(v_wide // size) %}
    var o{{ i }}_{{ j }} = coop_mat{{ size }}x{{ size }}<f32, C>();
{% endfor %}
{% endfor %}
    var base = LOWEST;
    var sum = 0.0;
    let reach = {{ "min(p.s, first + %du)" % t.rows if causal else "p.s" }};
    for (var other = 0u; other < reach; other += {{ t.cols }}u) {
{% if wide %}
        let k_scale = unit_scale(bounds[2u * (k_bounds + other / 64u)].y);
        let factor = p.factor / q_scale / k_scale;
{% else %}
        let factor = p.factor;
{% endif %}
        workgroupBarrier();
{{ stage("y_tile", "k", t.cols, "other", "p.s", "p.e4", e4, "p.e4", yw, "k_scale") }}
{{ stage("x_tile", "v", t.cols, "other", "p.s", "p.v4", v4, "p.v4", zw, "v_scale") }}
        workgroupBarrier();
{% for j in range(t.cols // size) %}
        {
{% for i in range(t.high // size) %}
            var c{{ i }} = coop_mat{{ size }}x{{ size }}<f32, C>();
{% endfor %}
{% for k in range(e_wide // size) %}
            let k{{ k }} = {{ mat("coopLoad", "B", "y_tile[%du]" % (j * size * yw + k * size // 4), yw) }};
{% for i in range(t.high // size) %}
            c{{ i }} = coopMultiplyAdd(q{{ i }}_{{ k }}, k{{ k }}, c{{ i }});
{% endfor %}
{% endfor %}
{% for i in range(t.high // size) %}
            coopStoreT(c{{ i }}, &s_tile[(row0 + {{ i * size }}u) * {{ sw }}u + {{ j * size // 4 }}u], {{ sw }}u);
{% endfor %}
        }
{% endfor %}
        workgroupBarrier();
{% for c in range(own) %}
        var s{{ c }} = s_tile[row * {{ sw }}u + {{ c * share }}u + part] * factor;
{% endfor %}
        if ({{ "" if mask else "first + %du > p.l || other + %du > p.s%s" % (t.rows, t.cols, " || other + %du > first" % (t.cols - 1) if causal else "") }}{{ "true" if mask }}) {
{% for c in range(own) %}
{% for x in "xyzw" %}
            s{{ c }}.{{ x }} = score(s{{ c }}.{{ x }}, first + row, other + ({{ c * share }}u + part) * 4u + {{ loop.index0 }}u{{ ", mask_at" if mask }});
{% endfor %}
{% endfor %}
        }
        var high4 = s0;
{% for c in range(1, own) %}
        high4 = max(high4, s{{ c }});
{% endfor %}
        var high = max(max(high4.x, high4.y), max(high4.z, high4.w));
{{ across("high = max(high, %s);", "high") }}
        let before = base;
        if (high > base + {{ growth }}.0) {
            base = high;
            if (before > LOWEST) {
                grown = 1u;
            }
        }
        let fade = exp2(before - base);
        var sum4 = vec4<f32>(0.0);
{% for c in range(own) %}
        {
            let w = exp2(s{{ c }} - vec4<f32>(base - {{ raised }}.0));
            sum4 += w;
            y_tile[row * {{ pw }}u + {{ c * share }}u + part] = vec4<f16>(w);
        }
{% endfor %}
        sum = sum * fade + ((sum4.x + sum4.y) + (sum4.z + sum4.w));
        if (workgroupUniformLoad(&grown) != 0u) {
{% for first in range(0, v_wide, t.cols) %}
{% set count = columns(first) | int %}
{{ out(first, count) }}
{% for c in range((count // 4 + share - 1) // share) %}
            {{ "if (%du + part < %du) " % (c * share, count // 4) if (c + 1) * share > count // 4 }}{
                s_tile[row * {{ sw }}u + {{ c * share }}u + part] *= fade;
            }
{% endfor %}
{{ back(first, count) }}
{% endfor %}
            if (lid == 0u) {
                grown = 0u;
            }
        }
{% for k in range(t.cols // size) %}
        {
{% for i in range(t.high // size) %}
            let w{{ i }} = {{ mat("coopLoadT", "A", "y_tile[(row0 + %du) * %du + %du]" % (i * size, pw, k * size // 4), pw) }};
{% endfor %}
{% for j in range(v_wide // size) %}
            let v{{ j }} = {{ mat("coopLoadT", "B", "x_tile[%du]" % (k * size * zw + j * size // 4), zw) }};
{% for i in range(t.high // size) %}
            o{{ i }}_{{ j }} = coopMultiplyAdd(w{{ i }}, v{{ j }}, o{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
        }
{% endfor %}
    }
{{ across("sum += %s;", "sum") }}
    // A row that may attend to nothing is zero, and its weights stay zero in the backward pass.
    let share_of = select(1.0 / sum, 0.0, sum == 0.0){{ " / v_scale" if wide }};
    if (part == 0u && first + row < p.l) {
        stats[row_at + first + row] = select(base - {{ raised }}.0 + log2(sum), -NEVER, sum == 0.0);
    }
    let to = out_at + (first + row) * p.out_r;
{% for first in range(0, v_wide, t.cols) %}
{% set count = columns(first) | int %}
    workgroupBarrier();
{{ out(first, count) }}
{% for c in range((count // 4 + share - 1) // share) %}
    {
        let column = {{ c * share }}u + part;
        if (first + row < p.l && {{ "column < %du && " % (count // 4) if (c + 1) * share > count // 4 }}column + {{ first // 4 }}u < p.v4) {
            {{ "var" if after else "let" }} r = s_tile[row * {{ sw }}u + column] * share_of;
{% if after %}
{% for x in "xyzw" %}
            r.{{ x }} = epilogue(r.{{ x }}, first + row, (column + {{ first // 4 }}u) * 4u + {{ loop.index0 }}u, batch, head);
{% endfor %}
{% endif %}
            {{ write4("out", "to + column + %du" % (first // 4), ["r.x", "r.y", "r.z", "r.w"]) }}
        }
    }
{% endfor %}
{% endfor %}
}
