{% extends "linalg/sweeps.wgsl" %}
{% block comment %}
// One-sided Jacobi: the columns of a become orthogonal, v collects the rotations. A thread has a pair of columns.
{% endblock %}
{% block turn %}
            for (var pair = t; pair < (p.n + 1u) / 2u; pair = pair + TEAM) {
                let ij = pair_of(pair, turn);
                if (ij.y < p.n) {
                    let left = o + ij.x * p.a_c;
                    let right = o + ij.y * p.a_c;
                    var alpha = 0.0;
                    var beta = 0.0;
                    var gamma = real(0.0);
                    for (var k = 0u; k < p.m; k = k + 1u) {
                        let x = a[left + k * p.a_r];
                        let y = a[right + k * p.a_r];
                        alpha = alpha + square(x);
                        beta = beta + square(y);
                        gamma = gamma + mul(cj(x), y);
                    }
                    let g = select(0.0, magnitude(gamma), !is_zero(gamma));
                    // Two roots: the product of two squares may underflow.
                    if (g > {{ ulp }} * sqrt(f32(p.m)) * sqrt(alpha) * sqrt(beta) && g > {{ 100 * least }}) {
                        atomicStore(&moved, 1u);
                        let r = rotation(alpha, beta, g);
                        let u = cj(phase(gamma));
                        for (var k = 0u; k < p.m; k = k + 1u) {
                            let xy = turned(a[left + k * p.a_r], a[right + k * p.a_r], r, u);
                            a[left + k * p.a_r] = xy[0];
                            a[right + k * p.a_r] = xy[1];
                        }
{% if name == "svd" %}
                        let vl = p.v_o + b * p.v_b + ij.x * p.v_c;
                        let vr = p.v_o + b * p.v_b + ij.y * p.v_c;
                        for (var k = 0u; k < p.n; k = k + 1u) {
                            let xy = turned(v[vl + k * p.v_r], v[vr + k * p.v_r], r, u);
                            v[vl + k * p.v_r] = xy[0];
                            v[vr + k * p.v_r] = xy[1];
                        }
{% endif %}
                    }
                }
            }
{% endblock %}
