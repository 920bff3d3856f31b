{% include "attention_head.wgsl" %}
{% set xyzw = "xyzw" %}
{% set TX, TY = t.cols // t.tn, t.rows // t.tm %}
{% set threads = TX * TY %}
{% set su = t.slice // 8 %}
{% set per = t.slice // 4 // TX %}
{# An odd number of vectors a row: threads that read one column of several rows meet different banks. #}
{% set y_row, weight_row, twin_row = su + 1, t.cols // 8 + 1, t.slice // 4 %}
{% set slices = [e_slices, v_slices] | max %}
{% set unit = "mat2x4<f16>" %}
{% set y_size = [t.cols * y_row, t.cols // 2 * twin_row] | max %}
{# Owned rows and rows walked over: their products are the scores, and the gradient's with the values. #}
{% if mode == "keys" %}
{% set x1, x2, y1, y2, owned, walked, first_bound, other_bound = "k", "v", "q", "g", "p.s", "p.l", "k_bounds", "q_bounds" %}
{% else %}
{% set x1, x2, y1, y2, owned, walked, first_bound, other_bound = "q", "g", "k", "v", "p.l", "p.s", "q_bounds", "k_bounds" %}
{% endif %}
var<workgroup> x1_tile: array<{{ unit }}, {{ t.rows * (e_slices * su + 1) }}>;
var<workgroup> x2_tile: array<{{ unit }}, {{ t.rows * (v_slices * su + 1) }}>;
// Slices of the rows walked over, eight elements of a row a vector; then four elements of two rows, interleaved.
var<workgroup> y1_tile: array<{{ unit }}, {{ y_size }}>;
var<workgroup> y2_tile: array<{{ unit }}, {{ y_size }}>;
{% if mode == "keys" %}
var<workgroup> p_tile: array<{{ unit }}, {{ t.rows * weight_row }}>;
{% endif %}
var<workgroup> d_tile: array<{{ unit }}, {{ t.rows * weight_row }}>;
{% macro pair(u, e) %}{{ u }}[{{ e // 2 }}].{{ ("xy", "zw")[e % 2] }}{% endmacro %}
{# Units of 8 elements; what lies past the head's size is zero. #}
{% macro stage(tile, tile_row, x, rows, row0, limit, e0, dim4, units, factor) %}
{% for l in range(rows * units // threads) %}
            {
                let id = lid + {{ l * threads }}u;
                let row = id / {{ units }}u;
                let e = id % {{ units }}u;
                let at = ({{ e0 }} + e) * 2u;
                let base = {{ x }}_at + min({{ row0 }} + row, {{ limit }} - 1u) * p.{{ x }}_r;
                let lo = {{ narrow4(x, "base + min(at, %s - 1u)" % dim4, factor) }};
                let hi = {{ narrow4(x, "base + min(at + 1u, %s - 1u)" % dim4, factor) }};
                {{ tile }}[row * {{ tile_row }}u + e] = {{ unit }}(select(vec4<f16>(), lo, at < {{ dim4 }}), select(vec4<f16>(), hi, at + 1u < {{ dim4 }}));
            }
{% endfor %}
{% endmacro %}
{# Row pairs of a slice, for sums over rows: rows c + 2 TX j and TX further. #}
{% macro stage_twins(tile, x, row0, limit, part, dim4, factor) %}
{% for l in range(t.cols // 2 * twin_row // threads) %}
        {
            let id = lid + {{ l * threads }}u;
            let at = min({{ part * twin_row }}u + id % {{ twin_row }}u, {{ dim4 }} - 1u);
            let twin = id / {{ twin_row }}u;
            let row = {{ row0 }} + twin % {{ TX }}u + twin / {{ TX }}u * {{ 2 * TX }}u;
            let a = {{ narrow4(x, "%s_at + min(row, %s - 1u) * p.%s_r + at" % (x, limit, x), factor) }};
            let b = {{ narrow4(x, "%s_at + min(row + %du, %s - 1u) * p.%s_r + at" % (x, TX, limit, x), factor) }};
            {{ tile }}[id] = {{ unit }}(vec4<f16>(a.x, b.x, a.y, b.y), vec4<f16>(a.z, b.z, a.w, b.w));
        }
{% endfor %}
{% endmacro %}
{# acc{i}_{j} += products over one slice, summed in f16. #}
{% macro dots(acc, x, x_row, y, part) %}
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
                var h{{ i }}_{{ j }} = vec2<f16>();
{% endfor %}
{% endfor %}
                for (var c = 0u; c < {{ su }}u; c++) {
{% for i in range(t.tm) %}
                    let a{{ i }} = {{ x }}[(ty + {{ i * TY }}u) * {{ x_row }}u + {{ part * su }}u + c];
{% endfor %}
{% for j in range(t.tn) %}
                    let b{{ j }} = {{ y }}[(tx + {{ j * TX }}u) * {{ y_row }}u + c];
{% for e in range(4) %}
{% for i in range(t.tm) %}
                    h{{ i }}_{{ j }} = fma({{ pair("a%d" % i, e) }}, {{ pair("b%d" % j, e) }}, h{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
{% endfor %}
                }
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
                {{ acc }}{{ i }}_{{ j }} += f32(h{{ i }}_{{ j }}.x) + f32(h{{ i }}_{{ j }}.y);
{% endfor %}
{% endfor %}
{% endmacro %}
{% macro keep(tile, acc, factor) %}
{% for i in range(t.tm) %}
        {{ tile }}[(ty + {{ i * TY }}u) * {{ weight_row }}u + tx] = {{ unit }}({% for g in range(2) %}vec4<f16>(vec4<f32>({% for j in range(4) %}{{ acc }}{{ i }}_{{ 4 * g + j }}{{ ", " if j < 3 }}{% endfor %}) * {{ factor }}){{ ", " if not g }}{% endfor %});
{% endfor %}
{% endmacro %}
{# acc{i}_{c} += weights times one slice of the rows walked over. #}
{% macro mix(acc, weights, y, part, factor) %}
        {
{% for i in range(t.tm) %}
{% for u in range(per * 4) %}
            var a{{ i }}_{{ u }} = vec2<f16>();
{% endfor %}
{% endfor %}
            for (var c = 0u; c < {{ TX }}u; c++) {
{% for i in range(t.tm) %}
                let w{{ i }} = {{ weights }}[(ty + {{ i * TY }}u) * {{ weight_row }}u + c];
{% endfor %}
{% for j in range(4) %}
{% for u in range(per) %}
                {
                    let v = {{ y }}[(c + {{ j * TX }}u) * {{ twin_row }}u + tx + {{ u * TX }}u];
{% for e in range(4) %}
{% for i in range(t.tm) %}
                    a{{ i }}_{{ 4 * u + e }} = fma({{ pair("w%d" % i, j) }}, {{ pair("v", e) }}, a{{ i }}_{{ 4 * u + e }});
{% endfor %}
{% endfor %}
                }
{% endfor %}
{% endfor %}
            }
{% for i in range(t.tm) %}
{% for u in range(per) %}
{% set o = "%s%d_%d" % (acc, i, part * per + u) %}
            {{ o }} += vec4<f32>({% for e in range(4) %}f32(a{{ i }}_{{ 4 * u + e }}.x) + f32(a{{ i }}_{{ 4 * u + e }}.y){{ ", " if e < 3 }}{% endfor %}) * {{ factor }};
{% endfor %}
{% endfor %}
        }
{% endmacro %}
{% macro zero(acc, wide) %}
{% for i in range(t.tm) %}
{% for c in range(wide) %}
    var {{ acc }}{{ i }}_{{ c }} = vec4<f32>(0.0);
{% endfor %}
{% endfor %}
{% endmacro %}
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

// The power of two that takes x to [0.5, 1); 1 where there is none.
fn unit_scale(x: f32) -> f32 {
    let e = clamp(bitcast<u32>(x) >> 23u, {{ "64u, 250u" if wide else "111u, 143u" }});
    return select(bitcast<f32>((253u - e) << 23u), 1.0, x > 3.0e38);
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
    let tx = lid % {{ TX }}u;
    let ty = lid / {{ TX }}u;
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
{{ zero("u", e_slices * per) }}
{% if mode == "keys" %}
{{ zero("o", v_slices * per) }}
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
    let x_bound = bounds[2u * ({{ first_bound }} + first / 64u)];
    let x1_scale = unit_scale(x_bound.y);
    let x2_scale = unit_scale(x_bound.w);
{% if mode == "keys" %}
    if (member == 0u) {
{% else %}
    let most_delta = bounds[2u * (q_bounds + first / 64u) + 1u].x;
    {
{% endif %}
{{ stage("x1_tile", e_slices * su + 1, x1, t.rows, "first", owned, "0u", "p.e4", e_slices * su, "x1_scale") }}
{{ stage("x2_tile", v_slices * su + 1, x2, t.rows, "first", owned, "0u", "p.v4", v_slices * su, "x2_scale") }}
    }
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
        var d{{ i }}_{{ j }} = 0.0;
{% endfor %}
{% endfor %}
{% for part in range(slices) %}
        workgroupBarrier();
{% if part < e_slices %}
{{ stage("y1_tile", y_row, y1, t.cols, "other", walked, "%du" % (part * su), "p.e4", su, "y1_scale") }}
{% endif %}
{% if part < v_slices %}
{{ stage("y2_tile", y_row, y2, t.cols, "other", walked, "%du" % (part * su), "p.v4", su, "y2_scale") }}
{% endif %}
        workgroupBarrier();
{% if part < e_slices %}
        // No product of these rows exceeds p.limit (Cauchy-Schwarz): f16 holds its parts within 2^-11 of that.
        if (x_bound.x * y_bound.x <= p.limit) {
{{ dots("s", "x1_tile", e_slices * su + 1, "y1_tile", part) }}
        } else {
            for (var c = 0u; c < {{ 2 * su }}u; c++) {
{% for i in range(t.tm) %}
                let a{{ i }} = vec4<f32>(x1_tile[(ty + {{ i * TY }}u) * {{ e_slices * su + 1 }}u + {{ part * su }}u + c / 2u][c % 2u]);
{% endfor %}
{% for j in range(t.tn) %}
                let b{{ j }} = vec4<f32>(y1_tile[(tx + {{ j * TX }}u) * {{ y_row }}u + c / 2u][c % 2u]);
{% for e in xyzw %}
{% for i in range(t.tm) %}
                s{{ i }}_{{ j }} = fma(a{{ i }}.{{ e }}, b{{ j }}.{{ e }}, s{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
{% endfor %}
            }
        }
{% endif %}
{% if part < v_slices %}
        {
{{ dots("d", "x2_tile", v_slices * su + 1, "y2_tile", part) }}
        }
{% endif %}
{% endfor %}
        let s_factor = p.factor / x1_scale / y1_scale;
        let d_factor = 1.0 / x2_scale / y2_scale;
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
        s{{ i }}_{{ j }} *= s_factor;
{% endfor %}
{% endfor %}
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
{% for j in range(t.tn) %}
{% if mode == "keys" %}
        let at{{ j }} = row_at + min(other + tx + {{ j * TX }}u, p.l - 1u);
        let top{{ j }} = stats[at{{ j }}];
        let delta{{ j }} = stats[at{{ j }} + p.rows_total];
{% endif %}
{% for i in range(t.tm) %}
{% set row = j if mode == "keys" else i %}
        s{{ i }}_{{ j }} = exp2(s{{ i }}_{{ j }} - top{{ row }});
        d{{ i }}_{{ j }} = s{{ i }}_{{ j }} * (d{{ i }}_{{ j }} * d_factor - delta{{ row }});
{% endfor %}
{% endfor %}
{% if mode == "keys" %}
{{ keep("p_tile", "s", "1024.0") }}
{% endif %}
{{ keep("d_tile", "d", "d_shift") }}
{% for part in range(slices if mode == "keys" else e_slices) %}
        workgroupBarrier();
{% if part < e_slices %}
{{ stage_twins("y1_tile", y1, "other", walked, part, "p.e4", "y1_scale") }}
{% endif %}
{% if mode == "keys" and part < v_slices %}
{{ stage_twins("y2_tile", y2, "other", walked, part, "p.v4", "y2_scale") }}
{% endif %}
        workgroupBarrier();
{% if part < e_slices %}
        let u_factor{{ part }} = 1.0 / d_shift / y1_scale;
{{ mix("u", "d_tile", "y1_tile", part, "u_factor%d" % part) }}
{% endif %}
{% if mode == "keys" and part < v_slices %}
        let o_factor{{ part }} = 0x1p-10 / y2_scale;
{{ mix("o", "p_tile", "y2_tile", part, "o_factor%d" % part) }}
{% endif %}
{% endfor %}
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
