{% extends "linalg/each_matrix.wgsl" %}
{% block declarations %}
{% include "linalg/team.wgsl" %}
{% include "linalg/agreed.wgsl" %}

// From Hessenberg to Schur form: LAPACK's {{ "clahqr" if complex else "slahqr" }}, whose deflations give eigenvalues their order. All threads
// compute the scalars of a step, and share its rows and columns. state: the end of what has not converged, steps since
// the last deflation, and the range of the matrix.
const ULP: f32 = {{ ulp }};
var<private> ao: u32;
var<private> zo: u32;

fn at(i: u32, j: u32) -> u32 {
    return ao + i * p.a_r + j * p.a_c;
}

fn h(i: u32, j: u32) -> E {
    return a[ao + i * p.a_r + j * p.a_c];
}

fn zat(i: u32, j: u32) -> u32 {
    return zo + i * p.z_r + j * p.z_c;
}

// Where the block that ends at i begins: below a subdiagonal that is negligible.
fn block_of(first: u32, end: u32, i: u32, small: f32) -> u32 {
    var k = i;
    for (; k > first; k--) {
        let sub = size(h(k, k - 1u));
        if (sub <= small) {
            break;
        }
        var around = size(h(k - 1u, k - 1u)) + size(h(k, k));
        if (around == 0.0) {
            if (k >= first + 2u) { around += abs(re(h(k - 1u, k - 2u))); }
            if (k + 1u < end) { around += abs(re(h(k + 1u, k))); }
        }
        if (abs(re(h(k, k - 1u))) <= ULP * around) {
            let other = size(h(k - 1u, k));
            let ab = max(sub, other);
            let ba = min(sub, other);
            let here = size(h(k, k));
            let apart = size(h(k - 1u, k - 1u) - h(k, k));
            let aa = max(here, apart);
            let bb = min(here, apart);
            let s = aa + ab;
            if (ba * (ab / s) <= max(small, ULP * (bb * (aa / s)))) {
                break;
            }
        }
    }
    return k;
}
{% if complex %}

fn root(x: E) -> E {
    return c64_sqrt(x);
}

// Row i from column `first` on times x, column i above row i times its conjugate, and so z's.
fn turn(t: u32, i: u32, first: u32, x: E) {
    for (var j = first + t; j < p.n; j += TEAM) {
        a[at(i, j)] = mul(a[at(i, j)], x);
    }
    for (var j = t; j < i; j += TEAM) {
        a[at(j, i)] = mul(a[at(j, i)], cj(x));
    }
    for (var j = t; j < p.n; j += TEAM) {
        z[zat(j, i)] = mul(z[zat(j, i)], cj(x));
    }
}

