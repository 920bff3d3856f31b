struct P {
    n: u32,
    a_o: u32,
    found_o: u32,
    scale_o: u32,
}
@group(0) @binding(0) var<storage, read> scale: array<f32>;
@group(0) @binding(1) var<storage, read_write> a: {{ type }};
@group(0) @binding(2) var<storage, read_write> found: array<f32>;

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let thread = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    let s = scale[p.scale_o];
    for (var u = 0u; u < {{ groups }}u; u++) {
        let g = thread * {{ groups }}u + u;
        if (g >= (p.n + 3u) / 4u) {
            return;
        }
        let i = p.a_o + g;
{% for line in main %}
        {{ line }}
{% endfor %}
    }
}
