{% include "text/interface.wgsl" %}
{% set backward = "backward" in op %}
{% set log = "log" in op %}
{% set outside = "vec4<f32>(0.0)" if backward else "vec4<f32>(ninf())" %}

var<workgroup> part: array<f32, {{ along * across }}>;
{% for name, lines in loads %}

fn load_{{ name }}(g: u32) -> vec4<f32> {
{% for line in lines %}
    {{ line }}
{% endfor %}
}
{% endfor %}

fn store(g: u32, v: vec4<f32>) {
{% for line in store %}
    {{ line }}
{% endfor %}
}
{% if ragged %}

// Which lanes of group j belong to a row that starts `head` lanes into its first group.
fn mine(j: u32, head: u32) -> vec4<bool> {
    let at = vec4<u32>(4u * j) + vec4<u32>(0u, 1u, 2u, 3u) - vec4<u32>(head);
    return at < vec4<u32>(p.k);
}
{% endif %}

fn ninf() -> f32 {
    return -f32_inf();
}
{% if not backward %}

// Asked of the bits: compilers of Metal take it that nothing is infinite, or NaN.
fn is_ninf(x: f32) -> bool {
    return bitcast<u32>(x) == 0xff800000u;
}

// v, or NaN where the sum of a row is: they would make 0.0 of 0.0 * NaN, too.
fn unless_nan(v: vec4<f32>, total: f32) -> vec4<f32> {
    return select(v, vec4<f32>(total), vec4<bool>(f32_isnan(total)));
}
{% endif %}

