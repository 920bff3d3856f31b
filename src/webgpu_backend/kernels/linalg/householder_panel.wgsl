{% extends "linalg/each_matrix.wgsl" %}
{% set slices = workgroup // width %}
{% block declarations %}
const W = {{ width }}u;
const SLICES = {{ slices }}u;
var<workgroup> dots: array<E, {{ workgroup }}>;
var<workgroup> sums: array<f32, {{ slices }}>;
var<workgroup> highs: array<f32, {{ slices }}>;

// {{ width }} columns of a Householder QR in place, with LAPACK's signs: R above the diagonal, the vectors below it. Rows of the panel
// are copied to `rows`, where neighbouring threads have neighbouring columns of one; each slice of threads has every {{ slices }}th row.
{% endblock %}
{% block body %}
    let o = p.a_o + b * p.a_b + p.first * (p.a_r + p.a_c);
    let r = b * p.m * W;
    let j = t % W;
    let slice = t / W;
    for (var e = t; e < p.m * p.n; e += {{ workgroup }}u) {
        rows[r + e % p.m * W + e / p.m] = a[o + e % p.m * p.a_r + e / p.m * p.a_c];
    }
    storageBarrier();
    workgroupBarrier();
    var high = 0.0;
    for (var i = slice; i < p.m; i += SLICES) {
        high = max(high, size(rows[r + i * W]));
    }
    for (var k = 0u; k < p.n; k++) {
        // In units of the column's largest element, as far as its reciprocal is a normal number: squares of very large or
        // small ones leave the range of floats.
        if (j == k) { highs[slice] = high; }
        workgroupBarrier();
        var top = highs[0];
{% for s in range(1, slices) %}
        top = max(top, highs[{{ s }}]);
{% endfor %}
        top = clamp(top, {{ least }}, {{ 1 / least }});
        let unit = 1.0 / top;
        // What lies below the diagonal: the column's own square, and its product with the others.
        var dot = E(0.0);
        var sum = 0.0;
        for (var i = k + 1u + (slice + SLICES - (k + 1u) % SLICES) % SLICES; i < p.m; i += SLICES) {
            let x = rows[r + i * W + k] * unit;
            sum += square(x);
            dot += mul(cj(x), rows[r + i * W + min(j, p.n - 1u)]);
        }
        dots[t] = dot;
        if (j == k) { sums[slice] = sum; }
        workgroupBarrier();
        var below = sums[0];
        dot = dots[j];
{% for s in range(1, slices) %}
        below += sums[{{ s }}];
        dot += dots[{{ s * width }}u + j];
{% endfor %}
        let diagonal = rows[r + k * W + k];
        let alpha = diagonal * unit;
        var beta = re(diagonal);
        var factor = real(0.0);
        var scale = real(0.0);
        if (!(below == 0.0 && im(alpha) == 0.0)) {
            let norm = sqrt(square(alpha) + below);
            let signed_norm = select(norm, -norm, re(alpha) >= 0.0);
            scale = over(real(1.0), alpha - real(signed_norm));
            beta = top * signed_norm;
            factor = (real(signed_norm) - alpha) / signed_norm;
        }
        let own = rows[r + k * W + min(j, p.n - 1u)];
        let along = mul(cj(factor), own + mul(cj(scale), dot));
        if (slice == 0u && j >= k && j < p.n) {
            a[o + k * p.a_r + j * p.a_c] = select(own - along, real(beta), j == k);
            if (j == k) { tau[b * p.count + p.first + k] = factor; }
        }
        high = 0.0;
        for (var i = k + 1u + (slice + SLICES - (k + 1u) % SLICES) % SLICES; i < p.m; i += SLICES) {
            let v = mul(rows[r + i * W + k] * unit, scale);
            if (j == k) {
                a[o + i * p.a_r + k * p.a_c] = v;
            } else if (j > k && j < p.n) {
                let x = rows[r + i * W + j] - mul(v, along);
                rows[r + i * W + j] = x;
                high = max(high, size(x));
            }
        }
        storageBarrier();
        workgroupBarrier();
    }
{% endblock %}
