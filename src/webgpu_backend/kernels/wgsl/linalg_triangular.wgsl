{% include "linalg_head.wgsl" %}

{% if near %}
{% set columns = 32 %}
{% set pitch, x_pitch = block + 1, columns + 1 %}
var<workgroup> near: array<E, {{ block * pitch }}>;
var<workgroup> tile: array<E, {{ block * x_pitch }}>;

// x = a^-1 x for a triangular a; a workgroup has {{ columns }} columns of x, and takes an element found out of the others below.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    let tiles = (p.columns + {{ columns - 1 }}u) / {{ columns }}u;
    if (group >= p.batch * tiles) {
        return;
    }
    let b = group / tiles;
    let first = group % tiles * {{ columns }}u;
    let o = p.a_o + b * p.a_b;
    let xo = p.x_o + b * p.x_b;
    let c = t % {{ columns }}u;
    let team = t / {{ columns }}u;
    let whole = first + c < p.columns;
    for (var i = team; i < p.n; i = i + {{ workgroup // columns }}u) {
        for (var j = c; j < p.n; j = j + {{ columns }}u) {
            near[i * {{ pitch }}u + j] = conj_if(a[o + i * p.a_r + j * p.a_c], p.conjugate);
        }
        tile[i * {{ x_pitch }}u + c] = x[xo + i * p.x_r + min(first + c, p.columns - 1u) * p.x_c];
    }
    workgroupBarrier();
    for (var s = 0u; s < p.n; s = s + 1u) {
        let i = select(s, p.n - 1u - s, p.upper != 0u);
        var value = tile[i * {{ x_pitch }}u + c];
        if (p.unit == 0u) {
            value = over(value, near[i * {{ pitch + 1 }}u]);
        }
        for (var q = s + 1u + team; q < p.n; q = q + {{ workgroup // columns }}u) {
            let j = select(q, p.n - 1u - q, p.upper != 0u);
            let at = j * {{ x_pitch }}u + c;
            tile[at] = tile[at] - mul(near[j * {{ pitch }}u + i], value);
        }
        workgroupBarrier();
        // Nobody reads this row any more.
        if (team == 0u && whole) {
            x[xo + i * p.x_r + (first + c) * p.x_c] = value;
        }
    }
}
{% else %}
// x = a^-1 x for a triangular a; a thread has one column of x.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let thread = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (thread >= p.batch * p.columns) {
        return;
    }
    let b = thread / p.columns;
    let o = p.a_o + b * p.a_b;
    let xo = p.x_o + b * p.x_b + (thread % p.columns) * p.x_c;
    for (var s = 0u; s < p.n; s = s + 1u) {
        let i = select(s, p.n - 1u - s, p.upper != 0u);
        var value = x[xo + i * p.x_r];
        for (var q = 0u; q < s; q = q + 1u) {
            let j = select(q, p.n - 1u - q, p.upper != 0u);
            value = value - mul(conj_if(a[o + i * p.a_r + j * p.a_c], p.conjugate), x[xo + j * p.x_r]);
        }
        if (p.unit == 0u) {
            value = over(value, conj_if(a[o + i * (p.a_r + p.a_c)], p.conjugate));
        }
        x[xo + i * p.x_r] = value;
    }
}
{% endif %}
