// The weights' gradient of groups with one input channel: a workgroup sums a part of four neighbouring taps of a channel.
struct P {
{% for field in fields %}
    {{ field }},
{% endfor %}
}
{% for name, access, type in bindings %}
@group(0) @binding({{ loop.index0 }}) var<storage, {{ access }}> {{ name }}: {{ type }};
{% endfor %}
var<workgroup> sums: array<vec4<f32>, {{ threads }}>;

@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
    let fours = (p.win_w + 3u) / 4u;
    let lines = p.win_d * p.win_h;
    let kx = group % fours * 4u;
    let line = group / fours % lines;
    let ky = line % p.win_h;
    let kz = line / p.win_h;
    let o = group / (fours * lines) % p.channels;
    let split = group / (fours * lines * p.channels);
    let base = p.x_o + (o / p.multiple) * p.xs_c;
    // Lanes along a row of the gradient, and as many rows at a time as there are threads for.
    let lane = lid % p.along;
    let last = min((split + 1u) * p.chunk, p.rows);
    let more = vec4<u32>(0u, 1u, 2u, 3u);
    let near = kx + more < vec4<u32>(p.win_w);
    var v = vec4<f32>(0.0);
    for (var row = split * p.chunk + lid / p.along; row < last; row += {{ threads }}u / p.along) {
        let y = row % p.pos_h;
        let z = row / p.pos_h % p.pos_d;
        let image = row / (p.pos_h * p.pos_d);
        let iy = y * p.step_h + ky * p.dil_h - p.pad_h;
        let iz = z * p.step_d + kz * p.dil_d - p.pad_d;
        if (iy < p.x_h && iz < p.x_d) {
            let row_at = base + image * p.xs_n + iz * p.xs_d + iy * p.xs_h;
            let grad = p.y_o + image * p.ys_n + ((o * p.pos_d + z) * p.pos_h + y) * p.pos_w;
            for (var x = lane; x < p.pos_w; x += p.along) {
                let ix = vec4<u32>(x * p.step_w + kx * p.dil_w - p.pad_w) + more * p.dil_w;
                let inside = near & (ix < vec4<u32>(p.x_w));
                let at = select(vec4<u32>(0u), row_at + ix * p.xs_w, inside);
                let g = grad + x;
                let image4 = vec4<f32>({{ read("x", "at.x") }}, {{ read("x", "at.y") }}, {{ read("x", "at.z") }}, {{ read("x", "at.w") }});
                v += {{ read("y", "g") }} * select(vec4<f32>(0.0), image4, inside);
            }
        }
    }
    sums[lid] = v;
    workgroupBarrier();
    for (var reach = {{ threads // 2 }}u; reach > 0u; reach /= 2u) {
        if (lid < reach) {
            sums[lid] += sums[lid + reach];
        }
        workgroupBarrier();
    }
    let to = ((split * p.channels + o) * lines + line) * p.win_w + kx;
    if (lid < min(p.win_w - kx, 4u)) {
        out[to + lid] = sums[0][lid];
    }
}
