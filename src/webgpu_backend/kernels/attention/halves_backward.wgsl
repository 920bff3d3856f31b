{% include "attention/head.wgsl" %}
{% import "attention/halves_shared.wgsl" as half with context %}
{% set TX, TY, threads, su, per = half.TX, half.TY, half.threads, half.su, half.per %}
{{ half.tiles() }}
{# Owned rows and rows walked over: their products are the scores, and the gradient's with the values. #}
{% if mode == "keys" %}
{% set x1, x2, y1, y2, owned, walked, first_bound, other_bound = "k", "v", "q", "g", "p.s", "p.l", "k_bounds", "q_bounds" %}
{% else %}
{% set x1, x2, y1, y2, owned, walked, first_bound, other_bound = "q", "g", "k", "v", "p.l", "p.s", "q_bounds", "k_bounds" %}
{% endif %}
{% macro store(acc, wide, out, base, dim4, factor) %}
{% for i in range(t.tm) %}
    if (first + ty + {{ i * TY }}u < {{ owned }}) {
        let row = {{ base }} + first + ty + {{ i * TY }}u;
{% for c in range(wide) %}
        if (tx + {{ c * TX }}u < {{ dim4 }}) {
            let r = {{ acc }}{{ i }}_{{ c }}{{ factor }};
            {{ write4(out, "row * %s + tx + %du" % (dim4, c * TX), ["r.x", "r.y", "r.z", "r.w"]) }}
        }
{% endfor %}
    }
{% endfor %}
{% endmacro %}

// From the squared norm, or the largest element where the square is out of range.
fn norm_of(bound: vec2<f32>) -> f32 {
    return select(sqrt(bound.x), 16.0 * bound.y, bound.x < 1.0e-30 || bound.x > 1.0e30);
}

{{ half.unit_scale("64u, 250u" if wide else "111u, 143u") }}
{% include "attention/start.wgsl" %}
    let sequence = group % p.sequences;
    let batch = sequence / p.heads;
    let k_blocks = (p.s + 63u) / 64u;
    let q_blocks = (p.l + 63u) / 64u;
{% if mode == "keys" %}
    // Of a causal mask the first keys have the most queries, and start first.
    let first = group / p.sequences * {{ t.rows }}u;
    let shared_head = sequence % p.heads;
    let k_total = p.sequences * k_blocks;
    let heads = p.heads * p.ratio;
{% else %}
    let first = {{ "(p.blocks - 1u - group / p.sequences)" if causal else "group / p.sequences" }} * {{ t.rows }}u;
    let head = sequence % p.heads;
    let shared_head = head / p.ratio;
    let k_total = p.sequences / p.ratio * k_blocks;
    let heads = p.heads;
{% endif %}
    let k_at = p.k_o + batch * p.k_b + shared_head * p.k_h;
    let v_at = p.v_o + batch * p.v_b + shared_head * p.v_h;
    let k_bounds = (batch * (heads / p.ratio) + shared_head) * k_blocks;
{{ half.zero("u", e_slices * per) }}
{% if mode == "keys" %}
{{ half.zero("o", v_slices * per) }}
    for (var member = 0u; member < p.ratio; member++) {
    let head = shared_head * p.ratio + member;
{% endif %}
    let q_at = p.q_o + batch * p.q_b + head * p.q_h;
    let g_at = p.g_o + batch * p.g_b + head * p.g_h;
    let row_at = (batch * heads + head) * p.l;
{% if mask %}
    let mask_at = p.mask_o + batch * p.mask_b + head * p.mask_h;
{% endif %}
    let q_bounds = k_total + (batch * heads + head) * q_blocks;
    {{ "var" if t.rows > 64 else "let" }} x_bound = bounds[2u * ({{ first_bound }} + first / 64u)];
{% for n in range(1, t.rows // 64) %}
    x_bound = max(x_bound, bounds[2u * ({{ first_bound }} + min(first / 64u + {{ n }}u, ({{ owned }} - 1u) / 64u))]);
{% endfor %}
    let x1_scale = unit_scale(x_bound.y);
    let x2_scale = unit_scale(x_bound.w);
{% if mode == "queries" %}
    {{ "var" if t.rows > 64 else "let" }} most_delta = bounds[2u * (q_bounds + first / 64u) + 1u].x;
{% for n in range(1, t.rows // 64) %}
    most_delta = max(most_delta, bounds[2u * (q_bounds + min(first / 64u + {{ n }}u, (p.l - 1u) / 64u)) + 1u].x);
{% endfor %}
{% endif %}
{% if mode == "keys" %}
    for (var other = {{ "first / %du * %du" % (t.cols, t.cols) if causal else "0u" }}; other < p.l; other += {{ t.cols }}u) {
        let most_delta = bounds[2u * (q_bounds + other / 64u) + 1u].x;
{% else %}
{% for i in range(t.tm) %}
    let at{{ i }} = row_at + min(first + ty + {{ i * TY }}u, p.l - 1u);
    let top{{ i }} = stats[at{{ i }}];
    let delta{{ i }} = stats[at{{ i }} + p.rows_total];
{% endfor %}
    let reach = {{ "min(p.s, first + %du)" % t.rows if causal else "p.s" }};
    for (var other = 0u; other < reach; other += {{ t.cols }}u) {
{% endif %}
        let y_bound = bounds[2u * ({{ other_bound }} + other / 64u)];
        let y1_scale = unit_scale(y_bound.y);
        let y2_scale = unit_scale(y_bound.w);
        // No element of the scores' gradient exceeds this, and 32 times 1000 fits f16.
        let most = norm_of(x_bound.zw) * norm_of(y_bound.zw) + most_delta;
        let d_shift = exp2(clamp(floor(log2(1000.0 / most)), -120.0, 120.0));
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
        var s{{ i }}_{{ j }} = 0.0;
{% endfor %}
{% endfor %}
        for (var e0 = 0u; e0 < {{ e_slices * su }}u; e0 += {{ su }}u) {
            workgroupBarrier();
{{ half.stage("x_tile", x1, t.rows, "first", owned, "e0", "p.e4", "x1_scale") }}
{{ half.stage("y_tile", y1, t.cols, "other", walked, "e0", "p.e4", "y1_scale") }}
            workgroupBarrier();
            let units = min({{ su }}u, (p.e4 + 1u) / 2u - e0);
            // No product of these rows exceeds p.limit (Cauchy-Schwarz): f16 holds its parts within 2^-11 of that.
            if (x_bound.x * y_bound.x <= p.limit) {
{{ half.dots("s", "p.e4") }}
            } else {
{{ half.exact_dots("s") }}
            }
        }
        let s_factor = p.factor / x1_scale / y1_scale;
        let d_factor = 1.0 / x2_scale / y2_scale;
{# Without a mask the scale is applied in the exponent; bf16's may be too small for what a masked score is. #}
{% set folded = not mask and not wide %}
{% if not folded %}
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
        s{{ i }}_{{ j }} *= s_factor;
{% endfor %}
{% endfor %}
{% endif %}
{% set queries, keys = ("other", "first") if mode == "keys" else ("first", "other") %}
{% set n_queries, n_keys = (t.cols, t.rows) if mode == "keys" else (t.rows, t.cols) %}
{% if mask %}
        {
{% else %}
        if ({{ queries }} + {{ n_queries }}u > p.l || {{ keys }} + {{ n_keys }}u > p.s{{ " || %s + %du > %s" % (keys, n_keys - 1, queries) if causal }}) {
{% endif %}
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
{% set own, walk = "first + ty + %du" % (i * TY), "other + tx + %du" % (j * TX) %}
            s{{ i }}_{{ j }} = score(s{{ i }}_{{ j }}, {{ walk if mode == "keys" else own }}, {{ own if mode == "keys" else walk }}{{ ", mask_at" if mask }});
{% endfor %}
{% endfor %}
        }
        // Weights, times 2^10, and gradients of scores wait as pairs of halves: registers are what limits these kernels.
{% for j in range(t.tn) if mode == "keys" %}
        let at{{ j }} = row_at + min(other + tx + {{ j * TX }}u, p.l - 1u);
        let top{{ j }} = stats[at{{ j }}];
{% endfor %}
{% macro weight(i, j) %}
{% set row = j if mode == "keys" else i %}
exp2({{ "fma(s%d_%d, s_factor, 10.0 - top%d)" % (i, j, row) if folded else "s%d_%d - top%d + 10.0" % (i, j, row) }})
{%- endmacro %}
{% for i in range(t.tm) %}
{% for j in range(0, t.tn, 2) %}
        let w{{ i }}_{{ j }} = vec2<f16>(vec2<f32>({{ weight(i, j) }}, {{ weight(i, j + 1) }}));
{% endfor %}
{% endfor %}
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
        var d{{ i }}_{{ j }} = 0.0;
{% endfor %}
{% endfor %}
        for (var e0 = 0u; e0 < {{ v_slices * su }}u; e0 += {{ su }}u) {
            workgroupBarrier();
{{ half.stage("x_tile", x2, t.rows, "first", owned, "e0", "p.v4", "x2_scale") }}
{{ half.stage("y_tile", y2, t.cols, "other", walked, "e0", "p.v4", "y2_scale") }}
            workgroupBarrier();
            let units = min({{ su }}u, (p.v4 + 1u) / 2u - e0);
{{ half.dots("d", "p.v4") }}
        }
{% for j in range(t.tn) if mode == "keys" %}
        let delta{{ j }} = stats[at{{ j }} + p.rows_total];
{% endfor %}
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
        d{{ i }}_{{ j }} = f32(w{{ i }}_{{ j // 2 * 2 }}.{{ "xy"[j % 2] }}) * (d{{ i }}_{{ j }} * d_factor - delta{{ j if mode == "keys" else i }});
{% endfor %}
{% endfor %}
{% if causal %}
        // The first query has one key, whose weight is 1 whatever its score: sums in f16 would leave some of it.
        if ({{ queries }} == 0u) {
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
            d{{ i }}_{{ j }} = select(d{{ i }}_{{ j }}, 0.0, {{ "tx + %du" % (j * TX) if mode == "keys" else "ty + %du" % (i * TY) }} == 0u);
{% endfor %}
{% endfor %}
        }
{% endif %}
        let d_times = d_shift * 0x1p-10;
{% for i in range(t.tm) %}
{% for j in range(0, t.tn, 2) %}
        let g{{ i }}_{{ j }} = vec2<f16>(vec2<f32>(d{{ i }}_{{ j }}, d{{ i }}_{{ j + 1 }}) * d_times);
{% endfor %}
{% endfor %}
{% if mode == "keys" %}
        workgroupBarrier();
{{ half.keep("w") }}
        let o_factor = 0x1p-10 / y2_scale;
{% for part in range(v_slices) %}
{% if part %}
        workgroupBarrier();
{% endif %}
{{ half.put_twins(y2, "other", walked, part, "p.v4", "y2_scale") }}
        workgroupBarrier();
{{ half.mix("o", part, "", "o_factor") }}
{% endfor %}
{% endif %}
        workgroupBarrier();
{{ half.keep("g") }}
        let u_factor = 1.0 / d_shift / y1_scale;
{% for part in range(e_slices) %}
{% if part %}
        workgroupBarrier();
{% endif %}
{{ half.put_twins(y1, "other", walked, part, "p.e4", "y1_scale") }}
        workgroupBarrier();
{{ half.mix("u", part, "", "u_factor") }}
{% endfor %}
{% if fused %}
        workgroupBarrier();
{{ half.keep_across("g") }}
        let dq_factor = p.scale / d_shift / x1_scale;
{% for part in range(e_slices) %}
{% if part %}
        workgroupBarrier();
{% endif %}
{{ half.put_across(x1, "first", owned, part, "p.e4", "x1_scale") }}
        workgroupBarrier();
{{ half.mix("", part, "", "dq_factor") }}
{% endfor %}
{% endif %}
    }
{% if mode == "keys" %}
    }
    let key_at = (batch * p.heads + shared_head) * p.s;
{{ store("u", e_slices * per, "dk", "key_at", "p.e4", " * p.scale") }}
{{ store("o", v_slices * per, "dv", "key_at", "p.v4", "") }}
{% else %}
{{ store("u", e_slices * per, "dq", "row_at", "p.e4", " * p.scale") }}
{% endif %}
}
