{% extends "linalg/each_column.wgsl" %}
{% block declarations %}

// Row exchanges first..last of an LU factorisation, in that order or backwards; a thread has one column.
{% endblock %}
{% block body %}
    let o = p.a_o + b * p.a_b + (thread % p.columns) * p.a_c;
    for (var s = p.first; s < p.last; s = s + 1u) {
        let k = select(s, p.first + p.last - 1u - s, p.backwards != 0u);
        // A pivot that is no row cannot be raised from here: it must not lead outside of the matrix.
        let row = min(u32(pivots[b * p.count + k] - 1), p.rows - 1u);
        let x = a[o + k * p.a_r];
        a[o + k * p.a_r] = a[o + row * p.a_r];
        a[o + row * p.a_r] = x;
    }
{% endblock %}
