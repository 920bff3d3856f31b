{% extends "linalg/each_matrix.wgsl" %}
{% set pitch = width + 1 %}
{% set threads = workgroup * 2 // width %}
{% block declarations %}
{% include "linalg/jacobi.wgsl" %}
const TEAM = {{ workgroup }}u;
var<workgroup> near: array<E, {{ width * pitch }}>;
{% if name == "svd_near" %}
var<workgroup> basis: array<E, {{ width * pitch }}>;
{% endif %}
var<workgroup> parts: array<vec4<f32>, {{ workgroup }}>;

// As svd, of up to {{ width }} rows and columns, all in workgroup memory, column by column. {{ threads }} threads have a pair of columns.
{% endblock %}
{% block body %}
    for (var e = t; e < p.n * p.n; e += TEAM) {
        let i = e / p.n;
        let j = e % p.n;
        near[j * {{ pitch }}u + i] = a[p.a_o + b * p.a_b + i * p.a_r + j * p.a_c];
{% if name == "svd_near" %}
        basis[j * {{ pitch }}u + i] = real(select(0.0, 1.0, i == j));
{% endif %}
    }
    if (t == 0u) {
        atomicStore(&moved, 0u);
    }
    workgroupBarrier();
    let half = (p.n + 1u) / 2u;
    let own = t % {{ threads }}u;
    let pair = t / {{ threads }}u;
    for (var sweep = 0u; sweep < p.sweeps; sweep++) {
        for (var turn = 0u; turn + 1u < 2u * half; turn++) {
            let ij = pair_of(min(pair, half - 1u), turn);
            let live = pair < half && ij.y < p.n;
            let left = ij.x * {{ pitch }}u;
            let right = min(ij.y, p.n - 1u) * {{ pitch }}u;
            var part = vec4<f32>(0.0);
            if (live) {
                for (var k = own; k < p.n; k += {{ threads }}u) {
                    let x = near[left + k];
                    let y = near[right + k];
                    let g = mul(cj(x), y);
                    part += vec4<f32>(square(x), square(y), re(g), im(g));
                }
            }
            parts[t] = part;
            workgroupBarrier();
            if (live) {
                var sum = parts[t - own];
{% for s in range(1, threads) %}
                sum += parts[t - own + {{ s }}u];
{% endfor %}
                let gamma = {{ "sum.zw" if complex else "sum.z" }};
                let g = select(0.0, magnitude(gamma), !is_zero(gamma));
                // Two roots: the product of two squares may underflow.
                if (g > {{ ulp }} * sqrt(f32(p.n)) * sqrt(sum.x) * sqrt(sum.y) && g > {{ 100 * least }}) {
                    atomicStore(&moved, 1u);
                    let r = rotation(sum.x, sum.y, g);
                    let u = cj(phase(gamma));
                    for (var k = own; k < p.n; k += {{ threads }}u) {
                        let xy = turned(near[left + k], near[right + k], r, u);
                        near[left + k] = xy[0];
                        near[right + k] = xy[1];
{% if name == "svd_near" %}
                        let vw = turned(basis[left + k], basis[right + k], r, u);
                        basis[left + k] = vw[0];
                        basis[right + k] = vw[1];
{% endif %}
                    }
                }
            }
            workgroupBarrier();
        }
{% include "linalg/settled.wgsl" %}
    }
    for (var e = t; e < p.n * p.n; e += TEAM) {
        let i = e / p.n;
        let j = e % p.n;
        a[p.a_o + b * p.a_b + i * p.a_r + j * p.a_c] = near[j * {{ pitch }}u + i];
{% if name == "svd_near" %}
        v[p.v_o + b * p.v_b + i * p.v_r + j * p.v_c] = basis[j * {{ pitch }}u + i];
{% endif %}
    }
{% endblock %}
