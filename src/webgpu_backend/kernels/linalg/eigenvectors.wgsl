{% include "linalg/head.wgsl" %}

// Eigenvalues of a Schur form, and eigenvectors by substitution upwards: a thread for each.
var<private> ao: u32;

fn h(i: u32, j: u32) -> E {
    return a[ao + i * p.a_r + j * p.a_c];
}

fn times(x: vec2<f32>, y: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x);
}

fn wide(x: E) -> vec2<f32> {
    return {{ "x" if complex else "vec2<f32>(x, 0.0)" }};
}

fn sum_of(x: vec2<f32>) -> f32 {
    return abs(x.x) + abs(x.y);
}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let id = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (id >= p.batch * p.columns) {
        return;
    }
    let n = p.columns;
    let b = id / n;
    let j = id % n;
    ao = p.a_o + b * p.a_b;
    let xo = b * n * n + j;
    var top = j; // the first row that is known
    var low = j; // the last that is not zero
    var value = wide(h(j, j));
{% if not complex %}
    var second = false;
    if (j > 0u) {
        second = h(j, j - 1u) != 0.0;
    }
    var pair = second;
    if (second) {
        top = j - 1u;
    } else if (j + 1u < n) {
        pair = h(j + 1u, j) != 0.0;
        low = select(j, j + 1u, pair);
    }
    if (pair) {
        let up = h(top, low);
        let down = h(low, top);
        value.y = sqrt(abs(up)) * sqrt(abs(down));
        let large = abs(up) >= abs(down);
        x[xo + top * n] = vec2<f32>(select(-value.y / down, 1.0, large), 0.0);
        x[xo + low * n] = vec2<f32>(0.0, select(1.0, value.y / up, large));
    } else {
        x[xo + j * n] = vec2<f32>(1.0, 0.0);
    }
{% else %}
    x[xo + j * n] = vec2<f32>(1.0, 0.0);
{% endif %}
    for (var r = low + 1u; r < n; r++) {
        x[xo + r * n] = vec2<f32>(0.0);
    }
    // The least that is divided by, where the largest element is 1; vectors are kept from growing without bounds.
    let least = max({{ ulp }} * sum_of(value), {{ least ** 0.5 }});
    var r = top;
    while (r > 0u) {
        r--;
        var s = vec2<f32>(0.0);
        var most = 0.0;
{% if not complex %}
        var double = false;
        if (r > 0u) {
            double = h(r, r - 1u) != 0.0;
        }
        if (double) {
            var s1 = vec2<f32>(0.0);
            for (var k = r + 1u; k <= low; k++) {
                let y = x[xo + k * n];
                s1 -= h(r - 1u, k) * y;
                s -= h(r, k) * y;
            }
            let a11 = wide(h(r - 1u, r - 1u)) - value;
            let a22 = wide(h(r, r)) - value;
            let a12 = h(r - 1u, r);
            let a21 = h(r, r - 1u);
            var det = times(a11, a22) - vec2<f32>(a12 * a21, 0.0);
            if (sum_of(det) < max(least * least, {{ least }})) {
                det = vec2<f32>(max(least * least, {{ least }}), 0.0);
            }
            let x1 = c64_div(times(s1, a22) - a12 * s, det);
            let x2 = c64_div(times(a11, s) - a21 * s1, det);
            x[xo + (r - 1u) * n] = x1;
            x[xo + r * n] = x2;
            most = max(sum_of(x1), sum_of(x2));
            r--;
        } else {
{% else %}
        {
{% endif %}
            for (var k = r + 1u; k <= low; k++) {
                s -= times(wide(h(r, k)), x[xo + k * n]);
            }
            var apart = wide(h(r, r)) - value;
            if (sum_of(apart) < least) {
                apart = vec2<f32>(least, 0.0);
            }
            let y = c64_div(s, apart);
            x[xo + r * n] = y;
            most = sum_of(y);
        }
        if (most > 1e12) {
            for (var k = r; k <= low; k++) {
                x[xo + k * n] = x[xo + k * n] / most;
            }
        }
    }
{% if not complex %}
    if (second) {
        value.y = -value.y;
        for (var k = 0u; k <= low; k++) {
            x[xo + k * n].y = -x[xo + k * n].y;
        }
    }
{% endif %}
    w[b * n + j] = value;
}
