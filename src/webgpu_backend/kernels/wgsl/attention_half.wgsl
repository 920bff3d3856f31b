{% include "attention_head.wgsl" %}
{% set xyzw = "xyzw" %}
{% set TX, TY = t.cols // t.tn, t.rows // t.tm %}
{% set threads = TX * TY %}
{% set su = t.slice // 8 %}
{% set per = t.slice // 4 // TX %}
{# An odd number of vectors a row: threads that read one column of several rows meet different banks. #}
{% set q_row, k_row, weight_row, v_row = e_slices * su + 1, su + 1, t.cols // 8 + 1, t.slice // 4 %}
{% set unit = "mat2x4<f16>" %}
var<workgroup> q_tile: array<{{ unit }}, {{ t.rows * q_row }}>;
var<workgroup> w_tile: array<{{ unit }}, {{ t.rows * weight_row }}>;
// A slice of keys, eight elements of a row a vector; then of values, four elements of two rows, interleaved.
var<workgroup> y_tile: array<{{ unit }}, {{ [t.cols * k_row, t.cols // 2 * v_row] | max }}>;
var<workgroup> row_values: array<vec4<f32>, {{ t.rows * TX // 4 }}>;
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

// The power of two that takes x to [0.5, 1); 1 where there is none.
fn unit_scale(x: f32) -> f32 {
    let e = clamp(bitcast<u32>(x) >> 23u, 64u, 250u);
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
{% if causal %}
    // The last queries have the most keys, and start first.
    let first = (p.blocks - 1u - group / p.sequences) * {{ t.rows }}u;
{% else %}
    let first = group / p.sequences * {{ t.rows }}u;
{% endif %}
    let sequence = group % p.sequences;
    let batch = sequence / p.heads;
    let head = sequence % p.heads;
    let shared_head = head / p.ratio;
    let q_at = p.q_o + batch * p.q_b + head * p.q_h;
    let k_at = p.k_o + batch * p.k_b + shared_head * p.k_h;
    let v_at = p.v_o + batch * p.v_b + shared_head * p.v_h;
    let row_at = (batch * p.heads + head) * p.l;
{% if mask %}
    let mask_at = p.mask_o + batch * p.mask_b + head * p.mask_h;
{% endif %}
    let k_blocks = (p.s + 63u) / 64u;
    let k_bounds = (batch * (p.heads / p.ratio) + shared_head) * k_blocks;
    let q_bounds = (p.sequences / p.ratio) * k_blocks + (batch * p.heads + head) * ((p.l + 63u) / 64u) + first / 64u;
    let q_bound = bounds[2u * q_bounds];
{% if wide %}
    let q_scale = unit_scale(q_bound.y);
{% endif %}
{{ stage("q_tile", q_row, "q", t.rows, "first", "p.l", "0u", "p.e4", e_slices * su, "q_scale") }}
{% for i in range(t.tm) %}
    var top{{ i }} = LOWEST;
    var sum{{ i }} = 0.0;
{% for c in range(v_slices * per) %}
    var o{{ i }}_{{ c }} = vec4<f32>(0.0);
{% endfor %}
{% endfor %}
    // Sums are kept times 2^shift, which follows the size of the values.
    var shift = 0.0;
    let reach = {{ "min(p.s, first + %du)" % t.rows if causal else "p.s" }};
    for (var other = 0u; other < reach; other += {{ t.cols }}u) {
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
{{ stage("y_tile", k_row, "k", t.cols, "other", "p.s", "e0", "p.e4", su, "k_scale") }}
            workgroupBarrier();
            let units = min({{ su }}u, (p.e4 + 1u) / 2u - e0);
            // No product of these rows exceeds p.limit (Cauchy-Schwarz): f16 holds its parts within 2^-11 of that.
            if (q_bound.x * k_bound.x <= p.limit) {
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
                var h{{ i }}_{{ j }} = vec2<f16>();
{% endfor %}
{% endfor %}
                for (var c = 0u; c < units; c++) {
{% for i in range(t.tm) %}
                    let q{{ i }} = q_tile[(ty + {{ i * TY }}u) * {{ q_row }}u + e0 + c];
{% endfor %}
{% for j in range(t.tn) %}
                    let k{{ j }} = y_tile[(tx + {{ j * TX }}u) * {{ k_row }}u + c];
{% for e in range(4) %}
{% for i in range(t.tm) %}
                    h{{ i }}_{{ j }} = fma({{ pair("q%d" % i, e) }}, {{ pair("k%d" % j, e) }}, h{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
{% endfor %}
                }
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
                s{{ i }}_{{ j }} += f32(h{{ i }}_{{ j }}.x) + f32(h{{ i }}_{{ j }}.y);
{% endfor %}
{% endfor %}
            } else {
                for (var c = 0u; c < units * 2u; c++) {
{% for i in range(t.tm) %}
                    let q{{ i }} = vec4<f32>(q_tile[(ty + {{ i * TY }}u) * {{ q_row }}u + e0 + c / 2u][c % 2u]);
{% endfor %}
{% for j in range(t.tn) %}
                    let k{{ j }} = vec4<f32>(y_tile[(tx + {{ j * TX }}u) * {{ k_row }}u + c / 2u][c % 2u]);
{% for e in xyzw %}
{% for i in range(t.tm) %}
                    s{{ i }}_{{ j }} = fma(q{{ i }}.{{ e }}, k{{ j }}.{{ e }}, s{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
{% endfor %}
                }
            }
        }
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
        s{{ i }}_{{ j }} *= factor;
{% endfor %}
{% endfor %}
{% if mask %}
        {
{% else %}
        if (first + {{ t.rows }}u > p.l || other + {{ t.cols }}u > p.s{{ " || other + %du > first" % (t.cols - 1) if causal }}) {
{% endif %}
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
            s{{ i }}_{{ j }} = score(s{{ i }}_{{ j }}, first + ty + {{ i * TY }}u, other + tx + {{ j * TX }}u{{ ", mask_at" if mask }});
{% endfor %}
{% endfor %}
        }
{% for i in range(t.tm) %}
        row_values[((ty + {{ i * TY }}u) * {{ TX }}u + tx) / 4u][tx % 4u] = {% for j in range(t.tn - 1) %}max({% endfor %}s{{ i }}_0{% for j in range(1, t.tn) %}, s{{ i }}_{{ j }}){% endfor %};
{% endfor %}
        workgroupBarrier();
{% for i in range(t.tm) %}
        var high{{ i }} = vec4<f32>(top{{ i }});
{% for g in range(TX // 4) %}
        high{{ i }} = max(high{{ i }}, row_values[(ty + {{ i * TY }}u) * {{ TX // 4 }}u + {{ g }}u]);
{% endfor %}
        let now{{ i }} = max(max(high{{ i }}.x, high{{ i }}.y), max(high{{ i }}.z, high{{ i }}.w));
        let fade{{ i }} = exp2(top{{ i }} - now{{ i }} + (next - shift));
        top{{ i }} = now{{ i }};
        {
            let base = now{{ i }} - p_shift;
{% for j in range(t.tn) %}
            s{{ i }}_{{ j }} = exp2(s{{ i }}_{{ j }} - base);
{% endfor %}
        }
        sum{{ i }} = sum{{ i }} * fade{{ i }} + ({% for j in range(t.tn - 1) %}({% endfor %}s{{ i }}_0{% for j in range(1, t.tn) %} + s{{ i }}_{{ j }}){% endfor %}){{ " * v_scale" if wide }};
        w_tile[(ty + {{ i * TY }}u) * {{ weight_row }}u + tx] = {{ unit }}({% for g in range(2) %}vec4<f16>(vec4<f32>({% for j in range(4) %}s{{ i }}_{{ 4 * g + j }}{{ ", " if j < 3 }}{% endfor %})){{ ", " if not g }}{% endfor %});
{% endfor %}
        shift = next;
{% for part in range(v_slices) %}
{% if part %}
        workgroupBarrier();
{% endif %}
{% for l in range(t.cols // 2 * v_row // threads) %}
        {
            let id = lid + {{ l * threads }}u;
            let at = min({{ part * v_row }}u + id % {{ v_row }}u, p.v4 - 1u);
            let twin = id / {{ v_row }}u;
            let row = other + twin % {{ TX }}u + twin / {{ TX }}u * {{ 2 * TX }}u;
            let a = {{ narrow4("v", "v_at + min(row, p.s - 1u) * p.v_r + at", "v_scale") }};
            let b = {{ narrow4("v", "v_at + min(row + %du, p.s - 1u) * p.v_r + at" % TX, "v_scale") }};
            y_tile[id] = {{ unit }}(vec4<f16>(a.x, b.x, a.y, b.y), vec4<f16>(a.z, b.z, a.w, b.w));
        }
{% endfor %}
        workgroupBarrier();
        {
{% for i in range(t.tm) %}
{% for u in range(per * 4) %}
            var a{{ i }}_{{ u }} = vec2<f16>();
{% endfor %}
{% endfor %}
            for (var c = 0u; c < {{ TX }}u; c++) {
{% for i in range(t.tm) %}
                let w{{ i }} = w_tile[(ty + {{ i * TY }}u) * {{ weight_row }}u + c];
{% endfor %}
{% for j in range(4) %}
{% for u in range(per) %}
                {
                    let v = y_tile[(c + {{ j * TX }}u) * {{ v_row }}u + tx + {{ u * TX }}u];
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
{% set o = "o%d_%d" % (i, part * per + u) %}
            {{ o }} = {{ o }} * fade{{ i }} + vec4<f32>({% for e in range(4) %}f32(a{{ i }}_{{ 4 * u + e }}.x) + f32(a{{ i }}_{{ 4 * u + e }}.y){{ ", " if e < 3 }}{% endfor %});
{% endfor %}
{% endfor %}
        }
{% endfor %}
    }
    // Each thread has summed its own columns.
    workgroupBarrier();
{% for i in range(t.tm) %}
    row_values[((ty + {{ i * TY }}u) * {{ TX }}u + tx) / 4u][tx % 4u] = sum{{ i }};
{% endfor %}
    workgroupBarrier();
{% for i in range(t.tm) %}
    if (first + ty + {{ i * TY }}u < p.l) {
        let row = row_at + first + ty + {{ i * TY }}u;
        var all = vec4<f32>(0.0);
{% for g in range(TX // 4) %}
        all += row_values[(ty + {{ i * TY }}u) * {{ TX // 4 }}u + {{ g }}u];
{% endfor %}
        let total = (all.x + all.y) + (all.z + all.w);
        // A row that may attend to nothing is zero, and its weights stay zero in the backward pass.
        let share = select(1.0 / total, 0.0, total == 0.0);
        if (tx == 0u) {
            stats[row] = select(top{{ i }} - shift + log2(total), -NEVER, total == 0.0);
        }
{% for c in range(v_slices * per) %}
        if (tx + {{ c * TX }}u < p.v4) {
            let r = o{{ i }}_{{ c }} * share;
            {{ write4("out", "row * p.v4 + tx + %du" % (c * TX), ["r.x", "r.y", "r.z", "r.w"]) }}
        }
{% endfor %}
    }
{% endfor %}
}
