{% include "text/interface.wgsl" %}

// What sorted pairs stand for. Output element i is (outer, j, inner) of {{ "(outer, p.count, inner)" }}.
fn index_at(row: u32, j: u32) -> u32 {
    return b_pairs[(row * p.stride + j) * {{ 2 * words }}u + {{ words }}u];
}
{% if kind in ("median", "nanmedian") %}

fn is_last(row: u32, j: u32) -> bool {
    let at = (row * p.stride + j) * {{ 2 * words }}u;
    return b_pairs[at] == 0xffffffffu{{ " && b_pairs[at + 1u] == 0xffffffffu" if words == 2 }};
}

// The first NaN of a sorted row, or its length.
fn first_nan(row: u32) -> u32 {
    var low = 0u;
    var high = p.length;
    while (low < high) {
        let mid = (low + high) / 2u;
        if (is_last(row, mid)) {
            high = mid;
        } else {
            low = mid + 1u;
        }
    }
    return low;
}
{% endif %}

fn at(i: u32) -> R {
    let inner = i % p.inner;
    let rest = i / p.inner;
    let outer = rest / p.count;
    let row = outer * p.inner + inner;
{% if kind == "median" %}
    let nan = {{ "first_nan(row)" if floating else "p.length" }};
    let j = select(nan, (p.length - 1u) / 2u, nan == p.length);
{% elif kind == "nanmedian" %}
    let nan = {{ "first_nan(row)" if floating else "p.length" }};
    let j = select((max(nan, 1u) - 1u) / 2u, 0u, nan == 0u);
{% else %}
    let j = rest % p.count + p.first;
{% endif %}
    let k = index_at(row, j);
    let q = (outer * p.length + k) * p.inner + inner;
    return R({{ a("q") }}, {{ index("k", index_dtype) }});
}
{% include "text/by_index.wgsl" %}
