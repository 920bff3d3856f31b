{% include "attention/head.wgsl" %}
{% import "attention/halves_shared.wgsl" as half with context %}
{% set TX, TY, threads, su, per = half.TX, half.TY, half.threads, half.su, half.per %}
{# Without a mask the scale is applied in the exponent; bf16's may be too small for what a masked score is. #}
{% set folded = not mask and not wide %}
{% set times = " * factor" if folded else "" %}
{{ half.tiles() }}
{% if not shuffle %}
var<workgroup> row_values: array<vec4<f32>, {{ t.rows * TX // 4 }}>;
{% endif %}

{{ half.unit_scale("64u, 250u") }}
{% include "attention/start.wgsl" %}
{% include "attention/queries.wgsl" %}
    let k_blocks = (p.s + 63u) / 64u;
    let k_bounds = (batch * (p.heads / p.ratio) + shared_head) * k_blocks;
    let q_bounds = (p.sequences / p.ratio) * k_blocks + (batch * p.heads + head) * ((p.l + 63u) / 64u) + first / 64u;
    {{ "var" if t.rows > 64 else "let" }} q_bound = bounds[2u * q_bounds];
{% for n in range(1, t.rows // 64) %}
    q_bound = max(q_bound, bounds[2u * (q_bounds + min({{ n }}u, (p.l - 1u) / 64u - first / 64u))]);
{% endfor %}
{% if wide %}
    let q_scale = unit_scale(q_bound.y);
{% endif %}
{% for i in range(t.tm) %}
    var top{{ i }} = {{ "-1.0e30" if folded else "LOWEST" }};
    var sum{{ i }} = 0.0;
{% for c in range(v_slices * per) %}
    var o{{ i }}_{{ c }} = vec4<f32>(0.0);
{% endfor %}
{% endfor %}
    // Sums are kept times 2^shift, which follows the size of the values.
    var shift = 0.0;
    let reach = {{ "min(p.s, first + %du)" % t.rows if causal else "p.s" }};
{# On a causal diagonal of square tiles it is known which scores are masked. #}
{% set square = causal and not mask and t.rows == t.cols %}
{% macro high(i, n) %}{% for j in range(n - 1) %}max({% endfor %}s{{ i }}_0{% for j in range(1, n) %}, s{{ i }}_{{ j }}){% endfor %}{% endmacro %}
{# Threads of a row lie in one subgroup, at distances 1, 4, 8, ... (place.wgsl). #}
{% macro across(text, value) %}
{% for n in (1, 4, 8, 16) if n <= TX %}
        {{ text % ("subgroupShuffleXor(%s, %du)" % (value, n)) }}
{% endfor %}
{% endmacro %}
{% macro visit(diagonal) %}
        let k_bound = bounds[2u * (k_bounds + other / 64u)];
{% if wide %}
        let k_scale = unit_scale(k_bound.y);
        let v_scale = unit_scale(k_bound.w);
        const p_shift = 10.0;
        let next = p_shift + log2(v_scale);
        let factor = p.factor / q_scale / k_scale;
{% else %}
        let p_shift = clamp(floor(log2(2000.0 / k_bound.w)), -6.0, 14.0);
        let next = p_shift;
        let factor = p.factor;
{% endif %}
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
        var s{{ i }}_{{ j }} = 0.0;
{% endfor %}
{% endfor %}
        for (var e0 = 0u; e0 < {{ e_slices * su }}u; e0 += {{ su }}u) {
            workgroupBarrier();
{{ half.stage("x_tile", "q", t.rows, "first", "p.l", "e0", "p.e4", "q_scale") }}
{{ half.stage("y_tile", "k", t.cols, "other", "p.s", "e0", "p.e4", "k_scale") }}
            workgroupBarrier();
            let units = min({{ su }}u, (p.e4 + 1u) / 2u - e0);
            // No product of these rows exceeds p.limit (Cauchy-Schwarz): f16 holds its parts within 2^-11 of that.
            if (q_bound.x * k_bound.x <= p.limit) {
{{ half.dots("s", "p.e4", diagonal) }}
            } else {
{{ half.exact_dots("s") }}
            }
        }
{% if not folded %}
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
        s{{ i }}_{{ j }} *= factor;
{% endfor %}
{% endfor %}
{% endif %}
{% if mask or diagonal %}
        {
{% else %}
        if (first + {{ t.rows }}u > p.l || other + {{ t.cols }}u > p.s{{ " || other + %du > first" % (t.cols - 1) if causal and not square }}) {
{% endif %}
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
            s{{ i }}_{{ j }} = score(s{{ i }}_{{ j }}, first + ty + {{ i * TY }}u, other + tx + {{ j * TX }}u{{ ", mask_at" if mask }});
{% endfor %}
{% endfor %}
        }
{% if shuffle %}
{% for i in range(t.tm) %}
        var now{{ i }} = max(top{{ i }}, {{ high(i, [t.tn, (i + 1) * TY // TX] | min if diagonal else t.tn) }}{{ times }});
{{ across("now%d = max(now%d, %%s);" % (i, i), "now%d" % i) }}
{% endfor %}
        workgroupBarrier();
{% else %}
{% for i in range(t.tm) %}
        row_values[((ty + {{ i * TY }}u) * {{ TX }}u + tx) / 4u][tx % 4u] = {{ high(i, [t.tn, (i + 1) * TY // TX] | min if diagonal else t.tn) }}{{ times }};
{% endfor %}
        workgroupBarrier();
{% for i in range(t.tm) %}
        var high{{ i }} = vec4<f32>(top{{ i }});
{% for g in range(TX // 4) %}
        high{{ i }} = max(high{{ i }}, row_values[(ty + {{ i * TY }}u) * {{ TX // 4 }}u + {{ g }}u]);
{% endfor %}
        let now{{ i }} = max(max(high{{ i }}.x, high{{ i }}.y), max(high{{ i }}.z, high{{ i }}.w));
{% endfor %}
{% endif %}
{% for i in range(t.tm) %}
        let fade{{ i }} = exp2(top{{ i }} - now{{ i }} + (next - shift));
        top{{ i }} = now{{ i }};
        {
            let base = now{{ i }} - p_shift;
{% for j in range(t.tn) %}
            s{{ i }}_{{ j }} = {% if diagonal and j * TX >= (i + 1) * TY %}0.0{% else %}exp2({{ "fma(s%d_%d, factor, -base)" % (i, j) if folded else "s%d_%d - base" % (i, j) }}){% endif %};
{% endfor %}
        }
        sum{{ i }} = sum{{ i }} * fade{{ i }} + ({% for j in range(t.tn - 1) %}({% endfor %}s{{ i }}_0{% for j in range(1, t.tn) %} + s{{ i }}_{{ j }}){% endfor %}){{ " * v_scale" if wide }};
{% endfor %}
        shift = next;
{% for i in range(t.tm) %}
{% for j in range(0, t.tn, 2) %}
        let w{{ i }}_{{ j }} = vec2<f16>(vec2<f32>(s{{ i }}_{{ j }}, s{{ i }}_{{ j + 1 }}));
{% endfor %}
{% endfor %}
{{ half.keep("w") }}
{% for part in range(v_slices) %}
{% if part %}
        workgroupBarrier();
{% endif %}
{{ half.put_twins("v", "other", "p.s", part, "p.v4", "v_scale") }}
        workgroupBarrier();
{{ half.mix("o", part, "fade", "", diagonal) }}
{% endfor %}
{% endmacro %}
    for (var other = 0u; other < {{ "min(reach, first)" if square else "reach" }}; other += {{ t.cols }}u) {
{{ visit(false) }}
    }
{% if square %}
    if (first < reach) {
        let other = first;
{{ visit(true) }}
    }
{% endif %}
{% if shuffle %}
{% for i in range(t.tm) %}
{{ across("sum%d += %%s;" % i, "sum%d" % i) }}
{% endfor %}
{% else %}
{% include "attention/sums.wgsl" %}
{% endif %}
{% for i in range(t.tm) %}
    if (first + ty + {{ i * TY }}u < p.l) {
        let row = row_at + first + ty + {{ i * TY }}u;
{% if shuffle %}
        let total = sum{{ i }};
{% else %}
{% include "attention/total.wgsl" %}
{% endif %}
        let to = out_at + (first + ty + {{ i * TY }}u) * p.out_r + tx;
        // A row that may attend to nothing is zero, and its weights stay zero in the backward pass.
        let share = select(1.0 / total, 0.0, total == 0.0);
        if (tx == 0u) {
            stats[row] = select(top{{ i }} - shift + log2(total), -NEVER, total == 0.0);
        }
{% for c in range(v_slices * per) %}
        if (tx + {{ c * TX }}u < p.v4) {
            {{ "var" if after else "let" }} r = o{{ i }}_{{ c }} * share;
{% if after %}
{% for x in "xyzw" %}
            r.{{ x }} = epilogue(r.{{ x }}, first + ty + {{ i * TY }}u, (tx + {{ c * TX }}u) * 4u + {{ loop.index0 }}u, batch, head);
{% endfor %}
{% endif %}
            {{ write4("out", "to + %du" % (c * TX), ["r.x", "r.y", "r.z", "r.w"]) }}
        }
{% endfor %}
    }
{% endfor %}
}
