{% include "text/interface.wgsl" %}
{# Both operands in one dispatch. A workgroup takes 16 rows: their largest finite magnitude, then all of them scaled to f16.
   They lie by panels, as tall as the tiles of the product: two neighbours of k, then those of the next row, so that a vector
   has two of k of two rows and a tile is in one piece. k is padded with zeros, rows with copies of the last, whose products
   are dropped. #}
{% set rows, step, threads = 16, 256, 256 %}
var<workgroup> largest: array<u32, {{ rows * 32 }}>;
var<workgroup> scales: array<f32, {{ rows }}>;
var<workgroup> exponents: array<f32, {{ rows }}>;
{% if "k" in orders | lower %}
var<workgroup> turned: array<vec2<f16>, {{ step // 2 * (rows + 1) }}>;
{% endif %}

// Bits that order magnitudes; of Inf and NaN none, which take no part: they stay what they are under any scale.
fn finite(x: f32) -> u32 {
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    return select(0u, bits, bits < 0x7f800000u);
}

fn magnitude(x: f32) -> u32 {
    return bitcast<u32>(x) & 0x7fffffffu;
}

fn power(e: i32) -> f32 {
    return bitcast<f32>(u32(e + 127) << 23u);
}

// A number that is not zero stays so: an infinity on the other side must not meet a zero that was none.
fn shrink(x: f32, scale: f32) -> f32 {
    let y = x * scale;
    return select(y, select(-5.9604645e-8, 5.9604645e-8, x > 0.0), abs(y) < 5.9604645e-8 && abs(x) > 0.0);
}

{% for x, order in (("a", orders[0]), ("b", orders[1])) %}
{% set along_k = order in "kK" %}
// Four elements from (row, k), along {{ "k" if along_k else "the rows" }}; zero past the end of k.
fn {{ x }}_fetch(start: u32, row: u32, k: u32) -> vec4<f32> {
{% if order == "k" %}
    let at = start + min(row, p.{{ x }}_rows - 1u) * p.{{ x }}_r + min(k, p.k - 4u) / 4u;
    return select(vec4<f32>(), {{ read4(x, "at") }}, k < p.k);
{% elif order == "r" %}
    let at = start + min(k, p.k - 1u) * p.{{ x }}_k + min(row, p.{{ x }}_rows - 4u) / 4u;
    return select(vec4<f32>(), {{ read4(x, "at") }}, k < p.k);
{% else %}
    var v = vec4<f32>();
{% for c in range(4) %}
{% set r, q = ("row", "k + %du" % c) if along_k else ("row + %du" % c, "k") %}
    let at{{ c }} = start + min({{ r }}, p.{{ x }}_rows - 1u) * p.{{ x }}_r + min({{ q }}, p.k - 1u) * p.{{ x }}_k;
    v[{{ c }}] = select(0.0, {{ read(x, "at%d" % c) }}, {{ q }} < p.k);
{% endfor %}
    return v;
{% endif %}
}

fn {{ x }}_pack(group: u32, lid: u32) {
    let first = (group % p.{{ x }}_tiles) * {{ rows }}u;
    let batch = group / p.{{ x }}_tiles;
    let start = p.{{ x }}_o + (batch / p.{{ x }}_inner) * p.{{ x }}_b + (batch % p.{{ x }}_inner) * p.{{ x }}_i;
    let to = batch * (p.depth + 1u) * p.{{ x }}_wide;
    let in_panel = first % p.{{ x }}_panel;
    let panel = to + (first - in_panel) / 4u * p.depth + in_panel / 2u;
    // The four loads of a thread in a step: of four rows at four of k from kt, or of four rows from rt at four of k.
{% if along_k %}
    let kt = (lid % 64u) * 4u;
    let rt = lid / 64u;
{% else %}
    let rt = (lid % 4u) * 4u;
    let kt = lid / 4u;
{% endif %}
{# Load l of the step from k0; `whole`: the step is known to lie within k. #}
{% macro load(l, k0, whole=false) %}
{% if whole and order == "k" %}
{{ read4(x, "(from%d + (%s) / 4u)" % (l, k0)) }}
{%- elif whole %}
{{ read4(x, "(from%d + (%s) * p.%s_k)" % (l, k0, x)) }}
{%- else %}
{{ x }}_fetch(start, first + rt{{ " + %du" % (4 * l) if along_k }}, {{ k0 }} + {{ "kt" if along_k else "2u * kt + %du" % (l % 2 + l // 2 * 128) }})
{%- endif %}
{% endmacro %}
{% macro scan(size) %}
    var k0 = 0u;
{% for whole in ((true, false) if order in "kr" else (false,)) %}
    for (; {{ "k0 + %du <= p.k" % (2 * step) if whole else "k0 < p.k" }}; k0 += {{ 2 * step }}u) {
{% for u in range(2) %}
{% for l in range(4) %}
        let v{{ u }}_{{ l }} = {{ load(l, "k0 + %du" % (u * step), whole) }};
{% endfor %}
{% endfor %}
{% for u in range(2) %}
{% for l in range(4) %}
{% for c in range(4) %}
        m{{ l if along_k else c }} = max(m{{ l if along_k else c }}, {{ size }}(v{{ u }}_{{ l }}[{{ c }}]));
{% endfor %}
{% endfor %}
{% endfor %}
    }
{% endfor %}
{% endmacro %}
{% for l in range(4) if order in "kr" %}
{% if along_k %}
    let from{{ l }} = start + min(first + rt + {{ 4 * l }}u, p.{{ x }}_rows - 1u) * p.{{ x }}_r + kt / 4u;
{% else %}
    let from{{ l }} = start + (2u * kt + {{ l % 2 + l // 2 * 128 }}u) * p.{{ x }}_k + min(first + rt, p.{{ x }}_rows - 4u) / 4u;
{% endif %}
{% endfor %}
{% for i in range(4) %}
    var m{{ i }} = 0u;
{% endfor %}
    // Eight loads under way at once; a second time where something was not finite.
    {
{{ scan("magnitude") }}
    }
    if (max(max(m0, m1), max(m2, m3)) >= 0x7f800000u) {
{% for i in range(4) %}
        m{{ i }} = 0u;
{% endfor %}
{{ scan("finite") }}
    }
    // 64 threads have a part of each row: to half of them, to 16, to one.
    let part = {{ "lid % 64u" if along_k else "kt" }};
{% macro merge(text) %}
{% for i in range(4) %}
{% set at = "largest[(rt + %du) * 32u + part %% 32u]" % (4 * i if along_k else i) %}
        {{ text % {"at": at, "m": "m%d" % i} }}
{% endfor %}
{% endmacro %}
    if (part >= 32u) {
{{ merge("%(at)s = %(m)s;") }}
    }
    workgroupBarrier();
    if (part < 32u) {
{{ merge("%(at)s = max(%(at)s, %(m)s);") }}
    }
    workgroupBarrier();
    let most = max(largest[lid * 2u], largest[lid * 2u + 1u]);
    workgroupBarrier();
    largest[lid] = most;
    workgroupBarrier();
    // The largest of a row comes to lie in [2^{{ top }}, 2^{{ top + 1 }}).
    if (lid < {{ rows }}u) {
        var x = 0u;
        for (var i = 0u; i < 16u; i++) {
            x = max(x, largest[lid * 16u + i]);
        }
        let e = select(0, clamp({{ top }} - (i32(x >> 23u) - 127), -126, 126), x >= 0x00800000u);
        scales[lid] = power(e);
        exponents[lid] = f32(e);
    }
    workgroupBarrier();
    if (lid < {{ rows // 4 }}u) {
        let e = lid * 4u;
        p{{ x }}[to + p.depth * p.{{ x }}_wide + first / 4u + lid] = vec4<f16>(vec4<f32>(exponents[e], exponents[e + 1u], exponents[e + 2u], exponents[e + 3u]));
    }
{% for i in range(4) %}
    let s{{ i }} = scales[rt + {{ 4 * i if along_k else i }}u];
{% endfor %}
{% for l in range(4) %}
    var v{{ l }} = {{ load(l, "0u") }};
{% endfor %}
    for (var k0 = 0u; k0 < p.depth; k0 += {{ step }}u) {
{% for l in range(4) %}
{% if along_k %}
{% for c in range(2) %}
        turned[(kt / 2u + {{ c }}u) * {{ rows + 1 }}u + rt + {{ 4 * l }}u] = vec2<f16>(vec2<f32>(shrink(v{{ l }}[{{ 2 * c }}], s{{ l }}), shrink(v{{ l }}[{{ 2 * c + 1 }}], s{{ l }})));
{% endfor %}
{% else %}
        let y{{ l }} = vec4<f16>(vec4<f32>({% for c in range(4) %}shrink(v{{ l }}[{{ c }}], s{{ c }}){{ ", " if c < 3 }}{% endfor %}));
{% endif %}
{% endfor %}
{% if along_k %}
        workgroupBarrier();
{% endif %}
        // The next ones are under way while these are written.
{% if order in "kr" %}
        if (k0 + {{ 2 * step }}u <= p.k) {
{% for l in range(4) %}
            v{{ l }} = {{ load(l, "k0 + %du" % step, true) }};
{% endfor %}
        } else {
{% else %}
        {
{% endif %}
{% for l in range(4) %}
            v{{ l }} = {{ load(l, "k0 + %du" % step) }};
{% endfor %}
        }
{% if along_k %}
{% for l in range(4) %}
        {
            let k = lid / 8u * 2u + {{ 64 * l }}u;
            let r = lid % 8u * 2u;
            if (k0 + k < p.depth) {
                let e = k / 2u * {{ rows + 1 }}u + r;
                p{{ x }}[panel + (k0 + k) * (p.{{ x }}_panel / 4u) + r / 2u] = vec4<f16>(turned[e], turned[e + 1u]);
            }
        }
{% endfor %}
{% else %}
{% for l in (0, 2) %}
        {
            let k = k0 + 2u * kt + {{ 64 * l }}u;
            if (k < p.depth) {
                let at = panel + k * (p.{{ x }}_panel / 4u) + rt / 2u;
                p{{ x }}[at] = vec4<f16>(y{{ l }}.x, y{{ l + 1 }}.x, y{{ l }}.y, y{{ l + 1 }}.y);
                p{{ x }}[at + 1u] = vec4<f16>(y{{ l }}.z, y{{ l + 1 }}.z, y{{ l }}.w, y{{ l + 1 }}.w);
            }
        }
{% endfor %}
{% endif %}
{% if along_k %}
        workgroupBarrier();
{% endif %}
    }
}

{% endfor %}
@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group < p.a_total) {
        a_pack(group, lid);
    } else if (group < p.a_total + p.b_total) {
        b_pack(group - p.a_total, lid);
    }
}
