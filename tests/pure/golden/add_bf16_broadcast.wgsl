// add_bf16l_bf16s_bf16l2i, bindings rrw, 32 parameter bytes
fn bf16_pair(a: f32, b: f32) -> u32 {
    let u = bitcast<u32>(a);
    let v = bitcast<u32>(b);
    let low = select(u + 0x7fffu + ((u >> 16u) & 1u), 0x7fc00000u, (u << 1u) > 0xff000000u);
    let high = select(v + 0x7fffu + ((v >> 16u) & 1u), 0x7fc00000u, (v << 1u) > 0xff000000u);
    return (low >> 16u) | (high & 0xffff0000u);
}
struct P {
    n: u32,
    d0: u32,
    a_o: u32,
    b_o: u32,
    b_s0: u32,
    b_s1: u32,
    out0_o: u32,
    s_alpha: f32,
}
@group(0) @binding(0) var<storage, read> b_a: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read> b_b: array<u32>;
@group(0) @binding(2) var<storage, read_write> b_out0: array<vec2<u32>>;

fn op(a: f32, b: f32) -> f32 {
    let out0 = (a + (b * p.s_alpha));
    return out0;
}

@compute @workgroup_size(512)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
    @builtin(num_workgroups) nwg: vec3<u32>,
) {
    let wg = wid.x + wid.y * nwg.x;
    let g = wg * 512u + lid;
    if (g >= (p.n + 3u) / 4u) {
        return;
    }
    var r = g * 4u;
    let c0 = r % p.d0;
    r = r / p.d0;
    let c1 = r;
    let av_w = b_a[g + p.a_o];
    let av = bitcast<vec4<f32>>(vec4<u32>(av_w.x << 16u, av_w.x & 0xffff0000u, av_w.y << 16u, av_w.y & 0xffff0000u));
    let bi = p.b_o + c0 * p.b_s0 + c1 * p.b_s1;
    let bv = bitcast<f32>((b_b[(bi) / 2u] >> (((bi) % 2u) * 16u)) << 16u);
    let y0 = op(av.x, bv);
    let y1 = op(av.y, bv);
    let y2 = op(av.z, bv);
    let y3 = op(av.w, bv);
    let out0w0 = y0;
    let out0w1 = y1;
    let out0w2 = y2;
    let out0w3 = y3;
    b_out0[g + p.out0_o] = vec2<u32>(bf16_pair(out0w0, out0w1), bf16_pair(out0w2, out0w3));
}
