// An element on its way: its key in u32 words that order as the values do, then its index. Indices break ties, so the
// order is total and every network of exchanges is stable.
{% if words == 1 %}
alias E = vec2<u32>;

fn less(a: E, b: E) -> bool {
    return a.x < b.x || (a.x == b.x && a.y < b.y);
}

fn last() -> E {
    return E(0xffffffffu);
}
{% else %}
alias E = vec4<u32>;

fn less(a: E, b: E) -> bool {
    if (a.x != b.x) {
        return a.x < b.x;
    }
    return a.y < b.y || (a.y == b.y && a.z < b.z);
}

fn last() -> E {
    return E(0xffffffffu);
}
{% endif %}
{% if source %}

{% if key == "f32" %}
// NaN is one key above infinity; both zeros are one key.
fn key_of(x: f32) -> u32 {
    let u = bitcast<u32>(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
        return 0xffffffffu;
    }
    if ((u & 0x7fffffffu) == 0u) {
        return 0x80000000u;
    }
    return select(u | 0x80000000u, ~u, (u >> 31u) != 0u);
}
{% elif key == "f64" %}
fn key_of(lo: u32, hi: u32) -> vec2<u32> {
    let m = hi & 0x7fffffffu;
    if (m > 0x7ff00000u || (m == 0x7ff00000u && lo != 0u)) {
        return vec2<u32>(0xffffffffu);
    }
    if (m == 0u && lo == 0u) {
        return vec2<u32>(0x80000000u, 0u);
    }
    if ((hi >> 31u) != 0u) {
        return vec2<u32>(~hi, ~lo);
    }
    return vec2<u32>(hi | 0x80000000u, lo);
}
{% endif %}

fn element(outer: u32, j: u32, inner: u32) -> E {
    let i = (outer * p.length + j) * p.inner + inner;
{% if key == "f32" %}
    return E(key_of({{ a("i") }}) ^ p.flip, j);
{% elif key == "i32" %}
    return E((bitcast<u32>({{ a("i") }}) ^ 0x80000000u) ^ p.flip, j);
{% elif key in ("u32", "bool") %}
    return E(u32({{ a("i") }}) ^ p.flip, j);
{% else %}
{% if caps.i64 %}
    let x = u64({{ a("i") }});
    let lo = u32(x & 0xfffffffflu);
    let hi = u32(x >> 32u);
{% else %}
    let x = {{ a("i") }};
    let lo = x.x;
    let hi = x.y;
{% endif %}
{% if key == "f64" %}
    let k = key_of(lo, hi) ^ vec2<u32>(p.flip);
{% else %}
    let k = vec2<u32>(hi{{ " ^ 0x80000000u" if key == "i64" }}, lo) ^ vec2<u32>(p.flip);
{% endif %}
    return E(k, j, 0u);
{% endif %}
}
{% endif %}
{% if kind != "merge" %}

fn fetch(row: u32, j: u32) -> E {
    if (j >= p.length) {
        return last();
    }
{% if source %}
    return element(row / p.inner, j, row % p.inner);
{% else %}
    return b_pairs[row * p.length + j];
{% endif %}
}
{% endif %}
