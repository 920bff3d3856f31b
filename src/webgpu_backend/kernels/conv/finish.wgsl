// The sum of a split's parts, laid out as the output, and the bias.
{% include "text/interface.wgsl" %}
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let g = gid.x + gid.y * nwg.x * 64u;
    if (g >= (p.count + 3u) / 4u) {
        return;
    }
{% if vector %}
    var v = vec4<f32>(0.0);
    for (var s = 0u; s < p.splits; s++) {
        v += part[s * (p.count / 4u) + g];
    }
{% else %}
    let last = p.count - 1u;
    let e = min(vec4<u32>(g * 4u, g * 4u + 1u, g * 4u + 2u, g * 4u + 3u), vec4<u32>(last));
    var v = vec4<f32>(0.0);
    for (var s = 0u; s < p.splits; s++) {
        let at = s * p.count;
        v += vec4<f32>(part[at + e.x], part[at + e.y], part[at + e.z], part[at + e.w]);
    }
{% endif %}
{% if bias %}
{% for c in "xyzw" %}
    {
        let channel = (min(g * 4u + {{ loop.index0 }}u, p.count - 1u) / p.places) % p.channels;
        v.{{ c }} += {{ read("p.c_o + channel * p.c_s") }};
    }
{% endfor %}
{% endif %}
{% if after %}
{% for c in "xyzw" %}
    {
        let i = min(g * 4u + {{ loop.index0 }}u, p.count - 1u);
        v.{{ c }} = epilogue(v.{{ c }}, i / p.places % p.channels, i % p.places, i / p.places / p.channels, 0u);
    }
{% endfor %}
{% endif %}
    {{ write4 }}
}
