{% extends "linalg/each_matrix.wgsl" %}
{% block declarations %}
{% include "linalg/team.wgsl" %}
{% include "linalg/agreed.wgsl" %}

// a becomes z^-1 a z, a matrix of zeros below its first subdiagonal: rows and columns that stand alone go to the ends,
// the rest is balanced by powers of two (LAPACK's gebal), then reflected (gehrd). state: where the rest begins and ends.
const NONE = 0xffffffffu;
var<private> ao: u32;
var<private> zo: u32;
var<workgroup> alone: array<u32, {{ longest }}>;
var<workgroup> reflector: array<E, {{ longest }}>;

fn at(i: u32, j: u32) -> u32 {
    return ao + i * p.a_r + j * p.a_c;
}

fn zat(i: u32, j: u32) -> u32 {
    return zo + i * p.z_r + j * p.z_c;
}

fn exchange(t: u32, i: u32, j: u32) {
    if (i != j) {
        for (var k = t; k < p.n; k += TEAM) {
            let x = a[at(k, i)];
            a[at(k, i)] = a[at(k, j)];
            a[at(k, j)] = x;
            let y = z[zat(k, i)];
            z[zat(k, i)] = z[zat(k, j)];
            z[zat(k, j)] = y;
        }
        meet();
        for (var k = t; k < p.n; k += TEAM) {
            let x = a[at(i, k)];
            a[at(i, k)] = a[at(j, k)];
            a[at(j, k)] = x;
        }
    }
    meet();
}

// The last row of first..end without a neighbour, or the first such column.
fn lonely(t: u32, first: u32, end: u32, column: bool) -> u32 {
    for (var i = first + t; i < end; i += TEAM) {
        var yes = 1u;
        for (var j = first; j < end; j++) {
            if (i != j && !is_zero(a[select(at(i, j), at(j, i), column)])) {
                yes = 0u;
                break;
            }
        }
        alone[i] = yes;
    }
    workgroupBarrier();
    var found = NONE;
    for (var i = first; i < end; i++) {
        if (alone[i] != 0u && !(column && found != NONE)) {
            found = i;
        }
    }
    return agreed(t, found);
}

fn balance(t: u32, first: u32, end: u32) {
    for (var round = 0u; round < 20u; round++) {
        var changed = false;
        for (var i = first; i < end; i++) {
            var down = 0.0;
            var across = 0.0;
            for (var k = first + t; k < end; k += TEAM) {
                down += square(a[at(k, i)]);
                across += square(a[at(i, k)]);
            }
            var c = sqrt(team_sum(t, down));
            var r = sqrt(team_sum(t, across));
            if (c == 0.0 || r == 0.0) {
                continue;
            }
            let before = c + r;
            var f = 1.0;
            for (; c < r * 0.5 && f < 1e15; f = f * 2.0) {
                c = c * 2.0;
                r = r * 0.5;
            }
            for (; c * 0.5 >= r && f > 1e-15; f = f * 0.5) {
                c = c * 0.5;
                r = r * 2.0;
            }
            if (c + r >= 0.95 * before) {
                continue;
            }
            changed = true;
            for (var k = t; k < p.n; k += TEAM) {
                if (k != i) {
                    a[at(i, k)] = a[at(i, k)] / f;
                    a[at(k, i)] = a[at(k, i)] * f;
                }
                z[zat(k, i)] = z[zat(k, i)] * f;
            }
            meet();
        }
        if (!changed) {
            break;
        }
    }
}

{% endblock %}
{% block body %}
    ao = p.a_o + b * p.a_b;
    zo = p.z_o + b * p.z_b;
    var first = 0u;
    var end = p.n;
    loop {
        let found = lonely(t, first, end, false);
        if (found == NONE) {
            break;
        }
        exchange(t, found, end - 1u);
        if (end == 1u) {
            break;
        }
        end--;
    }
    while (end - first > 1u) {
        let found = lonely(t, first, end, true);
        if (found == NONE) {
            break;
        }
        exchange(t, found, first);
        first++;
    }
    balance(t, first, end);
    for (var k = first; k + 2u < end; k++) {
        let head = agreed_element(t, a[at(k + 1u, k)]);
        var most = 0.0;
        for (var i = k + 2u + t; i < end; i += TEAM) {
            most = max(most, size(a[at(i, k)]));
        }
        most = team_max(t, most);
        if (most == 0.0 && im(head) == 0.0) {
            continue;
        }
        most = max(most, size(head));
        var rest = 0.0;
        for (var i = k + 2u + t; i < end; i += TEAM) {
            rest += square(a[at(i, k)] / most);
        }
        rest = team_sum(t, rest);
        let length = most * sqrt(square(head / most) + rest);
        let beta = select(-length, length, re(head) < 0.0);
        let tau = {{ "vec2<f32>((beta - head.x) / beta, -head.y / beta)" if complex else "(beta - head) / beta" }};
        let scale = over(real(1.0), head - real(beta));
        for (var i = k + 1u + t; i < end; i += TEAM) {
            reflector[i] = real(1.0);
            if (i > k + 1u) {
                reflector[i] = mul(a[at(i, k)], scale);
                a[at(i, k)] = real(0.0);
            } else {
                a[at(i, k)] = real(beta);
            }
        }
        meet();
        for (var i = t; i < p.n; i += TEAM) {
            var s = real(0.0);
            var y = real(0.0);
            for (var j = k + 1u; j < end; j++) {
                s += mul(a[at(i, j)], reflector[j]);
                y += mul(z[zat(i, j)], reflector[j]);
            }
            s = mul(s, tau);
            y = mul(y, tau);
            for (var j = k + 1u; j < end; j++) {
                let w = cj(reflector[j]);
                a[at(i, j)] -= mul(s, w);
                z[zat(i, j)] -= mul(y, w);
            }
        }
        meet();
        for (var j = k + 1u + t; j < p.n; j += TEAM) {
            var s = real(0.0);
            for (var i = k + 1u; i < end; i++) {
                s += mul(cj(reflector[i]), a[at(i, j)]);
            }
            s = mul(s, cj(tau));
            for (var i = k + 1u; i < end; i++) {
                a[at(i, j)] -= mul(s, reflector[i]);
            }
        }
        meet();
    }
    if (t == 0u) {
        state[4u * b] = end;
        state[4u * b + 1u] = 0u;
        state[4u * b + 2u] = first;
        state[4u * b + 3u] = end;
    }
{% endblock %}
