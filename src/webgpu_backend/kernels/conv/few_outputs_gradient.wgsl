// The weights' gradient of groups with few outputs: a workgroup sums a part of {{ high }} x {{ wide }} taps of one input channel, for all outputs.
{% include "text/interface.wgsl" %}
{% set count = rows * high * wide %}
{% set quads = (count + 3) // 4 %}
{% set team = threads // held %}
var<workgroup> sums: array<vec4<f32>, {{ held * threads }}>;

@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    var t = wid.x + wid.y * nwg.x;
    if (t >= p.total) {
        return;
    }
    let across = (p.win_w + {{ wide - 1 }}u) / {{ wide }}u;
    let down = (p.win_h + {{ high - 1 }}u) / {{ high }}u;
    let kx = t % across * {{ wide }}u;
    t /= across;
    let ky = t % down * {{ high }}u;
    t /= down;
    let kz = t % p.win_d;
    t /= p.win_d;
    let channel = t % p.channels;
    t /= p.channels;
    let group = t % p.groups;
    let split = t / p.groups;
    let base = p.x_o + (group * p.channels + channel) * p.xs_c;
    let plane = p.pos_d * p.pos_h * p.pos_w;
    // Lanes along a row of the gradient, and as many rows at a time as there are threads for.
    let lane = lid % p.along;
    let last = min((split + 1u) * p.chunk, p.rows);
{% for i in range(count) %}
    var s{{ i }} = 0.0;
{% endfor %}
    for (var row = split * p.chunk + lid / p.along; row < last; row += {{ threads }}u / p.along) {
        let y = row % p.pos_h;
        let z = row / p.pos_h % p.pos_d;
        let image = row / (p.pos_h * p.pos_d);
        let iz = z * p.step_d + kz * p.dil_d - p.pad_d;
        let row_at = base + image * p.xs_n + iz * p.xs_d;
        let grad = p.y_o + image * p.ys_n + group * {{ rows }}u * plane + (z * p.pos_h + y) * p.pos_w;
{% for h in range(high) %}
        let iy{{ h }} = y * p.step_h + (ky + {{ h }}u) * p.dil_h - p.pad_h;
        let in{{ h }} = iz < p.x_d && iy{{ h }} < p.x_h{% if high > 1 %} && ky + {{ h }}u < p.win_h{% endif %};
        let at{{ h }} = row_at + iy{{ h }} * p.xs_h;
{% endfor %}
        for (var x = lane; x < p.pos_w; x += p.along) {
{% for r in range(rows) %}
            let g{{ r }} = grad + {{ r }}u * plane + x;
            let y{{ r }} = {{ read("y", "g%d" % r) }};
{% endfor %}
{% for k in range(wide) %}
            {
                let ix = x * p.step_w + (kx + {{ k }}u) * p.dil_w - p.pad_w;
                let near = ix < p.x_w{% if wide > 1 %} && kx + {{ k }}u < p.win_w{% endif %};
{% for h in range(high) %}
                {
                    let inside = near && in{{ h }};
                    let at = select(p.x_o, at{{ h }} + ix * p.xs_w, inside);
                    let v = select(0.0, {{ read("x", "at") }}, inside);
{% for r in range(rows) %}
                    s{{ (r * high + h) * wide + k }} += y{{ r }} * v;
{% endfor %}
                }
{% endfor %}
            }
{% endfor %}
        }
    }
    // {{ held }} vectors of sums at a time, with a team of threads each; a step leaves a quarter of what there is.
    let i = lid % {{ team }}u;
    let mine = lid / {{ team }}u * {{ threads }}u + i;
{% for q0 in range(0, quads, held) %}
{% if q0 %}
    workgroupBarrier();
{% endif %}
{% for q in range(held) %}
    sums[{{ q * threads }}u + lid] = vec4<f32>({% for c in range(4) %}{{ "s%d" % (4 * (q0 + q) + c) if 4 * (q0 + q) + c < count else "0.0" }}{{ ", " if c < 3 else "" }}{% endfor %});
{% endfor %}
    workgroupBarrier();
{% for reach in reaches %}
    if (i < {{ reach }}u) {
        sums[mine] = sums[mine] + sums[mine + {{ reach }}u] + sums[mine + {{ 2 * reach }}u] + sums[mine + {{ 3 * reach }}u];
    }
    workgroupBarrier();
{% endfor %}
    if (lid < {{ [4 * held, count - 4 * q0] | min }}u) {
        let n = lid + {{ 4 * q0 }}u;
        let k = kx + n % {{ wide }}u;
        let h = ky + n / {{ wide }}u % {{ high }}u;
        let r = n / {{ wide * high }}u;
        if (k < p.win_w && h < p.win_h) {
            let o = (split * p.groups + group) * {{ rows }}u + r;
            var sum = sums[lid / 4u * {{ threads }}u][lid % 4u];
            if (f32_isnan(sum) && p.chunk * p.pos_w <= {{ most_again }}u) { // zero outside the image times infinity: once more without
                sum = 0.0;
                for (var row = split * p.chunk; row < last && !f32_isnan(sum); row++) {
                    let image = row / (p.pos_h * p.pos_d);
                    let iz = row / p.pos_h % p.pos_d * p.step_d + kz * p.dil_d - p.pad_d;
                    let iy = row % p.pos_h * p.step_h + h * p.dil_h - p.pad_h;
                    let grad = p.y_o + image * p.ys_n + (group * {{ rows }}u + r) * plane + row % (p.pos_h * p.pos_d) * p.pos_w;
                    let row_at = base + image * p.xs_n + iz * p.xs_d + iy * p.xs_h;
                    for (var x = 0u; x < p.pos_w && iz < p.x_d && iy < p.x_h; x++) {
                        let ix = x * p.step_w + k * p.dil_w - p.pad_w;
                        if (ix < p.x_w) {
                            let g = grad + x;
                            let at = row_at + ix * p.xs_w;
                            sum += {{ read("y", "g") }} * {{ read("x", "at") }};
                        }
                    }
                }
            }
            out[(((o * p.channels + channel) * p.win_d + kz) * p.win_h + h) * p.win_w + k] = sum;
        }
    }
{% endfor %}
}
