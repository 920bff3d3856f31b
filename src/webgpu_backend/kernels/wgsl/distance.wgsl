struct P {
    total: u32,
    rows: u32,
    cols: u32,
    depth: u32,
    power: f32,
}
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
{% if backward %}
@group(0) @binding(2) var<storage, read> grad: array<f32>;
@group(0) @binding(3) var<storage, read> distance: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
{% else %}
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
{% endif %}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let i = gid.x + gid.y * nwg.x * 64u;
    if (i >= p.total) {
        return;
    }
    var sum = 0.0;
{% if backward %}
    // One element of a: what every row of b adds to its gradient.
    let m = i % p.depth;
    let row = i / p.depth;
    let batch = row / p.rows;
    let x = a[i];
    for (var j = 0u; j < p.cols; j++) {
        let difference = x - b[(batch * p.cols + j) * p.depth + m];
        let size = abs(difference);
        let whole = distance[row * p.cols + j];
        let g = grad[row * p.cols + j];
{% if kind == "one" %}
        sum += g * sign(difference);
{% elif kind == "two" %}
        sum += select(g * difference / whole, 0.0, whole == 0.0);
{% elif kind == "inf" %}
        sum += select(0.0, g * sign(difference), size == whole);
{% else %}
        let skip = whole == 0.0 || (difference == 0.0 && p.power < 2.0);
        let ratio = f32_pow(select(size / whole, 1.0, skip), p.power - 1.0);
        sum += select(g * sign(difference) * ratio, 0.0, skip);
{% endif %}
    }
    out[i] = sum;
{% else %}
    let col = i % p.cols;
    let row = i / p.cols;
    let left = row * p.depth;
    let right = (row / p.rows * p.cols + col) * p.depth;
    for (var m = 0u; m < p.depth; m++) {
        let size = abs(a[left + m] - b[right + m]);
{% if kind == "zero" %}
        sum += select(1.0, 0.0, size == 0.0);
{% elif kind == "one" %}
        sum += size;
{% elif kind == "two" %}
        sum += size * size;
{% elif kind == "inf" %}
        sum = f32_max(sum, size);
{% else %}
        sum += f32_pow(size, p.power);
{% endif %}
    }
    out[i] = {{ {"two": "sqrt(sum)", "any": "f32_pow(sum, 1.0 / p.power)"}.get(kind, "sum") }};
{% endif %}
}
