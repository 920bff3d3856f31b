{% include "attention/head.wgsl" %}
{% set xyzw = "xyzw" %}
{% set TX, TY = t.cols // t.tn, t.rows // t.tm %}
{% set threads = TX * TY %}
{% set su = t.slice // 4 %}
{% set per = su // TX %}
{% set tile_row, weight_row = su, t.cols // 4 %}
{# Where column c of a row is: threads that read one column of several rows meet different banks. #}
{% macro column(c, row, more=0) %}(({{ c }}) ^ ({{ row if more % 8 == 0 else "(%s + %du)" % (row, more) }} & 7u)){% endmacro %}
{% set e_slices, v_slices = e_wide // per, v_wide // per %}
// A slice of the owned rows; the weights take its place when their turn comes.
var<workgroup> x_tile: array<vec4<f32>, {{ t.rows * [tile_row, weight_row] | max }}>;
// A slice of the rows walked over.
var<workgroup> y_tile: array<vec4<f32>, {{ t.cols * tile_row }}>;
{% if mode == "forward" %}
var<workgroup> row_values: array<vec4<f32>, {{ (t.rows * TX + 3) // 4 }}>;
{% endif %}

{# Where row `row` of operand x starts. #}
{% macro start(x, row, limit) %}
{% if packed and x == "q" %}q_start(q_at, min({{ row }}, {{ limit }} - 1u)){% else %}{{ x }}_at + min({{ row }}, {{ limit }} - 1u) * p.{{ x }}_r{% endif %}
{% endmacro %}
{# acc{i}_{j} += products of what the tiles hold. #}
{% macro products(acc, dim4, e0) %}
            let units = min({{ su }}u, {{ dim4 }} - {{ e0 }});
{% set steps = t.unroll if whole[dim4] else 1 %}
            {{ "" if steps == su else "for (var c0 = 0u; c0 < %s; c0 += %du) " % ("%du" % su if whole[dim4] else "units", steps) }}{
{% for step in range(steps) %}
            {
                {{ "const c = %du" % step if steps == su else "let c = c0 + %du" % step }};
{% for i in range(t.tm) %}
                let a{{ i }} = x_tile[(ty + {{ i * TY }}u) * {{ tile_row }}u + {{ column("c", "ty", i * TY) }}];
{% endfor %}
{% for j in range(t.tn) %}
                let b{{ j }} = y_tile[(tx + {{ j * TX }}u) * {{ tile_row }}u + {{ column("c", "tx", j * TX) }}];
{% for e in xyzw %}
{% for i in range(t.tm) %}
                {{ acc }}{{ i }}_{{ j }} = fma(a{{ i }}.{{ e }}, b{{ j }}.{{ e }}, {{ acc }}{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
{% endfor %}
            }
{% endfor %}
            }
{% endmacro %}
{# The thread's weights, next to each other; whoever reads them knows which columns they are. #}
{% macro keep(acc) %}
{% for i in range(t.tm) %}
{% for g in range(t.tn // 4) %}
        x_tile[(ty + {{ i * TY }}u) * {{ weight_row }}u + {{ column("tx * %du + %du" % (t.tn // 4, g), "ty", i * TY) }}] = vec4<f32>({% for j in range(4) %}{{ acc }}{{ i }}_{{ 4 * g + j }}{{ ", " if j < 3 }}{% endfor %});
{% endfor %}
{% endfor %}
{% endmacro %}
{# acc{i}_{c} += weights times the slice that y_tile holds. #}
{% macro weighted(acc, part) %}
{% set steps = [t.unroll, TX] | min %}
        {{ "" if steps == TX else "for (var c0 = 0u; c0 < %du; c0 += %du) " % (TX, steps) }}{
{% for step in range(steps) %}
        {
            {{ "const c = %du" % step if steps == TX else "let c = c0 + %du" % step }};
{% for g in range(t.tn // 4) %}
{% for i in range(t.tm) %}
            let w{{ g }}_{{ i }} = x_tile[(ty + {{ i * TY }}u) * {{ weight_row }}u + {{ column("c * %du + %du" % (t.tn // 4, g), "ty", i * TY) }}];
{% endfor %}
{% for j in range(4) %}
{% for u in range(per) %}
            {
                let v = y_tile[(c + {{ (4 * g + j) * TX }}u) * {{ tile_row }}u + {{ column("tx + %du" % (u * TX), "c", (4 * g + j) * TX) }}];
{% for i in range(t.tm) %}
                {{ acc }}{{ i }}_{{ part * per + u }} = fma(vec4<f32>(w{{ g }}_{{ i }}.{{ xyzw[j] }}), v, {{ acc }}{{ i }}_{{ part * per + u }});
{% endfor %}
            }
{% endfor %}
{% endfor %}
{% endfor %}
        }
{% endfor %}
        }
{% endmacro %}
{# Loads `rows` rows of x from row0, a slice of their elements; what lies past the head's size is zero. #}
{% macro load(name, x, rows, row0, limit, part, dim4) %}
{% for l in range((rows * su + threads - 1) // threads) %}
        {
            let id = lid + {{ l * threads }}u;
            let at = {{ part }} * {{ su }}u + id % {{ su }}u;
            let row = {{ row0 }} + id / {{ su }}u;
{% if whole[dim4] %}
            {{ name }}{{ l }} = {{ read4(x, "%s + at" % start(x, "row", limit)) }};
{% else %}
            {{ name }}{{ l }} = select(vec4<f32>(0.0), {{ read4(x, "%s + min(at, %s - 1u)" % (start(x, "row", limit), dim4)) }}, at < {{ dim4 }});
{% endif %}
        }
{% endfor %}
{% endmacro %}
{# For sums over the owned rows: the weights of a row walked over, and half a row of x in threads two of which share one,
   so that columns TX apart become neighbours and those of neighbouring threads are neighbours in dq. #}
{% macro keep_across(acc) %}
{% for j in range(t.tn) %}
        x_tile[(tx + {{ j * TX }}u) * {{ weight_row }}u + {{ column("ty", "tx", j * TX) }}] = vec4<f32>({% for i in range(4) %}{{ acc }}{{ i }}_{{ j }}{{ ", " if i < 3 }}{% endfor %});
{% endfor %}
{% endmacro %}
{% macro load_across(x, row0, limit, part, dim4) %}
        {
            let start = {{ start(x, "%s + lid / %du" % (row0, TX // 4), limit) }};
{% for m in range(4) %}
            let e{{ m }} = {{ "" if whole[dim4] else "min" }}({{ part * su + TX // 4 * m }}u + lid % {{ TX // 4 }}u{{ "" if whole[dim4] else ", %s - 1u" % dim4 }});
            y_ahead{{ m }} = {{ read4(x, "start + e%d" % m) }};
{% endfor %}
        }
{% endmacro %}
{% macro put_across() %}
{% for l in xyzw %}
        y_tile[lid / {{ TX // 4 }}u * {{ tile_row }}u + {{ column("lid %% %du * 4u + %du" % (TX // 4, loop.index0), "lid / %du" % (TX // 4)) }}] = vec4<f32>(y_ahead0.{{ l }}, y_ahead1.{{ l }}, y_ahead2.{{ l }}, y_ahead3.{{ l }});
{% endfor %}
{% endmacro %}
{# dq += weights times the slice of the owned rows that y_tile holds. #}
{% macro weighted_across(part) %}
{% for i in range(t.tm) %}
        var a{{ i }} = vec4<f32>(0.0);
{% endfor %}
        for (var c0 = 0u; c0 < {{ TY }}u; c0 += {{ t.unroll }}u) {
{% for step in range(t.unroll) %}
        {
            let c = c0 + {{ step }}u;
{% for i in range(t.tm) %}
            let w{{ i }} = x_tile[(ty + {{ i * TY }}u) * {{ weight_row }}u + {{ column("c", "ty", i * TY) }}];
{% endfor %}
{% for m in range(4) %}
            {
                let v = y_tile[(c + {{ m * TY }}u) * {{ tile_row }}u + {{ column("tx", "c", m * TY) }}];
{% for i in range(t.tm) %}
                a{{ i }} = fma(vec4<f32>(w{{ i }}.{{ xyzw[m] }}), v, a{{ i }});
{% endfor %}
            }
{% endfor %}
        }
{% endfor %}
        }
{% for i in range(t.tm) %}
        if (other + ty + {{ i * TY }}u < p.l) {
            let at = (row_at + other + ty + {{ i * TY }}u) * p.e4 * 4u + tx + {{ part * t.slice }}u;
{% for l in xyzw %}
            {{ "" if whole["p.e4"] else "if (tx + %du < p.e4 * 4u) " % (part * t.slice + loop.index0 * TX) }}{
                atomicAdd(&dq[at + {{ loop.index0 * TX }}u], a{{ i }}.{{ l }} * p.scale);
            }
{% endfor %}
        }
{% endfor %}
{% endmacro %}
{% macro put(tile, name, rows) %}
{% for l in range((rows * su + threads - 1) // threads) %}
        {
            let id = lid + {{ l * threads }}u;
            let row = id / {{ su }}u;
            let e = id % {{ su }}u;
            {{ "if (row < %du) " % rows if (l + 1) * threads > rows * su }}{
                {{ tile }}[row * {{ tile_row }}u + {{ column("e", "row") }}] = {{ name }}{{ l }};
            }
        }
{% endfor %}
{% endmacro %}
{% macro registers() %}
{% for l in range((t.rows * su + threads - 1) // threads) %}
    var x_ahead{{ l }}: vec4<f32>;
{% endfor %}
{% for l in range((t.cols * su + threads - 1) // threads) %}
    var y_ahead{{ l }}: vec4<f32>;
{% endfor %}
{% endmacro %}
{# A step of a loop fills the tiles with what was loaded during the step before, and multiplies:
   (sums, owned operand or "" for the weights, walked operand, slice). Thread (tx, ty) has rows ty + TY i and tx + TX j. #}
{% macro fetch(step, other, part=none) %}
{% set owned, walked = ("p.s", "p.l") if mode == "keys" else ("p.l", "p.s") %}
{% set dim4 = "p.v4" if step[2] in "vg" else "p.e4" %}
{% set at = part or "%du" % step[3] %}
{% if step | length > 4 %}
{{ load_across("k", "first", "p.s", step[3], "p.e4") }}
{% else %}
{% if step[1] %}
{{ load("x_ahead", step[1], t.rows, "first", owned, at, dim4) }}
{% endif %}
{{ load("y_ahead", step[2], t.cols, other, walked, at, dim4) }}
{% endif %}
{% endmacro %}
{% macro fill(step, before) %}
        workgroupBarrier();
{{ before }}
{% if step[1] %}
{{ put("x_tile", "x_ahead", t.rows) }}
{% endif %}
{{ put("y_tile", "y_ahead", t.cols) }}
        workgroupBarrier();
{% endmacro %}
{# `steps` one after the other. `before` is what else goes into the tiles at first; `after` the step that follows, with
   the rows it walks over. #}
{% macro take(steps, before, after, other) %}
{% set first = steps[0] %}
{% set dim4 = "p.v4" if first[2] in "vg" else "p.e4" %}
{% if first[1] and steps | length > 2 %}
        for (var slice = 0u; slice < {{ steps | length }}u; slice++) {
{{ fill(first, before) }}
            if (slice < {{ steps | length - 1 }}u) {
{{ fetch(first, "other", "(slice + 1u)") }}
            } else {
{{ fetch(after, other) }}
            }
{{ products(first[0], dim4, "slice * %du" % su) }}
        }
{% else %}
{% for step in steps %}
{{ fill(step, before if loop.first else "") }}
{{ fetch(after, other) if loop.last else fetch(steps[loop.index], "other") }}
        {
{{ products(step[0], dim4, "%du" % (step[3] * su)) if step[1] else weighted(step[0], step[3]) }}
        }
{% endfor %}
{% endif %}
{% endmacro %}
{% macro sums(acc) %}
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
        var {{ acc }}{{ i }}_{{ j }} = 0.0;
{% endfor %}
{% endfor %}
{% endmacro %}
{# acc{i}_{j} of owned queries and walked keys, times what dropout leaves of each. #}
{% macro drop(acc) %}
{% for i in range(t.tm) %}
{% for g in range(t.tn // 4) %}
        {
            let keep = kept(row_at + first + ty + {{ i * TY }}u, (other / 32u + {{ g }}u) * 8u + tx);
{% for j in range(4) %}
            {{ acc }}{{ i }}_{{ 4 * g + j }} *= keep.{{ xyzw[j] }};
{% endfor %}
        }
{% endfor %}
{% endfor %}
{% endmacro %}
{% macro zero(acc, wide) %}
{% for i in range(t.tm) %}
{% for c in range(wide) %}
    var {{ acc }}{{ i }}_{{ c }} = vec4<f32>(0.0);
{% endfor %}
{% endfor %}
{% endmacro %}
{# Rows of acc times a factor, to a contiguous output. #}
{% macro store(acc, wide, out, base, row0, limit, dim4, factor) %}
{% for i in range(t.tm) %}
    if ({{ row0 }} + ty + {{ i * TY }}u < {{ limit }}) {
        let row = {{ base }} + {{ row0 }} + ty + {{ i * TY }}u;
{% for c in range(wide) %}
        if (tx + {{ c * TX }}u < {{ dim4 }}) {
            let r = {{ acc }}{{ i }}_{{ c }}{{ " * " + factor if factor else "" }};
            {{ write4(out, "row * %s + tx + %du" % (dim4, c * TX), ["r.x", "r.y", "r.z", "r.w"]) }}
        }
{% endfor %}
    }
{% endfor %}
{% endmacro %}
{# Scores in powers of two, from products; only tiles that meet an edge or a mask look at each. #}
{% macro scores(query, key) %}
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
        s{{ i }}_{{ j }} *= p.factor;
{% endfor %}
{% endfor %}
{% set queries, keys = ("other", "first") if mode == "keys" else ("first", "other") %}
{% set n_queries, n_keys = (t.cols, t.rows) if mode == "keys" else (t.rows, t.cols) %}
{% if mask or packed %}
        {
{% else %}
        if ({{ queries }} + {{ n_queries }}u > p.l || {{ keys }} + {{ n_keys }}u > p.s{{ " || %s + %du > %s" % (keys, n_keys - 1, queries) if causal }}) {
{% endif %}
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
            s{{ i }}_{{ j }} = score(s{{ i }}_{{ j }}, {{ query % ((j * TX, ) if mode == "keys" else (i * TY, )) }}, {{ key % ((i * TY, ) if mode == "keys" else (j * TX, )) }}{{ ", mask_at" if mask }});
{% endfor %}
{% endfor %}
        }
{% endmacro %}

{% set S, D, O, U = [], [], [], [] %}
{% for part in range(e_slices) %}
{% set _ = S.append(("s", "k" if mode == "keys" else "q", "q" if mode == "keys" else "k", part)) %}
{% set _ = U.append(("u" if mode == "keys" else "o", "", "q" if mode == "keys" else "k", part)) %}
{% endfor %}
{% for part in range(v_slices) %}
{% set _ = D.append(("d", "v" if mode == "keys" else "g", "g" if mode == "keys" else "v", part)) %}
{% set _ = O.append(("o", "", "g" if mode == "keys" else "v", part)) %}
{% endfor %}
{% set s_steps, d_steps, o_steps, u_steps = S, D, O, U %}
{% include "attention/start.wgsl" %}
{{ registers() }}
{% set mask_start = "p.mask_o + batch * p.mask_b" + ("" if packed else " + head * p.mask_h") %}
{% if mode == "keys" %}
    // Of a causal mask the first keys have the most queries, and start first.
    let first = group / p.sequences * {{ t.rows }}u;
    let sequence = group % p.sequences;
    let batch = sequence / p.heads;
    let shared_head = sequence % p.heads;
    let k_at = p.k_o + batch * p.k_b + shared_head * p.k_h;
    let v_at = p.v_o + batch * p.v_b + shared_head * p.v_h;
{{ zero("o", v_wide) }}
{{ zero("u", e_wide) }}
    for (var member = 0u; member < p.ratio; member++) {
    let head = shared_head * p.ratio + member;
    let q_at = p.q_o + batch * p.q_b + head * p.q_h;
    let g_at = p.g_o + batch * p.g_b + head * p.g_h;
    let row_at = (batch * p.heads * p.ratio + head) * p.l;
{% if mask %}
    let mask_at = {{ mask_start }};
{% endif %}
    let begin = {{ "first / %du * %du" % (t.cols, t.cols) if causal else "0u" }};
{{ fetch(s_steps[0], "begin") }}
    for (var other = begin; other < p.l; other += {{ t.cols }}u) {
{{ sums("s") }}
{{ sums("d") }}
{{ take(s_steps, "", d_steps[0], "other") }}
{{ scores("other + tx + %du", "first + ty + %du") }}
{{ take(d_steps, "", o_steps[0], "other") }}
{% for j in range(t.tn) %}
        {
            let at = row_at + min(other + tx + {{ j * TX }}u, p.l - 1u);
            let top = stats[at];
            let delta = stats[at + p.rows_total];
{% for i in range(t.tm) %}
            s{{ i }}_{{ j }} = exp2(s{{ i }}_{{ j }} - top);
{% if not dropout %}
            d{{ i }}_{{ j }} = s{{ i }}_{{ j }} * (d{{ i }}_{{ j }} - delta);
{% endif %}
{% endfor %}
{% if dropout %}
{% for g in range(t.tm // 4) %}
            let keep{{ g }} = kept(at, (first / 32u + {{ g }}u) * 8u + ty);
{% for i in range(4) %}
            d{{ 4 * g + i }}_{{ j }} = s{{ 4 * g + i }}_{{ j }} * (d{{ 4 * g + i }}_{{ j }} * keep{{ g }}.{{ xyzw[i] }} - delta);
            s{{ 4 * g + i }}_{{ j }} *= keep{{ g }}.{{ xyzw[i] }};
{% endfor %}
{% endfor %}
{% endif %}
        }
{% endfor %}
{{ take(o_steps, keep("s"), u_steps[0], "other") }}
{% if fused %}
{{ take(u_steps, keep("d"), ("", "", "k", 0, "across"), "") }}
{% for part in range(e_slices) %}
        workgroupBarrier();
{{ keep_across("d") if not part }}
{{ put_across() }}
        workgroupBarrier();
{{ fetch(s_steps[0], "other + %du" % t.cols) if loop.last else load_across("k", "first", "p.s", part + 1, "p.e4") }}
        {
{{ weighted_across(part) }}
        }
{% endfor %}
{% else %}
{{ take(u_steps, keep("d"), s_steps[0], "other + %du" % t.cols) }}
{% endif %}
    }
    }
    let key_at = (batch * p.heads + shared_head) * p.s;
{{ store("u", e_wide, "dk", "key_at", "first", "p.s", "p.e4", "p.scale") }}
{{ store("o", v_wide, "dv", "key_at", "first", "p.s", "p.v4", "") }}
{% else %}
{% if causal %}
    // The last queries have the most keys, and start first.
    let first = (p.blocks - 1u - group / p.sequences) * {{ t.rows }}u;
{% else %}
    let first = group / p.sequences * {{ t.rows }}u;
{% endif %}
{% if split %}
    let sequence = group % p.sequences / p.splits;
    let part = group % p.sequences % p.splits;
{% else %}
    let sequence = group % p.sequences;
{% endif %}
    let batch = sequence / p.heads;
    let head = sequence % p.heads;
{% if packed %}
    let shared_head = head;
    let q_at = p.q_o + batch * p.q_b + head * p.ratio * p.q_h;
{% else %}
    let shared_head = head / p.ratio;
    let q_at = p.q_o + batch * p.q_b + head * p.q_h;
{% endif %}
    let k_at = p.k_o + batch * p.k_b + shared_head * p.k_h;
    let v_at = p.v_o + batch * p.v_b + shared_head * p.v_h;
    let row_at = (batch * p.heads + head) * p.l;
{% if mode == "forward" and not split %}
    let out_at = batch * p.out_b + head * {{ "p.ratio * " if packed }}p.out_h;
{% endif %}
{% if mask %}
    let mask_at = {{ mask_start }}{{ " + head * p.ratio * p.mask_h" if packed }};
{% endif %}
{% if mode == "queries" %}
    let g_at = p.g_o + batch * p.g_b + head * p.g_h;
{{ zero("o", e_wide) }}
{% else %}
{{ zero("o", v_wide) }}
{% endif %}
{% for i in range(t.tm) %}
{% if mode == "forward" %}
    var top{{ i }} = LOWEST;
    var sum{{ i }} = 0.0;
{% else %}
    let at{{ i }} = row_at + min(first + ty + {{ i * TY }}u, p.l - 1u);
    let top{{ i }} = stats[at{{ i }}];
    let delta{{ i }} = stats[at{{ i }} + p.rows_total];
{% endif %}
{% endfor %}
    let reach = {{ "min(p.s, %s)" % ("p.n" if packed else "first + %du" % t.rows) if causal else "p.s" }};
{{ fetch(d_steps[0] if mode == "queries" else s_steps[0], "part * p.chunk" if split else "0u") }}
{% if split %}
    let last = min(reach, (part + 1u) * p.chunk);
    for (var other = part * p.chunk; other < last; other += {{ t.cols }}u) {
{% else %}
    for (var other = 0u; other < reach; other += {{ t.cols }}u) {
{% endif %}
{% if mode == "queries" %}
{{ sums("d") }}
{{ take(d_steps, "", s_steps[0], "other") }}
{% endif %}
{{ sums("s") }}
{{ take(s_steps, "", (u_steps if mode == "queries" else o_steps)[0], "other") }}
{{ scores("first + ty + %du", "other + tx + %du") }}
{% if mode == "forward" %}
{% macro high(i) %}{% for j in range(t.tn - 1) %}max({% endfor %}s{{ i }}_0{% for j in range(1, t.tn) %}, s{{ i }}_{{ j }}){% endfor %}{% endmacro %}
{% for i in range(t.tm) %}
        row_values[((ty + {{ i * TY }}u) * {{ TX }}u + tx) / 4u][tx % 4u] = {{ high(i) }};
{% endfor %}
        workgroupBarrier();
{% for i in range(t.tm) %}
        {
            var high = vec4<f32>(top{{ i }});
{% for g in range(TX // 4) %}
            high = max(high, row_values[(ty + {{ i * TY }}u) * {{ TX // 4 }}u + {{ g }}u]);
{% endfor %}
            let now = max(max(high.x, high.y), max(high.z, high.w));
            let fade = exp2(top{{ i }} - now);
            top{{ i }} = now;
{% for j in range(t.tn) %}
            s{{ i }}_{{ j }} = exp2(s{{ i }}_{{ j }} - now);
{% endfor %}
            sum{{ i }} = sum{{ i }} * fade + {% for j in range(t.tn - 1) %}({% endfor %}s{{ i }}_0{% for j in range(1, t.tn) %} + s{{ i }}_{{ j }}){% endfor %};
{% for c in range(v_wide) %}
            o{{ i }}_{{ c }} *= fade;
{% endfor %}
        }
{% endfor %}
{{ drop("s") if dropout }}
{{ take(o_steps, keep("s"), s_steps[0], "other + %du" % t.cols) }}
{% else %}
{{ drop("d") if dropout }}
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
        d{{ i }}_{{ j }} = exp2(s{{ i }}_{{ j }} - top{{ i }}) * (d{{ i }}_{{ j }} - delta{{ i }});
{% endfor %}
{% endfor %}
{{ take(u_steps, keep("d"), d_steps[0], "other + %du" % t.cols) }}
{% endif %}
    }
{% if mode == "forward" %}
{% include "attention/sums.wgsl" %}
{% for i in range(t.tm) %}
    if (first + ty + {{ i * TY }}u < p.l) {
        let row = row_at + first + ty + {{ i * TY }}u;
{% include "attention/total.wgsl" %}
{% if split %}
        let at = row * p.splits + part;
        if (tx == 0u) {
            stats[2u * at] = top{{ i }};
            stats[2u * at + 1u] = total;
        }
{% for c in range(v_wide) %}
        if (tx + {{ c * TX }}u < p.v4) {
            out[at * p.v4 + tx + {{ c * TX }}u] = o{{ i }}_{{ c }};
        }
{% endfor %}
{% else %}
{% set own = "(first + ty + %du)" % (i * TY) %}
        let to = out_at + {{ "%s / p.n * p.out_h + %s %% p.n" % (own, own) if packed else own }} * p.out_r + tx;
        // A row that may attend to nothing is zero, and its weights stay zero in the backward pass.
        let share = select(1.0 / total, 0.0, total == 0.0);
        if (tx == 0u) {
            stats[row] = select(top{{ i }} + log2(total), -NEVER, total == 0.0);
        }
{% for c in range(v_wide) %}
        if (tx + {{ c * TX }}u < p.v4) {
            {{ "var" if after else "let" }} r = o{{ i }}_{{ c }} * share;
{% if after %}
{% for x in "xyzw" %}
            r.{{ x }} = epilogue(r.{{ x }}, {{ "%s %% p.n" % own if packed else own }}, (tx + {{ c * TX }}u) * 4u + {{ loop.index0 }}u, batch, {{ "head * p.ratio + %s / p.n" % own if packed else "head" }});
{% endfor %}
{% endif %}
            {{ write4("out", "to + %du" % (c * TX), ["r.x", "r.y", "r.z", "r.w"]) }}
        }
{% endfor %}
{% endif %}
    }
{% endfor %}
{% else %}
{{ store("o", e_wide, "dq", "row_at", "first", "p.l", "p.e4", "p.scale") }}
{% endif %}
{% endif %}
}
