{% extends "linalg/each_matrix.wgsl" %}
{% block declarations %}
{% include "linalg/team.wgsl" %}
var<workgroup> pivot: f32;
const SIDE = {{ side }}u;

// a = L L^H in the lower triangle, column by column; nothing above the diagonal is read or written.
{% endblock %}
{% block body %}
    let o = p.a_o + b * p.a_b;
    let down = t % SIDE;
    let across = t / SIDE;
    for (var k = 0u; k < p.n; k = k + 1u) {
        if (t == 0u) {
            let d = re(a[o + k * p.a_r + k * p.a_c]);
            let good = d > 0.0 && info[b] == 0;
            pivot = select(0.0, sqrt(d), good);
            if (!good && info[b] == 0) {
                info[b] = i32(p.first + k) + 1;
            }
        }
        let root = workgroupUniformLoad(&pivot);
        if (root == 0.0) {
            break;
        }
        if (t == 0u) {
            a[o + k * p.a_r + k * p.a_c] = real(root);
        }
        for (var i = k + 1u + t; i < p.n; i = i + TEAM) {
            a[o + i * p.a_r + k * p.a_c] = a[o + i * p.a_r + k * p.a_c] / root;
        }
        meet();
        for (var j = k + 1u + across; j < p.n; j = j + TEAM / SIDE) {
            let other = cj(a[o + j * p.a_r + k * p.a_c]);
            for (var i = k + 1u + down; i < p.n; i = i + SIDE) {
                if (i >= j) {
                    a[o + i * p.a_r + j * p.a_c] = a[o + i * p.a_r + j * p.a_c] - mul(a[o + i * p.a_r + k * p.a_c], other);
                }
            }
        }
        meet();
    }
{% endblock %}
