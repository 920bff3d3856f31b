{% include "matmul_head.wgsl" %}

fn total(i: u32) -> {{ type }} {
    let e = min(i, p.count - 1u);
    var x = {{ zero }};
    for (var s = 0u; s < p.splits; s++) {
        let at = s * p.count + e;
        let y = {{ read }};
        x = {{ add }};
    }
{% if signature %}
    let n = e % p.n;
    let row = e / p.n;
    let m = row % p.m;
    let z = row / p.m;
    return epilogue(x, m, n, z / p.inner, z % p.inner);
{% else %}
    return x;
{% endif %}
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let g = gid.x + gid.y * nwg.x * 64u;
    if (g >= (p.count + 3u) / 4u) {
        return;
    }
{% for j in range(4) %}
    let r{{ j }} = total(g * 4u + {{ j }}u);
{% endfor %}
    {{ write4 }}
}