fn step(t: u32, l: u32, i: u32, kicks: u32) {
    var shift = h(i, i);
    if (kicks % 20u == 0u) {
        shift += real(0.75 * abs(re(h(i, i - 1u))));
    } else if (kicks % 10u == 0u) {
        shift = h(l, l) + real(0.75 * abs(re(h(l + 1u, l))));
    } else {
        let u = mul(root(h(i - 1u, i)), root(h(i, i - 1u)));
        if (size(u) != 0.0) {
            let x = 0.5 * (h(i - 1u, i - 1u) - shift);
            let s = max(size(u), size(x));
            var y = s * root(mul(x / s, x / s) + mul(u / s, u / s));
            if (size(x) > 0.0 && dot(x, y) < 0.0) {
                y = -y;
            }
            shift -= mul(u, over(u, x + y));
        }
    }
    var m = i - 1u;
    var v1 = real(0.0);
    var v2 = real(0.0);
    loop {
        let h11 = h(m, m);
        var apart = h11 - shift;
        var h21 = re(h(m + 1u, m));
        let s = size(apart) + abs(h21);
        apart = apart / s;
        h21 = h21 / s;
        v1 = apart;
        v2 = real(h21);
        if (m == l) {
            break;
        }
        if (abs(re(h(m, m - 1u))) * abs(h21) <= ULP * (size(apart) * (size(h11) + size(h(m + 1u, m + 1u))))) {
            break;
        }
        m--;
    }
    m = agreed(t, m);
    for (var k = m; k < i; k++) {
        if (k > m) {
            v1 = h(k, k - 1u);
            v2 = h(k + 1u, k - 1u);
        }
        var t1 = real(0.0);
        var beta = v1;
        if (!is_zero(v2) || im(v1) != 0.0) {
            let scale = size(v1) + size(v2); // squares of what is left of a difference may vanish
            let length = scale * sqrt(square(v1 / scale) + square(v2 / scale));
            let b = select(-length, length, re(v1) < 0.0);
            t1 = vec2<f32>((b - v1.x) / b, -v1.y / b);
            v2 = over(v2, v1 - real(b));
            beta = real(b);
        }
        meet();
        if (t == 0u && k > m) {
            a[at(k, k - 1u)] = beta;
            a[at(k + 1u, k - 1u)] = real(0.0);
        }
        let t2 = re(mul(t1, v2));
        for (var j = k + t; j < p.n; j += TEAM) {
            let sum = mul(cj(t1), h(k, j)) + t2 * h(k + 1u, j);
            a[at(k, j)] -= sum;
            a[at(k + 1u, j)] -= mul(sum, v2);
        }
        meet();
        for (var j = t; j <= min(k + 2u, i); j += TEAM) {
            let sum = mul(t1, h(j, k)) + t2 * h(j, k + 1u);
            a[at(j, k)] -= sum;
            a[at(j, k + 1u)] -= mul(sum, cj(v2));
        }
        for (var j = t; j < p.n; j += TEAM) {
            let sum = mul(t1, z[zat(j, k)]) + t2 * z[zat(j, k + 1u)];
            z[zat(j, k)] -= sum;
            z[zat(j, k + 1u)] -= mul(sum, cj(v2));
        }
        meet();
        if (k == m && m > l) {
            // The reflector has met a subdiagonal it did not see: keep that real.
            var x = real(1.0) - t1;
            x = x / length(x);
            if (t == 0u) {
                a[at(m + 1u, m)] = mul(h(m + 1u, m), cj(x));
                if (m + 2u <= i) {
                    a[at(m + 2u, m + 1u)] = mul(h(m + 2u, m + 1u), x);
                }
            }
            meet();
            for (var j = m; j <= i; j++) {
                if (j != m + 1u) {
                    turn(t, j, j + 1u, x);
                    meet();
                }
            }
        }
    }
    let last = h(i, i - 1u);
    meet();
    if (im(last) != 0.0) {
        let length = size(last) * length(last / size(last));
        if (t == 0u) {
            a[at(i, i - 1u)] = real(length);
        }
        turn(t, i, i + 1u, cj(last / length));
    }
    meet();
}

// One that has converged leaves nothing to do.
fn settle(t: u32, l: u32, i: u32) {
}
{% else %}

