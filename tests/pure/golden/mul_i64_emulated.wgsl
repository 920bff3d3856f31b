// mul_i64l_i64l1, bindings rw, 20 parameter bytes
fn i64_mul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = u32_mul_wide(a.x, b.x);
  return vec2<u32>(low.x, low.y + a.x * b.y + a.y * b.x);
}
fn u32_mul_wide(a: u32, b: u32) -> vec2<u32> {
  let al = a & 0xffffu;
  let ah = a >> 16u;
  let bl = b & 0xffffu;
  let bh = b >> 16u;
  let low = al * bl;
  let mid = ah * bl + (low >> 16u);
  let cross = al * bh + (mid & 0xffffu);
  return vec2<u32>((cross << 16u) | (low & 0xffffu), ah * bh + (mid >> 16u) + (cross >> 16u));
}
struct P {
    n: u32,
    a_o: u32,
    out0_o: u32,
    s_b_x: u32,
    s_b_y: u32,
}
@group(0) @binding(0) var<storage, read> b_a: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> b_out0: array<vec4<u32>>;

fn op(a: vec2<u32>) -> vec2<u32> {
    let out0 = i64_mul(a, vec2<u32>(p.s_b_x, p.s_b_y));
    return out0;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
    @builtin(num_workgroups) nwg: vec3<u32>,
) {
    let wg = wid.x + wid.y * nwg.x;
    for (var u = 0u; u < 4u; u++) {
    let g = (wg * 64u + lid) * 4u + u;
    if (g >= (p.n + 3u) / 4u) {
        return;
    }
    let av_l = b_a[2u * (g + p.a_o)];
    let av_h = b_a[2u * (g + p.a_o) + 1u];
    let y0 = op(av_l.xy);
    let y1 = op(av_l.zw);
    let y2 = op(av_h.xy);
    let y3 = op(av_h.zw);
    let out0w0 = y0;
    let out0w1 = y1;
    let out0w2 = y2;
    let out0w3 = y3;
    b_out0[2u * (g + p.out0_o)] = vec4<u32>(out0w0, out0w1);
    b_out0[2u * (g + p.out0_o) + 1u] = vec4<u32>(out0w2, out0w3);
    }
}
