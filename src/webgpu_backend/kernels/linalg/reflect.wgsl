{% extends "linalg/each_column.wgsl" %}
{% block declarations %}

// x = H(first) .. H(last - 1) x, or in the other order, for H = 1 - tau v v^H; a thread has one column of x.
{% endblock %}
{% block body %}
    let o = p.a_o + b * p.a_b;
    let xo = p.x_o + b * p.x_b + (thread % p.columns) * p.x_c;
    for (var s = p.first; s < p.last; s = s + 1u) {
        let k = select(p.first + p.last - 1u - s, s, p.forwards != 0u);
        var along = x[xo + k * p.x_r];
        for (var i = k + 1u; i < p.m; i = i + 1u) {
            along = along + mul(cj(conj_if(a[o + i * p.a_r + k * p.a_c], p.conjugate)), x[xo + i * p.x_r]);
        }
        along = mul(conj_if(tau[b * p.count + k], p.conjugate_tau), along);
        x[xo + k * p.x_r] = x[xo + k * p.x_r] - along;
        for (var i = k + 1u; i < p.m; i = i + 1u) {
            x[xo + i * p.x_r] = x[xo + i * p.x_r] - mul(conj_if(a[o + i * p.a_r + k * p.a_c], p.conjugate), along);
        }
    }
{% endblock %}
