{% include "text/interface.wgsl" %}

{% if not vector %}
fn total(i: u32) -> {{ type }} {
    let e = min(i, p.count - 1u);
    var x = {{ zero }};
    for (var s = 0u; s < p.splits; s++) {
        let at = s * p.count + e;
        let y = {{ read }};
        x = {{ add }};
    }
    return x;
}

{% endif %}
{% if finishes %}
fn finish(x: {{ type }}, i: u32) -> {{ type }} {
    let e = min(i, p.count - 1u);
    let row = e / p.n;
    let z = row / p.m;
    return epilogue(x, row % p.m, e % p.n, z / p.inner, z % p.inner);
}

{% endif %}
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let g = gid.x + gid.y * nwg.x * 64u;
    if (g >= (p.count + 3u) / 4u) {
        return;
    }
{% if vector %}
    var v = part[g];
    for (var s = 1u; s < p.splits; s++) {
        v += part[s * (p.count / 4u) + g];
    }
{% endif %}
{% for j in range(4) %}
{% set sum = "v[%d]" % j if vector else "total(g * 4u + %du)" % j %}
    let r{{ j }} = {{ "finish(%s, g * 4u + %du)" % (sum, j) if finishes else sum }};
{% endfor %}
    {{ write4 }}
}
