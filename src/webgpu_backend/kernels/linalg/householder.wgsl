{% extends "linalg/each_matrix.wgsl" %}
{% block declarations %}
{% include "linalg/team.wgsl" %}

// Columns first..last of a Householder QR in place, with LAPACK's signs: R above the diagonal, the vectors below it.
{% endblock %}
{% block body %}
    let o = p.a_o + b * p.a_b;
    for (var k = p.first; k < p.last; k = k + 1u) {
        // In units of the column's largest element, as far as its reciprocal is a normal number: squares of very large or
        // small ones leave the range of floats.
        var high = 0.0;
        for (var i = k + t; i < p.m; i = i + TEAM) {
            high = max(high, size(a[o + i * p.a_r + k * p.a_c]));
        }
        let top = clamp(team_max(t, high), {{ least }}, {{ 1 / least }});
        let unit = 1.0 / top;
        var sum = 0.0;
        for (var i = k + 1u + t; i < p.m; i = i + TEAM) {
            sum = sum + square(a[o + i * p.a_r + k * p.a_c] * unit);
        }
        let below = team_sum(t, sum);
        let diagonal = o + k * (p.a_r + p.a_c);
        let alpha = a[diagonal] * unit;
        var beta = re(a[diagonal]);
        meet();
        var factor = real(0.0);
        if (!(below == 0.0 && im(alpha) == 0.0)) {
            let norm = sqrt(square(alpha) + below);
            let signed_norm = select(norm, -norm, re(alpha) >= 0.0);
            let scale = over(real(1.0), alpha - real(signed_norm));
            beta = top * signed_norm;
            factor = (real(signed_norm) - alpha) / signed_norm;
            for (var i = k + 1u + t; i < p.m; i = i + TEAM) {
                let at = o + i * p.a_r + k * p.a_c;
                a[at] = mul(a[at] * unit, scale);
            }
        }
        if (t == 0u) {
            a[diagonal] = real(beta);
            tau[b * p.count + k] = factor;
        }
        meet();
        for (var j = k + 1u + t; j < p.n; j = j + TEAM) {
            let top = o + k * p.a_r + j * p.a_c;
            var along = a[top];
            for (var i = k + 1u; i < p.m; i = i + 1u) {
                along = along + mul(cj(a[o + i * p.a_r + k * p.a_c]), a[o + i * p.a_r + j * p.a_c]);
            }
            along = mul(cj(factor), along);
            a[top] = a[top] - along;
            for (var i = k + 1u; i < p.m; i = i + 1u) {
                let at = o + i * p.a_r + j * p.a_c;
                a[at] = a[at] - mul(a[o + i * p.a_r + k * p.a_c], along);
            }
        }
        meet();
    }
{% endblock %}
