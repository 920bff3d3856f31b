{% include "linalg_head.wgsl" %}
{% include "linalg_team.wgsl" %}
var<workgroup> pivot: f32;

// a = L L^H in the lower triangle, column by column; nothing above the diagonal is read or written.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let b = wid.x + wid.y * nwg.x;
    if (b >= p.batch) {
        return;
    }
    let o = p.a_o + b * p.a_b;
    for (var k = 0u; k < p.n; k = k + 1u) {
        if (t == 0u) {
            let d = re(a[o + k * (p.a_r + p.a_c)]);
            let good = d > 0.0 && info[b] == 0;
            pivot = select(0.0, sqrt(d), good);
            if (!good && info[b] == 0) {
                info[b] = i32(p.first + k) + 1;
            }
        }
        let root = workgroupUniformLoad(&pivot);
        if (root == 0.0) {
            return;
        }
        if (t == 0u) {
            a[o + k * (p.a_r + p.a_c)] = real(root);
        }
        for (var i = k + 1u + t; i < p.n; i = i + TEAM) {
            let at = o + i * p.a_r + k * p.a_c;
            a[at] = a[at] / root;
        }
        meet();
        let rest = p.n - k - 1u;
        for (var e = t; e < rest * rest; e = e + TEAM) {
            let i = k + 1u + e % rest;
            let j = k + 1u + e / rest;
            if (i >= j) {
                let at = o + i * p.a_r + j * p.a_c;
                a[at] = a[at] - mul(a[o + i * p.a_r + k * p.a_c], cj(a[o + j * p.a_r + k * p.a_c]));
            }
        }
        meet();
    }
}
