{% include "text/interface.wgsl" %}
{% if kind == "overlaps" %}

// std::max and std::min: where they do not compare, the first.
fn larger(a: f32, b: f32) -> f32 {
    return select(a, b, a < b);
}

fn smaller(a: f32, b: f32) -> f32 {
    return select(a, b, b < a);
}

// For box i of a window of them, by which of 32 later boxes it is overlapped. Boxes come in the order of their scores.
fn at(g: u32) -> u32 {
    let i = p.begin + g / p.words;
    let first = g % p.words * 32u;
    if (i >= p.boxes || first + 32u <= i) {
        return 0u;
    }
    let o = 4u * i;
{% for c in range(4) %}
    let o{{ c }} = o + {{ c }}u;
    let i{{ c }} = {{ box("o" ~ c) }};
{% endfor %}
    let own = {{ area("i") }};
    var found = 0u;
    for (var k = 0u; k < min(32u, p.boxes - first); k++) {
        let j = first + k;
        if (j <= i) {
            continue;
        }
        let q = 4u * j;
{% for c in range(4) %}
        let q{{ c }} = q + {{ c }}u;
{% endfor %}
        let w = smaller(i2, {{ box("q2") }}) - larger(i0, {{ box("q0") }});
        let h = smaller(i3, {{ box("q3") }}) - larger(i1, {{ box("q1") }});
        let inter = larger(0.0, w) * larger(0.0, h);
        let ratio = {{ "inter / (own + " ~ area("j") ~ " - inter)" if plain else "f32_quotient(inter, own + " ~ area("j") ~ " - inter)" }};
        found |= select(0u, 1u << k, ratio > p.threshold);
    }
    return found;
}
{% include "text/by_index.wgsl" %}
{% elif kind == "sweep" %}

// One workgroup walks the boxes of a window, 32 at a time: of these every thread finds out for itself which stay, and
// then marks among its own words of later boxes those that they overlap.
@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) t: u32) {
    for (var b = 0u; b < p.blocks; b++) {
        let word = p.first + b;
        let row = b * 32u * p.words;
        var gone = b_gone[word];
        var kept = 0u;
{% for k in range(32) %}
        if ((gone & {{ 2 ** k }}u) == 0u) {
            kept |= {{ 2 ** k }}u;
            gone |= b_overlaps[row + {{ k }}u * p.words + word];
        }
{% endfor %}
        if (t == 0u) {
            b_kept[word] = kept;
        }
        for (var w = word + 1u + t; w < p.words; w += {{ threads }}u) {
            var marked = b_gone[w];
{% for k in range(32) %}
            if ((kept & {{ 2 ** k }}u) != 0u) {
                marked |= b_overlaps[row + {{ k }}u * p.words + w];
            }
{% endfor %}
            b_gone[w] = marked;
        }
        storageBarrier();
    }
}
{% else %}

fn at(i: u32) -> bool {
    let word = i / 32u;
    return (({{ kept("word", "u32") }} >> (i % 32u)) & 1u) != 0u;
}
{% include "text/by_index.wgsl" %}
{% endif %}
