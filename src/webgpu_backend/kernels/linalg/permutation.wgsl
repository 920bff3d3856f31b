{% extends "linalg/each_matrix.wgsl" %}
{% block declarations %}
var<workgroup> rows: array<u32, {{ width }}>;
var<workgroup> other: array<u32, {{ width }}>;

// Row exchanges of an LU factorisation, in order or backwards, as what they make of the rows' numbers.
{% endblock %}
{% block body %}
    for (var i = t; i < p.rows; i += {{ workgroup }}u) {
        rows[i] = i;
        // A pivot that is no row cannot be raised from here: it must not lead outside of the matrix.
        if (i < p.count) { other[i] = min(u32(pivots[b * p.count + i] - 1), p.rows - 1u); }
    }
    workgroupBarrier();
    if (t == 0u) {
        for (var s = 0u; s < p.count; s++) {
            let k = select(s, p.count - 1u - s, p.backwards != 0u);
            let x = rows[k];
            rows[k] = rows[other[k]];
            rows[other[k]] = x;
        }
    }
    workgroupBarrier();
    for (var i = t; i < p.rows; i += {{ workgroup }}u) {
        numbers[b * p.rows + i] = vec2<u32>(rows[i], 0u);
    }
{% endblock %}