// e^x, four at once, for shares of a sum: to |x| 1e-7 of the value, which is small where |x| is large. Built-in powers may
// keep a trace of what is far below the smallest float, and lose a NaN.
fn exp4(x: vec4<f32>) -> vec4<f32> {
    let y = exp2(x * 1.44269504);
    let nan = (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
    return select(select(y, vec4<f32>(0.0), x < vec4<f32>(-87.0)), x, nan);
}

fn sum4(x: vec4<f32>) -> f32 {
    return (x.x + x.y) + (x.z + x.w);
}

fn max4(x: vec4<f32>) -> f32 {
    return max(max(x.x, x.y), max(x.z, x.w));
}
{% for name, join in (("max", "max(part[lid], part[lid + %du])"), ("sum", "part[lid] + part[lid + %du]")) %}
{% if name == "sum" or not backward %}

fn row_{{ name }}(x: f32, lid: u32) -> f32 {
    part[lid] = x;
    workgroupBarrier();
{% for h in halves %}
    if (lid % {{ along }}u < {{ h }}u) {
        part[lid] = {{ join % h }};
    }
    workgroupBarrier();
{% endfor %}
    let all = part[lid - lid % {{ along }}u];
    workgroupBarrier();
    return all;
}
{% endif %}
{% endfor %}
{# What unit u is rewritten as; `share` is its part of the sum. #}
{% macro rewritten(u, share) %}
{% set a, b = "a%d" % u, "b%d" % u %}
{% if not backward %}
{{ "unless_nan(%s, total)" % ("(%s - top) - shift" % a if log else share) }}
{%- else %}
{{ "%s - exp4(%s) * total" % (a, b) if log else "(%s - total) * %s" % (a, b) }}
{%- endif %}
{% endmacro %}
{% macro write(j, v) %}
{% if ragged %}
            if ({{ j }} == 0u || {{ j }} == last) {
                let g = out_at + {{ j }};
                let v = {{ v }};
                let keep = mine({{ j }}, head);
{% for line in parts %}
                {{ line }}
{% endfor %}
            } else {
                store(out_at + {{ j }}, {{ v }});
            }
{% else %}
            store(out_at + {{ j }}, {{ v }});
{% endif %}
{% endmacro %}
{% macro read(to, name, j) %}
            {{ to }} = load_{{ name }}({{ name }}_at + {{ j }});
{% if ragged %}
            if ({{ j }} == 0u || {{ j }} == last) {
                {{ to }} = select({{ outside }}, {{ to }}, mine({{ j }}, head));
            }
{% endif %}
{% endmacro %}

@compute @workgroup_size({{ along * across }})
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let own = (wid.x + wid.y * nwg.x) * {{ across }}u + lid / {{ along }}u;
    // Threads past the last row repeat it, so that all of them meet at the barriers.
    let row = min(own, p.m - 1u);
    let live = own < p.m;
    let y = lid % {{ along }}u;
    let head = {% if ragged %}(row * p.k) % 4u{% else %}0u{% endif %};
    let count = (head + p.k + 3u) / 4u;
    let last = count - 1u;
{% for name in names %}
    let {{ name }}_at = (p.{{ name }}_o + row * p.{{ name }}_s - head) / 4u;
{% endfor %}
    let out_at = (row * p.k - head) / 4u;
{% if units %}
{% for u in range(units) %}
    let j{{ u }} = y + {{ u * along }}u;
{% for name in names %}
    var {{ name }}{{ u }} = {{ outside }};
{% endfor %}
    if (j{{ u }} < count) {
{% for name in names %}
{{ read(name ~ u, name, "j" ~ u) -}}
{% endfor %}
    }
{% endfor %}
{% if backward %}
    var s4 = {{ "a0" if log else "a0 * b0" }};
{% for u in range(1, units) %}
    s4 += {{ "a%d" % u if log else "a%d * b%d" % (u, u) }};
{% endfor %}
    let total = row_sum(sum4(s4), lid);
{% else %}
    var t4 = a0;
{% for u in range(1, units) %}
    t4 = max(t4, a{{ u }});
{% endfor %}
    let top = row_max(max4(t4), lid);
{% if log %}
    var s4 = exp4(a0 - top);
{% for u in range(1, units) %}
    s4 += exp4(a{{ u }} - top);
{% endfor %}
    let total = row_sum(sum4(s4), lid);
    let shift = f32_log(total);
{% else %}
{% for u in range(units) %}
    a{{ u }} = exp4(a{{ u }} - top);
{% endfor %}
    var s4 = a0;
{% for u in range(1, units) %}
    s4 += a{{ u }};
{% endfor %}
    let total = row_sum(sum4(s4), lid);
    let scale = 1.0 / total;
{% endif %}
{% endif %}
    if (live) {
{% for u in range(units) %}
        if (j{{ u }} < count) {
{{ write("j" ~ u, rewritten(u, "a%d * scale" % u)) -}}
        }
{% endfor %}
    }
{% else %}
{% set unroll = 4 %}
{% if backward %}
    var s4 = vec4<f32>(0.0);
    for (var j = y; j < count; j += {{ along * unroll }}u) {
{% for u in range(unroll) %}
        let j{{ u }} = j + {{ u * along }}u;
{% for name in names if name == "a" or not log %}
        var {{ name }}{{ u }} = {{ outside }};
{% endfor %}
        if (j{{ u }} < count) {
{% for name in names if name == "a" or not log %}
{{ read(name ~ u, name, "j" ~ u) -}}
{% endfor %}
        }
{% endfor %}
{% for u in range(unroll) %}
        s4 += {{ "a%d" % u if log else "a%d * b%d" % (u, u) }};
{% endfor %}
    }
    let total = row_sum(sum4(s4), lid);
{% else %}
    // The running maximum and the sum of exponentials beneath it, rescaled once for {{ 4 * unroll }} elements.
    var high = ninf();
    var low = 0.0;
    for (var j = y; j < count; j += {{ along * unroll }}u) {
{% for u in range(unroll) %}
        let j{{ u }} = j + {{ u * along }}u;
        var a{{ u }} = {{ outside }};
        if (j{{ u }} < count) {
{{ read("a" ~ u, "a", "j" ~ u) -}}
        }
{% endfor %}
        let next = max(high, max4(max(max(a0, a1), max(a2, a3))));
        let from_ = select(next, 0.0, is_ninf(next));
        let s4 = (exp4(a0 - from_) + exp4(a1 - from_)) + (exp4(a2 - from_) + exp4(a3 - from_));
        low = low * exp4(vec4<f32>(high - from_)).x + sum4(s4);
        high = next;
    }
    let top = row_max(high, lid);
    let base = select(top, 0.0, is_ninf(top));
    let total = row_sum(low * exp4(vec4<f32>(high - base)).x, lid);
{% if log %}
    let shift = f32_log(total);
{% else %}
    let scale = 1.0 / total;
{% endif %}
{% endif %}
    if (live) {
        for (var j = y; j < count; j += {{ along * unroll }}u) {
{% for u in range(unroll) %}
            let j{{ u }} = j + {{ u * along }}u;
{% for name in names %}
            let {{ name }}{{ u }} = load_{{ name }}({{ name }}_at + min(j{{ u }}, last));
{% endfor %}
{% endfor %}
{% for u in range(unroll) %}
            if (j{{ u }} < count) {
{{ write("j" ~ u, rewritten(u, "exp4(a%d - top) * scale" % u)) -}}
            }
{% endfor %}
        }
    }
{% endif %}
}
