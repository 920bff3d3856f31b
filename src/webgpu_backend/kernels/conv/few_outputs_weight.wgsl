// The weights as `conv_few` reads them: [group, block of phases, tap, channel, phase, output], outputs in fours.
{% include "text/interface.wgsl" %}
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let i = gid.x + gid.y * nwg.x * 64u;
    if (i >= p.total) {
        return;
    }
    var t = i;
    let row = t % p.pitch;
    t /= p.pitch;
    let part = t % p.parts;
    t /= p.parts;
    let channel = t % p.channels;
    t /= p.channels;
    let kx = t % p.taps_w;
    t /= p.taps_w;
    let ky = t % p.taps_h;
    t /= p.taps_h;
    let kz = t % p.taps_d;
    t /= p.taps_d;
    let phase = t % p.blocks * p.parts + part;
    let group = t / p.blocks;
    let z = kz * p.by_d + phase / (p.by_h * p.by_w);
    let y = ky * p.by_h + phase / p.by_w % p.by_h;
    let x = kx * p.by_w + phase % p.by_w;
    let inside = row < p.rows && z < p.win_d && y < p.win_h && x < p.win_w;
    let at = group * p.w_g + row * p.w_r + channel * p.w_c + (z * p.win_h + y) * p.win_w + x;
    let source = p.w_o + select(0u, at, inside);
    out[i] = select(0.0, {{ read("source") }}, inside);
}
