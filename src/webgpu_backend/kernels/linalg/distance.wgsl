// Distances between rows, and their gradient: "cdist" has two sets of rows, "pdist" the pairs of one.
{% include "text/interface.wgsl" %}

fn sign_of(d: f32) -> f32 {
    return select(select(0.0, -1.0, d < 0.0), 1.0, d > 0.0);
}

fn add(sum: f32, d: f32) -> f32 {
{% if norm == "zero" %}
    return sum + select(select(1.0, 0.0, d == 0.0), d, f32_isnan(d));
{% elif norm == "one" %}
    return sum + abs(d);
{% elif norm == "two" %}
    return sum + d * d;
{% elif norm == "inf" %}
    return f32_max(sum, abs(d));
{% else %}
    return sum + f32_pow(abs(d), p.power);
{% endif %}
}

fn finish(sum: f32) -> f32 {
{% if norm == "two" %}
    return sqrt(sum);
{% elif norm in ("zero", "one", "inf") %}
    return sum;
{% else %}
    return f32_pow(sum, 1.0 / p.power);
{% endif %}
}

fn slope(d: f32, g: f32, dist: f32) -> f32 {
{% if norm == "zero" %}
    return 0.0;
{% elif norm == "one" %}
    return g * sign_of(d);
{% elif norm == "two" %}
    return select(g * d / dist, 0.0, dist == 0.0);
{% elif norm == "inf" %}
    return g * sign_of(d) * (1.0 - min(1.0, ceil(abs(abs(d) - dist))));
{% elif norm == "low" %}
    let none = dist == 0.0 || (d == 0.0 && p.power < 1.0);
    return select(sign_of(d) * f32_pow(abs(d), p.power - 1.0) * g / f32_pow(dist, p.power - 1.0), 0.0, none);
{% else %}
    return select(d * f32_pow(abs(d), p.power - 2.0) * g / f32_pow(dist, p.power - 1.0), 0.0, dist == 0.0);
{% endif %}
}

{% if pairs %}
// Where the pair i < j is in the list of all pairs.
fn pair_at(i: u32, j: u32) -> u32 {
    return i * p.rows - i * (i + 1u) / 2u + j - i - 1u;
}
{% endif %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let t = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (t >= p.n) {
        return;
    }
{% if backward %}
    let k = t % p.width;
    let row = t / p.width;
    let x0 = x[p.x_o + t];
    var sum = 0.0;
{% if pairs %}
    for (var j = 0u; j < p.rows; j = j + 1u) {
        if (j != row) {
            let at = pair_at(min(row, j), max(row, j));
            sum = sum + slope(x0 - x[p.x_o + j * p.width + k], grad[p.grad_o + at], dist[p.dist_o + at]);
        }
    }
{% else %}
    let other = row / p.rows * p.others;
    for (var j = 0u; j < p.others; j = j + 1u) {
        let at = row * p.others + j;
        sum = sum + slope(x0 - y[p.y_o + (other + j) * p.width + k], grad[p.grad_o + at], dist[p.dist_o + at]);
    }
{% endif %}
    out[t] = sum;
{% else %}
{% if pairs %}
    let i = t / p.rows;
    let j = t % p.rows;
    if (i >= j) {
        return;
    }
    let left = p.x_o + i * p.width;
    let right = p.x_o + j * p.width;
    let at = pair_at(i, j);
{% else %}
    let row = t / p.others;
    let left = p.x_o + row * p.width;
    let right = p.y_o + (row / p.rows * p.others + t % p.others) * p.width;
    let at = t;
{% endif %}
    var sum = 0.0;
    for (var k = 0u; k < p.width; k = k + 1u) {
        sum = add(sum, x[left + k] - {{ "x" if pairs else "y" }}[right + k]);
    }
    out[at] = finish(sum);
{% endif %}
}
