{% extends "linalg/each_matrix.wgsl" %}
{% set pitch = width + 1 %}
{% block declarations %}
{% include "linalg/jacobi.wgsl" %}
const TEAM = {{ workgroup }}u;
var<workgroup> near: array<E, {{ width * pitch }}>;
var<workgroup> basis: array<E, {{ width * pitch }}>;
var<workgroup> rotations: array<vec4<f32>, {{ width // 2 }}>;

// As eigh, of up to {{ width }} rows, all in workgroup memory. A thread turns the rows and the columns of a block of four elements
// at once: where two pairs cross.
{% if name == "gram_block" %}
// Products of columns that are to become orthogonal, `each` of them of one matrix: what is small is so beside the `norm` of
// the longest of its columns. `state` says whether there was anything to do.
{% endif %}
{% endblock %}
{% block body %}
    let half = (p.n + 1u) / 2u;
    for (var e = t; e < p.n * p.n; e += TEAM) {
        let i = e / p.n;
        let j = e % p.n;
        near[i * {{ pitch }}u + j] = a[p.a_o + b * p.a_b + i * p.a_r + j * p.a_c];
        basis[i * {{ pitch }}u + j] = real(select(0.0, 1.0, i == j));
    }
    if (t == 0u) {
        atomicStore(&moved, 0u);
    }
    workgroupBarrier();
    for (var sweep = 0u; sweep < p.sweeps; sweep++) {
        for (var turn = 0u; turn + 1u < 2u * half; turn++) {
            for (var pair = t; pair < half; pair += TEAM) {
                let ij = pair_of(pair, turn);
                var r = vec2<f32>(0.0);  // no rotation
                var u = real(1.0);
                if (ij.y < p.n) {
                    let gamma = near[ij.x * {{ pitch }}u + ij.y];
                    let g = select(0.0, magnitude(gamma), !is_zero(gamma));
{% if name == "gram_block" %}
                    let larger = max(re(near[ij.x * {{ pitch + 1 }}u]), re(near[ij.y * {{ pitch + 1 }}u]));
                    if (g > {{ 4 * ulp }} * sqrt(larger) * norm[b / p.each] && g > {{ 100 * least }}) {
{% else %}
                    if (g > {{ 0.42 * ulp }}) {
{% endif %}
                        atomicStore(&moved, 1u);
                        r = rotation(re(near[ij.x * {{ pitch + 1 }}u]), re(near[ij.y * {{ pitch + 1 }}u]), g);
                        u = cj(phase(gamma));
                    }
                }
                rotations[pair] = vec4<f32>(r, re(u), im(u));
            }
            workgroupBarrier();
            for (var e = t; e < half * half; e += TEAM) {
                let above = rotations[e / half];
                let beside = rotations[e % half];
                if (above.x != 0.0 || beside.x != 0.0) {
                    let i = pair_of(e / half, turn);
                    let j = pair_of(e % half, turn);
                    let below = i.y < p.n;
                    let right = j.y < p.n;
                    let low = min(i.y, p.n - 1u) * {{ pitch }}u;
                    let top = i.x * {{ pitch }}u;
                    let far = min(j.y, p.n - 1u);
                    let u = {{ "vec2<f32>(above.z, -above.w)" if complex else "above.z" }};
                    let w = {{ "beside.zw" if complex else "beside.z" }};
                    var left = array<E, 2>(near[top + j.x], near[low + j.x]);
                    var rest = array<E, 2>(near[top + far], near[low + far]);
                    if (above.x != 0.0) {
                        left = turned(left[0], left[1], above.xy, u);
                        rest = turned(rest[0], rest[1], above.xy, u);
                    }
                    var first = array<E, 2>(left[0], rest[0]);
                    var second = array<E, 2>(left[1], rest[1]);
                    if (beside.x != 0.0) {
                        first = turned(left[0], rest[0], beside.xy, w);
                        second = turned(left[1], rest[1], beside.xy, w);
                    }
                    // What a rotation is for is exact: zero beside the diagonal, and no imaginary part on it.
                    let own = i.x == j.x;
                    near[top + j.x] = select(first[0], real(re(first[0])), own);
                    if (right) { near[top + far] = select(first[1], real(0.0), own); }
                    if (below) { near[low + j.x] = select(second[0], real(0.0), own); }
                    if (below && right) { near[low + far] = select(second[1], real(re(second[1])), own); }
                }
            }
            for (var e = t; e < half * p.n; e += TEAM) {
                let r = rotations[e % half];
                if (r.x != 0.0) {
                    let ij = pair_of(e % half, turn);
                    let at = e / half * {{ pitch }}u;
                    let xy = turned(basis[at + ij.x], basis[at + ij.y], r.xy, {{ "r.zw" if complex else "r.z" }});
                    basis[at + ij.x] = xy[0];
                    basis[at + ij.y] = xy[1];
                }
            }
            workgroupBarrier();
        }
{% if name == "gram_block" %}
        if (sweep == 0u && t == 0u && atomicLoad(&moved) != 0u) {
            atomicStore(&state[b / p.each], 1u);
        }
{% endif %}
{% include "linalg/settled.wgsl" %}
    }
    for (var e = t; e < p.n * p.n; e += TEAM) {
        v[p.v_o + b * p.v_b + e / p.n * p.v_r + e % p.n * p.v_c] = basis[e / p.n * {{ pitch }}u + e % p.n];
    }
{% endblock %}
