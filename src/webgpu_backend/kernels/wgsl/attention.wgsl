struct P {
{% for field in fields %}
    {{ field }},
{% endfor %}
}
{% for name, access, type in bindings %}
@group(0) @binding({{ loop.index0 }}) var<storage, {{ access }}> {{ name }}: {{ type }};
{% endfor %}
{% for line in widen %}
{{ line }}
{% endfor %}
{% set xyzw = "xyzw" %}
{% set ty, tx = t.rows // t.tm, t.cols // 4 %}
{% set threads = ty * tx %}
{% set rows4, cols4 = t.rows // 4, t.cols // 4 %}
// Masked scores: finite, so that a difference of two is never NaN.
const NEVER = -3.0e38;
var<workgroup> stage: array<vec4<f32>, {{ [t.depth * (rows4 + cols4), t.depth * tx * wide] | max }}>;
var<workgroup> weights: array<vec4<f32>, {{ t.cols * rows4 }}>;
{% if mode == "forward" %}
var<workgroup> row_values: array<vec4<f32>, {{ t.rows * tx // 4 }}>;
{% endif %}

{# Stages `rows` rows of x, `depth` elements from e0, transposed: stage[slot + e][row]. #}
{% macro stage_rows(x, slot, row0, limit, rows, dim4) %}
{% for l in range(rows * t.depth // 4 // threads) %}
            {
                let id = lid + {{ l * threads }}u;
                let e = id % {{ t.depth // 4 }}u;
                let row = id / {{ t.depth // 4 }}u;
                let at = e0 / 4u + e;
                let value = {{ read4(x, "%s_at + min(%s + row, %s - 1u) * p.%s_r + min(at, %s - 1u)" % (x, row0, limit, x, dim4)) }};
                let v = select(vec4<f32>(0.0), value, at < {{ dim4 }});
{% for c in range(4) %}
                stage[{{ slot }}u + (e * 4u + {{ c }}u) * {{ rows // 4 }}u + row / 4u][row % 4u] = v.{{ xyzw[c] }};
{% endfor %}
            }
{% endfor %}
{% endmacro %}
{# acc{i} += rows of x times rows of y: every thread has {{ tm }} rows and four columns. #}
{% macro dots(acc, x, x0, x_limit, y, y0, y_limit, dim4) %}
{% for i in range(t.tm) %}
        var {{ acc }}{{ i }} = vec4<f32>(0.0);
{% endfor %}
        for (var e0 = 0u; e0 < {{ dim4 }} * 4u; e0 += {{ t.depth }}u) {
            workgroupBarrier();
{{ stage_rows(x, 0, x0, x_limit, t.rows, dim4) }}
{{ stage_rows(y, t.depth * rows4, y0, y_limit, t.cols, dim4) }}
            workgroupBarrier();
{% for kk in steps %}
            {{ "for (var kk = 0u; kk < %du; kk++) " % t.depth if kk == "kk" }}{
{% for g in range(t.tm // 4) %}
                let a{{ g }} = stage[{{ kk }} * {{ rows4 }}u + {{ g }}u + y_thread * {{ t.tm // 4 }}u];
{% endfor %}
                let b = stage[{{ t.depth * rows4 }}u + {{ kk }} * {{ cols4 }}u + x_thread];
{% for i in range(t.tm) %}
                {{ acc }}{{ i }} += a{{ i // 4 }}.{{ xyzw[i % 4] }} * b;
{% endfor %}
            }
{% endfor %}
        }
{% endmacro %}
{# weights[column][row] = acc{i}[column] #}
{% macro keep(acc) %}
        workgroupBarrier();
{% for j in range(4) %}
{% for g in range(t.tm // 4) %}
        weights[(x_thread * 4u + {{ j }}u) * {{ rows4 }}u + y_thread * {{ t.tm // 4 }}u + {{ g }}u] = vec4<f32>({% for i in range(4) %}{{ acc }}{{ 4 * g + i }}.{{ xyzw[j] }}{{ ", " if i < 3 }}{% endfor %});
{% endfor %}
{% endfor %}
{% endmacro %}
{# acc{i}_{c} += weights (kept above) times the tile's rows of y #}
{% macro mix(acc, y, y0, limit, dim4) %}
        for (var k0 = 0u; k0 < {{ t.cols }}u; k0 += {{ t.depth }}u) {
            workgroupBarrier();
{% for l in range(t.depth * tx * wide // threads) %}
            {
                let id = lid + {{ l * threads }}u;
                let at = id % {{ tx * wide }}u;
                let row = {{ y0 }} + k0 + id / {{ tx * wide }}u;
                let value = {{ read4(y, "%s_at + min(row, %s - 1u) * p.%s_r + min(at, %s - 1u)" % (y, limit, y, dim4)) }};
                stage[id] = select(vec4<f32>(0.0), value, at < {{ dim4 }});
            }
{% endfor %}
            workgroupBarrier();
{% for kk in steps %}
            {{ "for (var kk = 0u; kk < %du; kk++) " % t.depth if kk == "kk" }}{
{% for g in range(t.tm // 4) %}
                let a{{ g }} = weights[(k0 + {{ kk }}) * {{ rows4 }}u + y_thread * {{ t.tm // 4 }}u + {{ g }}u];
{% endfor %}
{% for c in range(wide) %}
                let b{{ c }} = stage[{{ kk }} * {{ tx * wide }}u + {{ c * tx }}u + x_thread];
{% endfor %}
{% for i in range(t.tm) %}
{% for c in range(wide) %}
                {{ acc }}{{ i }}_{{ c }} += a{{ i // 4 }}.{{ xyzw[i % 4] }} * b{{ c }};
{% endfor %}
{% endfor %}
            }
{% endfor %}
        }
{% endmacro %}
{% macro zero(acc) %}
{% for i in range(t.tm) %}
{% for c in range(wide) %}
    var {{ acc }}{{ i }}_{{ c }} = vec4<f32>(0.0);
{% endfor %}
{% endfor %}
{% endmacro %}
{# Rows of acc, each times `factor(i)`, to a contiguous output. #}
{% macro store(acc, out, base, row0, limit, dim4, factor) %}
{% for i in range(t.tm) %}
    if ({{ row0 }} + y_thread * {{ t.tm }}u + {{ i }}u < {{ limit }}) {
        let row = {{ base }} + {{ row0 }} + y_thread * {{ t.tm }}u + {{ i }}u;
{% for c in range(wide) %}
        if (x_thread + {{ c * tx }}u < {{ dim4 }}) {
            let r = {{ acc }}{{ i }}_{{ c }} * {{ factor }}{{ i if factor != "p.scale" }};
            {{ write4(out, "row * %s + x_thread + %du" % (dim4, c * tx), ["r.x", "r.y", "r.z", "r.w"]) }}
        }
{% endfor %}
    }
{% endfor %}
{% endmacro %}

fn score(s: f32, query: u32, key: u32, mask_at: u32) -> f32 {
    let inside = query < p.l && key < p.s{{ " && key <= query" if causal }};
{% if mask == "bool" %}
    let at = mask_at + min(query, p.l - 1u) * p.mask_r + min(key, p.s - 1u) * p.mask_c;
    return select(NEVER, s * p.scale, inside && {{ read_mask("at") }});
{% elif mask %}
    let at = mask_at + min(query, p.l - 1u) * p.mask_r + min(key, p.s - 1u) * p.mask_c;
    let value = s * p.scale + {{ read_mask("at") }};
    return select(value, NEVER, !inside || value < NEVER);
{% else %}
    return select(NEVER, s * p.scale, inside);
{% endif %}
}

fn weight(s: f32, top: f32) -> f32 {
    return select(exp(s - top), 0.0, s <= NEVER);
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
    let x_thread = lid % {{ tx }}u;
    let y_thread = lid / {{ tx }}u;
    let first = group % p.blocks * {{ t.rows }}u;
    let batch = group / p.blocks / p.heads;
{% if mode == "keys" %}
    let shared_head = group / p.blocks % p.heads;
    let k_at = p.k_o + batch * p.k_b + shared_head * p.k_h;
    let v_at = p.v_o + batch * p.v_b + shared_head * p.v_h;
{{ zero("o") }}
{{ zero("u") }}
    for (var member = 0u; member < p.ratio; member++) {
    let head = shared_head * p.ratio + member;
    let q_at = p.q_o + batch * p.q_b + head * p.q_h;
    let g_at = p.g_o + batch * p.g_b + head * p.g_h;
    let row_at = (batch * p.heads * p.ratio + head) * p.l;
{% if mask %}
    let mask_at = p.mask_o + batch * p.mask_b + head * p.mask_h;
{% else %}
    const mask_at = 0u;
{% endif %}
    for (var other = {{ "first / %du * %du" % (t.cols, t.cols) if causal else "0u" }}; other < p.l; other += {{ t.cols }}u) {
{{ dots("s", "k", "first", "p.s", "q", "other", "p.l", "p.e4") }}
{{ dots("d", "v", "first", "p.s", "g", "other", "p.l", "p.v4") }}
{% for j in range(4) %}
        {
            let query = other + x_thread * 4u + {{ j }}u;
            let at = row_at + min(query, p.l - 1u);
            let top = stats[at];
            let delta = stats[at + p.rows_total];
{% for i in range(t.tm) %}
            s{{ i }}.{{ xyzw[j] }} = weight(score(s{{ i }}.{{ xyzw[j] }}, query, first + y_thread * {{ t.tm }}u + {{ i }}u, mask_at), top);
            d{{ i }}.{{ xyzw[j] }} = s{{ i }}.{{ xyzw[j] }} * (d{{ i }}.{{ xyzw[j] }} - delta);
{% endfor %}
        }
{% endfor %}
{{ keep("s") }}
{{ mix("o", "g", "other", "p.l", "p.v4") }}
{{ keep("d") }}
{{ mix("u", "q", "other", "p.l", "p.e4") }}
    }
    }
    let key_at = (batch * p.heads + shared_head) * p.s;
{% for i in range(t.tm) %}
    const one{{ i }} = 1.0;
{% endfor %}
{{ store("u", "dk", "key_at", "first", "p.s", "p.e4", "p.scale") }}
{{ store("o", "dv", "key_at", "first", "p.s", "p.v4", "one") }}
{% else %}
    let head = group / p.blocks % p.heads;
    let shared_head = head / p.ratio;
    let q_at = p.q_o + batch * p.q_b + head * p.q_h;
    let k_at = p.k_o + batch * p.k_b + shared_head * p.k_h;
    let v_at = p.v_o + batch * p.v_b + shared_head * p.v_h;
    let row_at = (batch * p.heads + head) * p.l;
{% if mask %}
    let mask_at = p.mask_o + batch * p.mask_b + head * p.mask_h;
{% else %}
    const mask_at = 0u;
{% endif %}
{% if mode == "queries" %}
    let g_at = p.g_o + batch * p.g_b + head * p.g_h;
{% endif %}
{{ zero("o") }}
{% for i in range(t.tm) %}
{% if mode == "forward" %}
    var top{{ i }} = NEVER;
    var sum{{ i }} = 0.0;
{% else %}
    let at{{ i }} = row_at + min(first + y_thread * {{ t.tm }}u + {{ i }}u, p.l - 1u);
    let top{{ i }} = stats[at{{ i }}];
    let delta{{ i }} = stats[at{{ i }} + p.rows_total];
{% endif %}
{% endfor %}
    let last = {{ "min(p.s, first + %du)" % t.rows if causal else "p.s" }};
    for (var other = 0u; other < last; other += {{ t.cols }}u) {
{{ dots("s", "q", "first", "p.l", "k", "other", "p.s", "p.e4") }}
{% if mode == "queries" %}
{{ dots("d", "g", "first", "p.l", "v", "other", "p.s", "p.v4") }}
{% endif %}
{% for i in range(t.tm) %}
{% for j in range(4) %}
        s{{ i }}.{{ xyzw[j] }} = score(s{{ i }}.{{ xyzw[j] }}, first + y_thread * {{ t.tm }}u + {{ i }}u, other + x_thread * 4u + {{ j }}u, mask_at);
{% endfor %}
{% endfor %}
{% if mode == "forward" %}
{% for i in range(t.tm) %}
        row_values[(y_thread * {{ t.tm }}u + {{ i }}u) * {{ tx // 4 }}u + x_thread / 4u][x_thread % 4u] = max(max(s{{ i }}.x, s{{ i }}.y), max(s{{ i }}.z, s{{ i }}.w));
{% endfor %}
        workgroupBarrier();
{% for i in range(t.tm) %}
        {
            var high = vec4<f32>(top{{ i }});
{% for g in range(tx // 4) %}
            high = max(high, row_values[(y_thread * {{ t.tm }}u + {{ i }}u) * {{ tx // 4 }}u + {{ g }}u]);
{% endfor %}
            let now = max(max(high.x, high.y), max(high.z, high.w));
            let fade = exp(top{{ i }} - now);
            top{{ i }} = now;
{% for j in range(4) %}
            s{{ i }}.{{ xyzw[j] }} = weight(s{{ i }}.{{ xyzw[j] }}, now);
{% endfor %}
            sum{{ i }} = sum{{ i }} * fade + (s{{ i }}.x + s{{ i }}.y) + (s{{ i }}.z + s{{ i }}.w);
{% for c in range(wide) %}
            o{{ i }}_{{ c }} *= fade;
{% endfor %}
        }
{% endfor %}
{{ keep("s") }}
{{ mix("o", "v", "other", "p.s", "p.v4") }}
{% else %}
{% for i in range(t.tm) %}
{% for j in range(4) %}
        d{{ i }}.{{ xyzw[j] }} = weight(s{{ i }}.{{ xyzw[j] }}, top{{ i }}) * (d{{ i }}.{{ xyzw[j] }} - delta{{ i }});
{% endfor %}
{% endfor %}
{{ keep("d") }}
{{ mix("o", "k", "other", "p.s", "p.e4") }}
{% endif %}
    }
{% if mode == "forward" %}
    // Each thread has summed its own columns.
    workgroupBarrier();
{% for i in range(t.tm) %}
    row_values[(y_thread * {{ t.tm }}u + {{ i }}u) * {{ tx // 4 }}u + x_thread / 4u][x_thread % 4u] = sum{{ i }};
{% endfor %}
    workgroupBarrier();
{% for i in range(t.tm) %}
    var all{{ i }} = vec4<f32>(0.0);
{% for g in range(tx // 4) %}
    all{{ i }} += row_values[(y_thread * {{ t.tm }}u + {{ i }}u) * {{ tx // 4 }}u + {{ g }}u];
{% endfor %}
    let total{{ i }} = (all{{ i }}.x + all{{ i }}.y) + (all{{ i }}.z + all{{ i }}.w);
    // A row that may attend to nothing is zero, and its weights stay zero in the backward pass.
    let factor{{ i }} = select(1.0 / total{{ i }}, 0.0, total{{ i }} == 0.0);
    if (x_thread == 0u && first + y_thread * {{ t.tm }}u + {{ i }}u < p.l) {
        stats[row_at + first + y_thread * {{ t.tm }}u + {{ i }}u] = select(top{{ i }} + log(total{{ i }}), -NEVER, total{{ i }} == 0.0);
    }
{% endfor %}
{{ store("o", "out", "row_at", "first", "p.l", "p.v4", "factor") }}
{% else %}
{{ store("o", "dq", "row_at", "first", "p.l", "p.e4", "p.scale") }}
{% endif %}
{% endif %}
}