fn step(t: u32, l: u32, i: u32, kicks: u32) {
    var h11 = h(i - 1u, i - 1u);
    var h21 = h(i, i - 1u);
    var h12 = h(i - 1u, i);
    var h22 = h(i, i);
    if (kicks % 10u == 0u) {
        let late = kicks % 20u == 0u;
        let s = select(abs(h(l + 1u, l)) + abs(h(l + 2u, l + 1u)), abs(h(i, i - 1u)) + abs(h(i - 1u, i - 2u)), late);
        h11 = 0.75 * s + select(h(l, l), h(i, i), late);
        h12 = -0.4375 * s;
        h21 = s;
        h22 = h11;
    }
    // Two shifts: the eigenvalues of the last block, or the nearer one twice.
    var re1 = 0.0;
    var re2 = 0.0;
    var im1 = 0.0;
    let norm = abs(h11) + abs(h12) + abs(h21) + abs(h22);
    if (norm != 0.0) {
        h11 = h11 / norm;
        h21 = h21 / norm;
        h12 = h12 / norm;
        h22 = h22 / norm;
        let middle = (h11 + h22) / 2.0;
        let det = (h11 - middle) * (h22 - middle) - h12 * h21;
        let apart = sqrt(abs(det));
        if (det >= 0.0) {
            re1 = middle * norm;
            im1 = apart * norm;
        } else {
            let near = select(middle - apart, middle + apart, abs(middle + apart - h22) <= abs(middle - apart - h22));
            re1 = near * norm;
        }
        re2 = re1;
    }
    let im2 = -im1;
    var v = vec3<f32>(0.0);
    var m = i - 2u;
    loop {
        let mm = h(m, m);
        var s = abs(mm - re2) + abs(im2) + abs(h(m + 1u, m));
        let below = h(m + 1u, m) / s;
        v = vec3<f32>(
            below * h(m, m + 1u) + (mm - re1) * ((mm - re2) / s) - im1 * (im2 / s),
            below * (mm + h(m + 1u, m + 1u) - re1 - re2),
            below * h(m + 2u, m + 1u),
        );
        s = abs(v.x) + abs(v.y) + abs(v.z);
        v = v / s;
        if (m == l) {
            break;
        }
        let around = abs(h(m - 1u, m - 1u)) + abs(mm) + abs(h(m + 1u, m + 1u));
        if (abs(h(m, m - 1u)) * (abs(v.y) + abs(v.z)) <= ULP * abs(v.x) * around) {
            break;
        }
        m--;
    }
    m = agreed(t, m);
    for (var k = m; k < i; k++) {
        let three = k + 2u <= i;
        if (k > m) {
            v = vec3<f32>(h(k, k - 1u), h(k + 1u, k - 1u), 0.0);
            if (three) {
                v.z = h(k + 2u, k - 1u);
            }
        }
        if (!three) {
            v.z = 0.0;
        }
        var t1 = 0.0;
        var beta = v.x;
        var w = vec2<f32>(0.0);
        if (v.y != 0.0 || v.z != 0.0) {
            let scale = abs(v.x) + abs(v.y) + abs(v.z); // squares of what is left of a difference may vanish
            let size = scale * length(v / scale);
            beta = select(-size, size, v.x < 0.0);
            t1 = (beta - v.x) / beta;
            w = v.yz / (v.x - beta);
        }
        meet();
        if (t == 0u) {
            if (k > m) {
                a[at(k, k - 1u)] = beta;
                a[at(k + 1u, k - 1u)] = 0.0;
                if (three) {
                    a[at(k + 2u, k - 1u)] = 0.0;
                }
            } else if (m > l) {
                a[at(k, k - 1u)] *= 1.0 - t1;
            }
        }
        let k2 = min(k + 2u, i); // with a weight of zero where there are two
        for (var j = k + t; j < p.n; j += TEAM) {
            let x = vec2<f32>(h(k + 1u, j), h(k2, j));
            let sum = t1 * (h(k, j) + w.x * x.x + w.y * x.y);
            a[at(k, j)] -= sum;
            a[at(k + 1u, j)] = x.x - sum * w.x;
            if (three) {
                a[at(k2, j)] = x.y - sum * w.y;
            }
        }
        meet();
        for (var j = t; j <= min(k + 3u, i); j += TEAM) {
            let x = vec2<f32>(h(j, k + 1u), h(j, k2));
            let sum = t1 * (h(j, k) + w.x * x.x + w.y * x.y);
            a[at(j, k)] -= sum;
            a[at(j, k + 1u)] = x.x - sum * w.x;
            if (three) {
                a[at(j, k2)] = x.y - sum * w.y;
            }
        }
        for (var j = t; j < p.n; j += TEAM) {
            let x = vec2<f32>(z[zat(j, k + 1u)], z[zat(j, k2)]);
            let sum = t1 * (z[zat(j, k)] + w.x * x.x + w.y * x.y);
            z[zat(j, k)] -= sum;
            z[zat(j, k + 1u)] = x.x - sum * w.x;
            if (three) {
                z[zat(j, k2)] = x.y - sum * w.y;
            }
        }
        meet();
    }
}

fn sign_of(x: f32) -> f32 {
    return select(1.0, -1.0, x < 0.0);
}

