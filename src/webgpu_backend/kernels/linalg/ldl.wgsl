{% extends "linalg/each_matrix.wgsl" %}
{% block declarations %}
{% include "linalg/team.wgsl" %}
var<workgroup> place: array<u32, TEAM>;
var<workgroup> chosen: vec3<u32>;  // the row that comes up, the size of the step, the column with the largest element

fn op(x: E) -> E { return conj_if(x, p.hermitian); }
fn diagonal_size(x: E) -> f32 { return select(size(x), abs(re(x)), p.hermitian != 0u); }

// The largest of `part` and where it is, first of equals first; the result is in part[0] and place[0].
fn largest(t: u32) {
{% include "linalg/largest.wgsl" %}
}

fn swap(i: u32, j: u32, conjugate: bool) {
    let x = a[i];
    let y = a[j];
    a[i] = select(y, op(y), conjugate);
    a[j] = select(x, op(x), conjugate);
}

// Bunch and Kaufman's factorisation of the lower triangle, as LAPACK's sytf2 and hetf2, from column state[b] to `last`.
{% endblock %}
{% block body %}
    let o = p.a_o + b * p.a_b;
    let n = p.n;
    if (t == 0u) {
        chosen = vec3<u32>(0u, state[b], 0u);
    }
    var k = workgroupUniformLoad(&chosen).y;
    while (k < p.last) {
        let column = o + k * p.a_c;
        part[t] = 0.0;
        place[t] = k;
        for (var i = k + 1u + t; i < n; i = i + TEAM) {
            let s = size(a[column + i * p.a_r]);
            if (s > part[t]) {
                part[t] = s;
                place[t] = i;
            }
        }
        largest(t);
        let colmax = part[0];
        let imax = place[0];
        workgroupBarrier();
        // The largest element beside the diagonal in row and column imax.
        part[t] = 0.0;
        place[t] = 0u;
        for (var j = k + t; j < n; j = j + TEAM) {
            if (j != imax) {
                let at = select(o + j * p.a_r + imax * p.a_c, o + imax * p.a_r + j * p.a_c, j < imax);
                part[t] = max(part[t], size(a[at]));
            }
        }
        largest(t);
        if (t == 0u) {
            let rowmax = part[0];
            let own = diagonal_size(a[column + k * p.a_r]);
            let alpha = 0.6403882032022076;
            var kp = k;
            var step = 1u;
            if (!(max(own, colmax) > 0.0)) {
                info[b] = select(info[b], i32(k) + 1, info[b] == 0);
                step = 0u;
            } else if (!(own >= alpha * colmax || own >= alpha * colmax * (colmax / rowmax))) {
                kp = imax;
                step = select(2u, 1u, diagonal_size(a[o + imax * (p.a_r + p.a_c)]) >= alpha * rowmax);
            }
            let sign = select(1, -1, step == 2u);
            pivots[b * n + k] = sign * (i32(kp) + 1);
            if (step == 2u) {
                pivots[b * n + k + 1u] = sign * (i32(kp) + 1);
            }
            chosen = vec3<u32>(kp, step, 0u);
        }
        let choice = workgroupUniformLoad(&chosen);
        if (choice.y == 0u) {
            k = k + 1u;
            continue;
        }
        let kp = choice.x;
        let step = choice.y;
        let kk = k + step - 1u;
        if (kp != kk) {
            for (var i = kp + 1u + t; i < n; i = i + TEAM) {
                swap(o + i * p.a_r + kk * p.a_c, o + i * p.a_r + kp * p.a_c, false);
            }
            for (var i = kk + 1u + t; i < kp; i = i + TEAM) {
                swap(o + i * p.a_r + kk * p.a_c, o + kp * p.a_r + i * p.a_c, true);
            }
            if (t == 0u) {
                swap(o + kk * (p.a_r + p.a_c), o + kp * (p.a_r + p.a_c), false);
                a[o + kp * p.a_r + kk * p.a_c] = op(a[o + kp * p.a_r + kk * p.a_c]);
                if (step == 2u) {
                    swap(column + (k + 1u) * p.a_r, column + kp * p.a_r, false);
                }
            }
        }
        if (t == 0u && p.hermitian != 0u) {
            a[column + k * p.a_r] = real(re(a[column + k * p.a_r]));
        }
        meet();
        let first = k + step;
        if (first < n) {
            let rows = n - first;
            let next = column + p.a_c;
            let d21 = a[column + (k + 1u) * p.a_r];
            let d11 = a[next + (k + 1u) * p.a_r];
            let d22 = a[column + k * p.a_r];
            // 1 / (d11 d22 - d21 op(d21)), with the rows' weights in one solve of the 2 by 2 block.
            let ratio = over(d11, d21);
            let other = over(d22, op(d21));
            let scale = over(real(1.0), mul(ratio, other) - real(1.0));
            for (var e = t; e < rows * rows; e = e + TEAM) {
                let i = first + e % rows;
                let j = first + e / rows;
                if (i >= j) {
                    let at = o + i * p.a_r + j * p.a_c;
                    let xj = a[column + j * p.a_r];
                    if (step == 1u) {
                        a[at] = a[at] - mul(a[column + i * p.a_r], op(over(xj, d22)));
                    } else {
                        let yj = a[next + j * p.a_r];
                        let u = mul(scale, over(mul(ratio, xj) - yj, op(d21)));
                        let v = mul(scale, over(mul(other, yj) - xj, d21));
                        a[at] = a[at] - mul(a[column + i * p.a_r], op(u)) - mul(a[next + i * p.a_r], op(v));
                    }
                    if (i == j && p.hermitian != 0u) {
                        a[at] = real(re(a[at]));
                    }
                }
            }
            meet();
            for (var j = first + t; j < n; j = j + TEAM) {
                let xj = a[column + j * p.a_r];
                if (step == 1u) {
                    a[column + j * p.a_r] = over(xj, d22);
                } else {
                    let yj = a[next + j * p.a_r];
                    a[column + j * p.a_r] = mul(scale, over(mul(ratio, xj) - yj, op(d21)));
                    a[next + j * p.a_r] = mul(scale, over(mul(other, yj) - xj, d21));
                }
            }
        }
        meet();
        k = k + step;
    }
    if (t == 0u) {
        state[b] = k;
    }
{% endblock %}
