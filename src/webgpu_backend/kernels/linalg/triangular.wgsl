{% extends "linalg/each_column.wgsl" %}
{% block declarations %}

// x = a^-1 x for a triangular a; a thread has one column of x.
{% endblock %}
{% block body %}
    let o = p.a_o + b * p.a_b;
    let xo = p.x_o + b * p.x_b + (thread % p.columns) * p.x_c;
    for (var s = 0u; s < p.n; s = s + 1u) {
        let i = select(s, p.n - 1u - s, p.upper != 0u);
        var value = x[xo + i * p.x_r];
        for (var q = 0u; q < s; q = q + 1u) {
            let j = select(q, p.n - 1u - q, p.upper != 0u);
            value = value - mul(conj_if(a[o + i * p.a_r + j * p.a_c], p.conjugate), x[xo + j * p.x_r]);
        }
        if (p.unit == 0u) {
            value = over(value, conj_if(a[o + i * (p.a_r + p.a_c)], p.conjugate));
        }
        x[xo + i * p.x_r] = value;
    }
{% endblock %}
