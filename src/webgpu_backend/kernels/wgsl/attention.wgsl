{% include "attention_head.wgsl" %}
{% set xyzw = "xyzw" %}
{% set TX, TY = t.cols // t.tn, t.rows // t.tm %}
{% set threads = TX * TY %}
{% set su = t.slice // 4 %}
{% set per = su // TX %}
{# An odd number of vectors a row: threads that read one column of several rows meet different banks. #}
{% set tile_row, weight_row = su + 1, t.cols // 4 + 1 %}
{% set e_slices, v_slices = e_wide // per, v_wide // per %}
// A slice of the owned rows; the weights take its place when their turn comes.
var<workgroup> x_tile: array<vec4<f32>, {{ t.rows * [tile_row, weight_row] | max }}>;
// A slice of the rows walked over.
var<workgroup> y_tile: array<vec4<f32>, {{ t.cols * tile_row }}>;
{% if mode == "forward" and not t.shuffle %}
var<workgroup> row_values: array<vec4<f32>, {{ (t.rows * TX + 3) // 4 }}>;
{% endif %}

{# Where row `row` of operand x starts. #}
{% macro start(x, row, limit) %}
{% if packed and x == "q" %}q_start(q_at, min({{ row }}, {{ limit }} - 1u)){% else %}{{ x }}_at + min({{ row }}, {{ limit }} - 1u) * p.{{ x }}_r{% endif %}
{% endmacro %}
{# `rows` rows of x from row0, a slice of their elements from vector `e0`; what lies past the head's size is zero. #}
{% macro stage(tile, x, rows, row0, limit, e0, dim4) %}
{% for l in range((rows * su + threads - 1) // threads) %}
            {
                let id = lid + {{ l * threads }}u;
                let row = id / {{ su }}u;
                let e = id % {{ su }}u;
                let at = {{ e0 }} + e;
{% if whole[dim4] %}
                let value = {{ read4(x, "%s + at" % start(x, "%s + row" % row0, limit)) }};
{% set kept = "value" %}
{% else %}
                let value = {{ read4(x, "%s + min(at, %s - 1u)" % (start(x, "%s + row" % row0, limit), dim4)) }};
{% set kept = "select(vec4<f32>(0.0), value, at < %s)" % dim4 %}
{% endif %}
{% if (l + 1) * threads > rows * su %}
                if (row < {{ rows }}u) {
                    {{ tile }}[row * {{ tile_row }}u + e] = {{ kept }};
                }
{% else %}
                {{ tile }}[row * {{ tile_row }}u + e] = {{ kept }};
{% endif %}
            }
{% endfor %}
{% endmacro %}
{# acc{i}_{j}: products of the owned rows of x and the walked rows of y. Thread (tx, ty) has rows ty + TY i and tx + TX j. #}
{% macro dots(acc, x, x0, x_limit, y, y0, y_limit, dim4) %}
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
        var {{ acc }}{{ i }}_{{ j }} = 0.0;
{% endfor %}
{% endfor %}
        for (var e0 = 0u; e0 < {{ dim4 }}; e0 += {{ su }}u) {
            workgroupBarrier();
{{ stage("x_tile", x, t.rows, x0, x_limit, "e0", dim4) }}
{{ stage("y_tile", y, t.cols, y0, y_limit, "e0", dim4) }}
            workgroupBarrier();
            let units = min({{ su }}u, {{ dim4 }} - e0);
{% set steps = t.unroll if whole[dim4] else 1 %}
            {{ "" if steps == su else "for (var c0 = 0u; c0 < %s; c0 += %du) " % ("%du" % su if whole[dim4] else "units", steps) }}{
{% for step in range(steps) %}
            {
                {{ "const c = %du" % step if steps == su else "let c = c0 + %du" % step }};
{% for i in range(t.tm) %}
                let a{{ i }} = x_tile[(ty + {{ i * TY }}u) * {{ tile_row }}u + c];
{% endfor %}
{% for j in range(t.tn) %}
                let b{{ j }} = y_tile[(tx + {{ j * TX }}u) * {{ tile_row }}u + c];
{% for e in xyzw %}
{% for i in range(t.tm) %}
                {{ acc }}{{ i }}_{{ j }} = fma(a{{ i }}.{{ e }}, b{{ j }}.{{ e }}, {{ acc }}{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
{% endfor %}
            }
{% endfor %}
            }
        }
{% endmacro %}
{# The thread's weights, next to each other; whoever reads them knows which columns they are. #}
{% macro keep(acc) %}
{% for i in range(t.tm) %}
{% for g in range(t.tn // 4) %}
        x_tile[(ty + {{ i * TY }}u) * {{ weight_row }}u + tx * {{ t.tn // 4 }}u + {{ g }}u] = vec4<f32>({% for j in range(4) %}{{ acc }}{{ i }}_{{ 4 * g + j }}{{ ", " if j < 3 }}{% endfor %});
{% endfor %}
{% endfor %}
{% endmacro %}
{# acc{i}_{c} += weights times the walked rows of y, slice by slice; `there` when y_tile already has the only slice. #}
{% macro mix(acc, y, y0, limit, dim4, slices, there) %}
{% for part in range(slices) %}
{% if part %}
        workgroupBarrier();
{% endif %}
{% if not there %}
{{ stage("y_tile", y, t.cols, y0, limit, "%du" % (part * su), dim4) }}
{% endif %}
        workgroupBarrier();
{% set steps = [t.unroll, TX] | min %}
        {{ "" if steps == TX else "for (var c0 = 0u; c0 < %du; c0 += %du) " % (TX, steps) }}{
{% for step in range(steps) %}
        {
            {{ "const c = %du" % step if steps == TX else "let c = c0 + %du" % step }};
{% for g in range(t.tn // 4) %}
{% for i in range(t.tm) %}
            let w{{ g }}_{{ i }} = x_tile[(ty + {{ i * TY }}u) * {{ weight_row }}u + c * {{ t.tn // 4 }}u + {{ g }}u];
{% endfor %}
{% for j in range(4) %}
{% for u in range(per) %}
            {
                let v = y_tile[(c + {{ (4 * g + j) * TX }}u) * {{ tile_row }}u + tx + {{ u * TX }}u];
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

@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
    let tx = lid % {{ TX }}u;
    let ty = lid / {{ TX }}u;
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
    for (var other = {{ "first / %du * %du" % (t.cols, t.cols) if causal else "0u" }}; other < p.l; other += {{ t.cols }}u) {
{{ dots("s", "k", "first", "p.s", "q", "other", "p.l", "p.e4") }}
{{ scores("other + tx + %du", "first + ty + %du") }}
{{ dots("d", "v", "first", "p.s", "g", "other", "p.l", "p.v4") }}
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
        workgroupBarrier();
{{ keep("s") }}
{{ mix("o", "g", "other", "p.l", "p.v4", v_slices, v_slices == 1) }}
        workgroupBarrier();
{{ keep("d") }}
{{ mix("u", "q", "other", "p.l", "p.e4", e_slices, False) }}
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
{% if split %}
    let last = min(reach, (part + 1u) * p.chunk);
    for (var other = part * p.chunk; other < last; other += {{ t.cols }}u) {
{% else %}
    for (var other = 0u; other < reach; other += {{ t.cols }}u) {
{% endif %}
{% if mode == "queries" %}
{{ dots("d", "g", "first", "p.l", "v", "other", "p.s", "p.v4") }}
{% endif %}
{{ dots("s", "q", "first", "p.l", "k", "other", "p.s", "p.e4") }}
{{ scores("first + ty + %du", "other + tx + %du") }}
{% if mode == "forward" %}
{% macro high(i) %}{% for j in range(t.tn - 1) %}max({% endfor %}s{{ i }}_0{% for j in range(1, t.tn) %}, s{{ i }}_{{ j }}){% endfor %}{% endmacro %}
{% if not t.shuffle %}
{% for i in range(t.tm) %}
        row_values[((ty + {{ i * TY }}u) * {{ TX }}u + tx) / 4u][tx % 4u] = {{ high(i) }};
{% endfor %}
{% endif %}
        workgroupBarrier();
{% for i in range(t.tm) %}
        {
{% if t.shuffle %}
            var now = max(top{{ i }}, {{ high(i) }});
{% for step in (1, 2, 4) %}
            now = max(now, subgroupShuffleXor(now, {{ step }}u));
{% endfor %}
{% else %}
            var high = vec4<f32>(top{{ i }});
{% for g in range(TX // 4) %}
            high = max(high, row_values[(ty + {{ i * TY }}u) * {{ TX // 4 }}u + {{ g }}u]);
{% endfor %}
            let now = max(max(high.x, high.y), max(high.z, high.w));
{% endif %}
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
{{ keep("s") }}
{{ mix("o", "v", "other", "p.s", "p.v4", v_slices, False) }}
{% else %}
{{ drop("d") if dropout }}
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
        d{{ i }}_{{ j }} = exp2(s{{ i }}_{{ j }} - top{{ i }}) * (d{{ i }}_{{ j }} - delta{{ i }});
{% endfor %}
{% endfor %}
        workgroupBarrier();
{{ keep("d") }}
{{ mix("o", "k", "other", "p.s", "p.e4", e_slices, e_slices == 1) }}
{% endif %}
    }
{% if mode == "forward" %}
{% include "attention_sums.wgsl" %}
{% for i in range(t.tm) %}
    if (first + ty + {{ i * TY }}u < p.l) {
        let row = row_at + first + ty + {{ i * TY }}u;
{% include "attention_total.wgsl" %}
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
        // A row that may attend to nothing is zero, and its weights stay zero in the backward pass.
        let share = select(1.0 / total, 0.0, total == 0.0);
        if (tx == 0u) {
            stats[row] = select(top{{ i }} + log2(total), -NEVER, total == 0.0);
        }
{% for c in range(v_wide) %}
        if (tx + {{ c * TX }}u < p.v4) {
            let r = o{{ i }}_{{ c }} * share;
            {{ write4("out", "row * p.v4 + tx + %du" % (c * TX), ["r.x", "r.y", "r.z", "r.w"]) }}
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
