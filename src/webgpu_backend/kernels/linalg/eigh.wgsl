{% extends "linalg/sweeps.wgsl" %}
{% block comment %}
// Two-sided Jacobi for a Hermitian a whose largest element is 1: all rotations of a round, then rows, then columns.
{% endblock %}
{% block before %}
    let half = (p.n + 1u) / 2u;
    let ro = b * half * 4u;
{% endblock %}
{% block turn %}
            for (var pair = t; pair < half; pair = pair + TEAM) {
                let ij = pair_of(pair, turn);
                var r = vec2<f32>(0.0);  // no rotation
                var u = real(1.0);
                if (ij.y < p.n) {
                    let gamma = a[o + ij.x * p.a_r + ij.y * p.a_c];
                    let g = select(0.0, magnitude(gamma), !is_zero(gamma));
                    if (g > {{ 0.42 * ulp }}) {
                        atomicStore(&moved, 1u);
                        r = rotation(re(a[o + ij.x * (p.a_r + p.a_c)]), re(a[o + ij.y * (p.a_r + p.a_c)]), g);
                        u = cj(phase(gamma));
                    }
                }
                let at = ro + pair * 4u;
                rotations[at] = r.x;
                rotations[at + 1u] = r.y;
                rotations[at + 2u] = re(u);
                rotations[at + 3u] = im(u);
            }
            meet();
            for (var e = t; e < half * p.n; e = e + TEAM) {
                let at = ro + e / p.n * 4u;
                let r = vec2<f32>(rotations[at], rotations[at + 1u]);
                if (r.x != 0.0) {
                    let u = {{ "vec2<f32>(rotations[at + 2u], -rotations[at + 3u])" if complex else "rotations[at + 2u]" }};
                    let ij = pair_of(e / p.n, turn);
                    let k = e % p.n;
                    let xy = turned(a[o + ij.x * p.a_r + k * p.a_c], a[o + ij.y * p.a_r + k * p.a_c], r, u);
                    a[o + ij.x * p.a_r + k * p.a_c] = xy[0];
                    a[o + ij.y * p.a_r + k * p.a_c] = xy[1];
                }
            }
            meet();
            for (var e = t; e < half * p.n; e = e + TEAM) {
                let at = ro + e / p.n * 4u;
                let r = vec2<f32>(rotations[at], rotations[at + 1u]);
                if (r.x != 0.0) {
                    let u = {{ "vec2<f32>(rotations[at + 2u], rotations[at + 3u])" if complex else "rotations[at + 2u]" }};
                    let ij = pair_of(e / p.n, turn);
                    let k = e % p.n;
                    let xy = turned(a[o + k * p.a_r + ij.x * p.a_c], a[o + k * p.a_r + ij.y * p.a_c], r, u);
                    // What a rotation is for is exact: zero beside the diagonal, and no imaginary part on it.
                    a[o + k * p.a_r + ij.x * p.a_c] = select(select(xy[0], real(re(xy[0])), k == ij.x), real(0.0), k == ij.y);
                    a[o + k * p.a_r + ij.y * p.a_c] = select(select(xy[1], real(re(xy[1])), k == ij.y), real(0.0), k == ij.x);
                    let vo = p.v_o + b * p.v_b + k * p.v_r;
                    let vw = turned(v[vo + ij.x * p.v_c], v[vo + ij.y * p.v_c], r, u);
                    v[vo + ij.x * p.v_c] = vw[0];
                    v[vo + ij.y * p.v_c] = vw[1];
                }
            }
{% endblock %}
