{% extends "linalg/each_matrix.wgsl" %}
{% block declarations %}
{% include "linalg/team.wgsl" %}
var<workgroup> place: array<u32, TEAM>;
var<workgroup> chosen: u32;

// a = P L U in place with partial pivoting; rows are swapped within these columns only.
{% endblock %}
{% block body %}
    let o = p.a_o + b * p.a_b;
    // Threads along the rows, as many as there are; the others take other columns.
    var side = TEAM;
    while (side / 2u >= p.m) {
        side /= 2u;
    }
    let down = t % side;
    let across = t / side;
    for (var k = 0u; k < min(p.m, p.n); k = k + 1u) {
        if (p.pivot != 0u) {
            var best = -1.0;
            var row = k;
            for (var i = k + t; i < p.m; i = i + TEAM) {
                let s = size(a[o + i * p.a_r + k * p.a_c]);
                if (s > best) {
                    best = s;
                    row = i;
                }
            }
            part[t] = best;
            place[t] = row;
{% include "linalg/largest.wgsl" %}
            if (t == 0u) {
                chosen = place[0];
            }
        } else if (t == 0u) {
            chosen = k;
        }
        let row = workgroupUniformLoad(&chosen);
        if (t == 0u) {
            pivots[b * p.count + p.first + k] = i32(p.first + row) + 1;
        }
        if (row != k) {
            for (var j = t; j < p.n; j = j + TEAM) {
                let x = a[o + k * p.a_r + j * p.a_c];
                a[o + k * p.a_r + j * p.a_c] = a[o + row * p.a_r + j * p.a_c];
                a[o + row * p.a_r + j * p.a_c] = x;
            }
        }
        meet();
        let d = a[o + k * (p.a_r + p.a_c)];
        let solvable = !is_zero(d);
        if (!solvable && t == 0u && info[b] == 0) {
            info[b] = i32(p.first + k) + 1;
        }
        for (var i = k + 1u + down; i < p.m; i = i + side) {
            let at = o + i * p.a_r;
            var factor = a[at + k * p.a_c];
            if (solvable) {
                factor = over(factor, d);
            }
            for (var j = k + 1u + across; j < p.n; j = j + TEAM / side) {
                a[at + j * p.a_c] = a[at + j * p.a_c] - mul(factor, a[o + k * p.a_r + j * p.a_c]);
            }
        }
        meet();
        for (var i = k + 1u + t; i < p.m; i = i + TEAM) {
            let at = o + i * p.a_r + k * p.a_c;
            if (solvable) {
                a[at] = over(a[at], d);
            }
        }
        meet();
    }
{% endblock %}
