{% include "text/interface.wgsl" %}

{{ functions }}
{% if kind == "searchsorted" %}
// The first position of the row whose boundary is {{ "above" if right else "not below" }} the value; NaN goes to the end.
fn at(i: u32) -> {{ result }} {
    let x = {{ a("i") }};
    let base = select(0u, (i / p.values) * p.length, p.rows != 0u);
    var low = 0u;
    var high = p.length;
    while (low < high) {
        let mid = (low + high) / 2u;
{% if sorter %}
        let j = base + u32({{ s("base + mid", "u32") }});
{% else %}
        let j = base + mid;
{% endif %}
        if (reached({{ b("j") }}, x)) {
            high = mid;
        } else {
            low = mid + 1u;
        }
    }
    return {{ index("low", index_dtype) }};
}
{% elif kind == "differs" %}
// One where a value differs from the one before it.
fn at(i: u32) -> i32 {
    if (i == 0u) {
        return 1;
    }
    let j = i - 1u;
    return select(0, 1, unlike({{ a("i") }}, {{ a("j") }}));
}
{% elif kind in ("boundaries", "runs") %}
fn same(row: u32, i: u32, j: u32) -> bool {
    let x = (row * p.length + i) * {{ 2 * words }}u;
    let y = (row * p.length + j) * {{ 2 * words }}u;
{% if words == 2 %}
    let equal = b_pairs[x] == b_pairs[y] && b_pairs[x + 1u] == b_pairs[y + 1u];
    let nan = b_pairs[x] == 0xffffffffu && b_pairs[x + 1u] == 0xffffffffu;
{% else %}
    let equal = b_pairs[x] == b_pairs[y];
    let nan = b_pairs[x] == 0xffffffffu;
{% endif %}
    return equal{{ " && !nan" if floating }};
}
{% if kind == "boundaries" %}

// As differs, of sorted pairs: equal keys are equal values, but no NaN equals another.
fn at(i: u32) -> i32 {
    return select(1, 0, i > 0u && same(0u, i, max(i, 1u) - 1u));
}
{% else %}

// At the end of a run of equal values in a sorted row, the run's length; zero elsewhere.
fn at(i: u32) -> i32 {
    let row = i / p.length;
    let j = i % p.length;
    if (j + 1u < p.length && same(row, j, j + 1u)) {
        return 0;
    }
    var low = 0u;
    var high = j;
    while (low < high) {
        let mid = (low + high) / 2u;
        if (same(row, mid, j)) {
            high = mid;
        } else {
            low = mid + 1u;
        }
    }
    return i32(j - low + 1u);
}
{% endif %}
{% elif kind == "groups" %}
// The first element of group i, and how many elements the group has; a holds each element's group, from one.
fn find(group: u32) -> u32 {
    var low = 0u;
    var high = p.length;
    while (low < high) {
        let mid = (low + high) / 2u;
        if (u32({{ a("mid") }}) >= group) {
            high = mid;
        } else {
            low = mid + 1u;
        }
    }
    return low;
}

fn at(i: u32) -> R {
    let first = find(i + 1u);
    let count = find(i + 2u) - first;
    return R({{ index("first", index_dtype) }}, {{ index("count", index_dtype) }});
}
{% endif %}
{% include "text/by_index.wgsl" %}
