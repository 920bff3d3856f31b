{% extends "linalg/each_column.wgsl" %}
{% block declarations %}

fn op(x: E) -> E { return conj_if(x, p.hermitian); }

fn row_of(pivot: i32) -> u32 {
    // A pivot that is no row cannot be raised from here: it must not lead outside of the matrix.
    return min(u32(abs(pivot)) - 1u, p.n - 1u);
}

fn swap(i: u32, j: u32) {
    let t = x[i];
    x[i] = x[j];
    x[j] = t;
}

// x = (L D op(L)^T)^-1 x with the factors of ldl, as LAPACK's sytrs and hetrs; a thread has one column of x.
{% endblock %}
{% block body %}
    let n = p.n;
    let o = p.a_o + b * p.a_b;
    let xo = p.x_o + b * p.x_b + (thread % p.columns) * p.x_c;
    let po = b * n;
    var k = 0u;
    while (k < n) {
        let pivot = pivots[po + k];
        let pair = pivot < 0 && k + 1u < n;
        let kk = select(k, k + 1u, pair);
        swap(xo + kk * p.x_r, xo + row_of(pivot) * p.x_r);
        let xk = x[xo + k * p.x_r];
        let xl = x[xo + kk * p.x_r];
        for (var i = kk + 1u; i < n; i = i + 1u) {
            var value = x[xo + i * p.x_r] - mul(a[o + i * p.a_r + k * p.a_c], xk);
            if (pair) {
                value = value - mul(a[o + i * p.a_r + kk * p.a_c], xl);
            }
            x[xo + i * p.x_r] = value;
        }
        let d22 = a[o + k * (p.a_r + p.a_c)];
        if (pair) {
            let d21 = a[o + kk * p.a_r + k * p.a_c];
            let other = over(d22, op(d21));
            let ratio = over(a[o + kk * (p.a_r + p.a_c)], d21);
            let scale = mul(other, ratio) - real(1.0);
            let left = over(xk, op(d21));
            let right = over(xl, d21);
            x[xo + k * p.x_r] = over(mul(ratio, left) - right, scale);
            x[xo + kk * p.x_r] = over(mul(other, right) - left, scale);
        } else {
            x[xo + k * p.x_r] = over(xk, d22);
        }
        k = kk + 1u;
    }
    var left = n;
    while (left > 0u) {
        let last = left - 1u;
        let pivot = pivots[po + last];
        let pair = pivot < 0 && last > 0u;
        let start = select(last, last - 1u, pair);
        for (var j = start; j <= last; j = j + 1u) {
            var value = x[xo + j * p.x_r];
            for (var i = last + 1u; i < n; i = i + 1u) {
                value = value - mul(op(a[o + i * p.a_r + j * p.a_c]), x[xo + i * p.x_r]);
            }
            x[xo + j * p.x_r] = value;
        }
        swap(xo + last * p.x_r, xo + row_of(pivot) * p.x_r);
        left = start;
    }
{% endblock %}
