{% include "attention/head.wgsl" %}
{% set slices = threads // lanes %}
{% set stride = slices * ahead %}
var<workgroup> scores: array<f32, {{ keys }}>;
// The largest scores of {{ wide }} threads next to each other.
var<workgroup> tops: array<f32, {{ threads // wide }}>;
var<workgroup> sums: array<vec4<f32>, {{ threads }}>;
var<workgroup> totals: array<f32, {{ threads }}>;

{# What lies past the head's size is nothing, also where the element that is read instead is infinite. #}
{% macro part(k, u) %}{{ widened(k) if whole else "select(vec4<f32>(0.0), %s, c + %du < p.e4)" % (widened(k), u * team) }}{% endmacro %}
{# Values of {{ ahead }} keys are on their way before their weights are known. #}
{% macro fetch(first) %}
{% for u in range(ahead) %}
        v{{ u }} = v_in[v_at + min({{ first }} + {{ u * slices }}u, p.s - 1u) * p.v_r + e];
{% endfor %}
{% endmacro %}
// One query of one head: its scores, then four elements of the output for each thread, over every {{ slices }}th key.
@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.sequences) {
        return;
    }
    let batch = group / p.heads;
    let head = group % p.heads;
    let shared_head = head / p.ratio;
    let q_at = p.q_o + batch * p.q_b + head * p.q_h;
    let k_at = p.k_o + batch * p.k_b + shared_head * p.k_h;
    let v_at = p.v_o + batch * p.v_b + shared_head * p.v_h;
{% if mask %}
    let mask_at = p.mask_o + batch * p.mask_b + head * p.mask_h;
{% endif %}
    var top = LOWEST;
    // {{ team }} threads have a key, so that those next to each other read what lies side by side.
    let c = lid % {{ team }}u;
{% for u in range(quads) %}
    let at{{ u }} = min(c + {{ u * team }}u, p.e4 - 1u);
    let q{{ u }} = select(vec4<f32>(0.0), {{ widened("q_in[q_at + at%d]" % u) }}, c + {{ u * team }}u < p.e4);
{% endfor %}
    for (var base = 0u; base < p.s; base += {{ threads // team * keys_ahead }}u) {
        let first = base + lid / {{ team }}u;
{% for a in range(keys_ahead) %}
        let row{{ a }} = k_at + min(first + {{ a * (threads // team) }}u, p.s - 1u) * p.k_r;
{% for u in range(quads) %}
        let k{{ a }}_{{ u }} = k_in[row{{ a }} + at{{ u }}];
{% endfor %}
{% endfor %}
{% for a in range(keys_ahead) %}
        {
            var sum = {% for u in range(quads) %}{{ " + " if u }}dot(q{{ u }}, {{ part("k%d_%d" % (a, u), u) }}){% endfor %};
{% for mask in team_masks %}
            sum += subgroupShuffleXor(sum, {{ mask }}u);
{% endfor %}
            let key = first + {{ a * (threads // team) }}u;
            if (key < p.s) {
                let s = score(sum * p.factor, 0u, key{{ ", mask_at" if mask }});
                if (c == 0u) {
                    scores[key] = s;
                }
                top = max(top, s);
            }
        }
{% endfor %}
    }
    let e = min(lid % {{ lanes }}u, p.v4 - 1u);
{% for u in range(ahead) %}
    var v{{ u }}: {{ vector }};
{% endfor %}
{{ fetch("lid / %du" % lanes) }}
{% for mask in masks %}
    top = max(top, subgroupShuffleXor(top, {{ mask }}u));
{% endfor %}
    if (lid % {{ wide }}u == 0u) {
        tops[lid / {{ wide }}u] = top;
    }
    workgroupBarrier();
    for (var i = 0u; i < {{ threads // wide }}u; i++) {
        top = max(top, tops[i]);
    }
    var acc = vec4<f32>(0.0);
    var total = 0.0;
    for (var first = lid / {{ lanes }}u; first < p.s; first += {{ stride }}u) {
{% for u in range(ahead) %}
        {
            // Nothing of a key that is not there: its value may be infinite.
            let inside = first + {{ u * slices }}u < p.s;
            let w = select(0.0, exp2(scores[min(first + {{ u * slices }}u, p.s - 1u)] - top), inside);
            total += w;
            acc = fma(vec4<f32>(w), select(vec4<f32>(0.0), {{ widened("v%d" % u) }}, inside), acc);
        }
{% endfor %}
        if (first + {{ stride }}u < p.s) {
{{ fetch("first + %du" % stride) }}
        }
    }
    sums[lid] = acc;
    totals[lid] = total;
    workgroupBarrier();
    if (lid >= p.v4) {
        return;
    }
{% for i in range(1, slices) %}
    acc += sums[lid + {{ i * lanes }}u];
    total += totals[lid + {{ i * lanes }}u];
{% endfor %}
    // A row that may attend to nothing is zero, and its weights stay zero in the backward pass.
    {{ "var" if after else "let" }} r = acc * select(1.0 / total, 0.0, total == 0.0);
    if (lid == 0u) {
        stats[group] = select(top + log2(total), -NEVER, total == 0.0);
    }
{% if after %}
{% for x in "xyzw" %}
    r.{{ x }} = epilogue(r.{{ x }}, 0u, lid * 4u + {{ loop.index0 }}u, batch, head);
{% endfor %}
{% endif %}
    let to = batch * p.out_b + head * p.out_h + lid;
    {{ write4 }}
}