// A block of two becomes triangular, or has equal diagonal elements and a complex pair: LAPACK's slanv2.
fn settle(t: u32, l: u32, i: u32) {
    if (l == i) {
        return;
    }
    var aa = h(l, l);
    var bb = h(l, i);
    var cc = h(i, l);
    var dd = h(i, i);
    var cs = 1.0;
    var sn = 0.0;
    if (cc == 0.0) {
    } else if (bb == 0.0) {
        cs = 0.0;
        sn = 1.0;
        let x = dd;
        dd = aa;
        aa = x;
        bb = -cc;
        cc = 0.0;
    } else if (aa - dd == 0.0 && sign_of(bb) != sign_of(cc)) {
    } else {
        let apart = aa - dd;
        let half = 0.5 * apart;
        let most = max(abs(bb), abs(cc));
        let least = min(abs(bb), abs(cc)) * sign_of(bb) * sign_of(cc);
        let scale = max(abs(half), most);
        let disc = (half / scale) * half + (most / scale) * least;
        if (disc >= 4.0 * 0.5 * ULP) {
            let x = half + sign_of(half) * sqrt(scale) * sqrt(disc);
            aa = dd + x;
            dd = dd - (most / x) * least;
            let tau = length(vec2<f32>(cc, x));
            cs = x / tau;
            sn = cc / tau;
            bb = bb - cc;
            cc = 0.0;
        } else {
            let sigma = bb + cc;
            let tau = length(vec2<f32>(sigma, apart));
            cs = sqrt(0.5 * (1.0 + abs(sigma) / tau));
            sn = -(half / (tau * cs)) * sign_of(sigma);
            let a1 = aa * cs + bb * sn;
            let b1 = -aa * sn + bb * cs;
            let c1 = cc * cs + dd * sn;
            let d1 = -cc * sn + dd * cs;
            aa = a1 * cs + c1 * sn;
            bb = b1 * cs + d1 * sn;
            cc = -a1 * sn + c1 * cs;
            dd = -b1 * sn + d1 * cs;
            let mean = 0.5 * (aa + dd);
            aa = mean;
            dd = mean;
            if (cc != 0.0) {
                if (bb == 0.0) {
                    bb = -cc;
                    cc = 0.0;
                    let x = cs;
                    cs = -sn;
                    sn = x;
                } else if (sign_of(bb) == sign_of(cc)) {
                    let root_b = sqrt(abs(bb));
                    let root_c = sqrt(abs(cc));
                    let x = root_b * root_c * sign_of(cc);
                    let turn = 1.0 / sqrt(abs(bb + cc));
                    aa = mean + x;
                    dd = mean - x;
                    bb = bb - cc;
                    cc = 0.0;
                    let cs1 = root_b * turn;
                    let sn1 = root_c * turn;
                    let y = cs * cs1 - sn * sn1;
                    sn = cs * sn1 + sn * cs1;
                    cs = y;
                }
            }
        }
    }
    meet();
    if (t == 0u) {
        a[at(l, l)] = aa;
        a[at(l, i)] = bb;
        a[at(i, l)] = cc;
        a[at(i, i)] = dd;
    }
    for (var j = i + 1u + t; j < p.n; j += TEAM) {
        let x = h(l, j);
        let y = h(i, j);
        a[at(l, j)] = cs * x + sn * y;
        a[at(i, j)] = cs * y - sn * x;
    }
    for (var j = t; j < l; j += TEAM) {
        let x = h(j, l);
        let y = h(j, i);
        a[at(j, l)] = cs * x + sn * y;
        a[at(j, i)] = cs * y - sn * x;
    }
    for (var j = t; j < p.n; j += TEAM) {
        let x = z[zat(j, l)];
        let y = z[zat(j, i)];
        z[zat(j, l)] = cs * x + sn * y;
        z[zat(j, i)] = cs * y - sn * x;
    }
}
{% endif %}

{% endblock %}
{% block body %}
    ao = p.a_o + b * p.a_b;
    zo = p.z_o + b * p.z_b;
    var live = agreed(t, state[4u * b]);
    var kicks = agreed(t, state[4u * b + 1u]);
    let first = agreed(t, state[4u * b + 2u]);
    let end = agreed(t, state[4u * b + 3u]);
    let small = {{ least }} * (f32(end - first) / ULP);
    meet();
{% if complex %}
    if (p.fresh != 0u) {
        // Subdiagonals are kept real.
        for (var i = first + 1u; i < end; i++) {
            let sub = agreed_element(t, h(i, i - 1u));
            if (im(sub) != 0.0) {
                let length = size(sub) * length(sub / size(sub));
                if (t == 0u) {
                    a[at(i, i - 1u)] = real(length);
                    if (i + 1u < end) {
                        a[at(i + 1u, i)] = mul(h(i + 1u, i), sub / length);
                    }
                }
                turn(t, i, i, cj(sub / length));
                meet();
                // The diagonal has been turned once: back.
                if (t == 0u) {
                    a[at(i, i)] = mul(h(i, i), sub / length);
                }
                meet();
            }
        }
    }
{% endif %}
    for (var round = 0u; round < p.rounds && live > first; round++) {
        let i = live - 1u;
        let l = agreed(t, block_of(first, end, i, small));
        if (t == 0u && l > first) {
            a[at(l, l - 1u)] = real(0.0);
        }
        meet();
        if (l + {{ 0 if complex else 1 }}u >= i) {
            settle(t, l, i);
            live = l;
            kicks = 0u;
            meet();
        } else {
            kicks++;
            step(t, l, i, kicks);
        }
    }
    if (t == 0u) {
        state[4u * b] = select(0u, live, live > first);
        state[4u * b + 1u] = kicks;
    }
{% endblock %}
