// matmul_1x8_bf16k_bf16r_f32v_bias_scaled, bindings rrrw, 128 parameter bytes
struct P {
    m: u32,
    n: u32,
    k: u32,
    inner: u32,
    tiles_m: u32,
    tiles_n: u32,
    total: u32,
    splits: u32,
    chunk: u32,
    a_o: u32,
    a_r: u32,
    a_k: u32,
    a_b: u32,
    a_i: u32,
    b_o: u32,
    b_r: u32,
    b_k: u32,
    b_b: u32,
    b_i: u32,
    o_o: u32,
    o_m: u32,
    o_n: u32,
    o_b: u32,
    o_i: u32,
    o_s: u32,
    c_o: u32,
    c_m: u32,
    c_n: u32,
    c_b: u32,
    c_i: u32,
    s_alpha: f32,
    s_beta: f32,
}
@group(0) @binding(0) var<storage, read> a_in: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read> b_in: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> c_in: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;
fn widen_bf16(w: vec2<u32>) -> vec4<f32> { return bitcast<vec4<f32>>(vec4<u32>(w.x << 16u, w.x & 0xffff0000u, w.y << 16u, w.y & 0xffff0000u)); }
fn epilogue(v: f32, m: u32, n: u32, ob: u32, ib: u32) -> f32 {
    let at_c = p.c_o + m * p.c_m + n * p.c_n + ob * p.c_b + ib * p.c_i;
    let c = bitcast<f32>((c_in[(at_c) / 2u] >> (((at_c) % 2u) * 16u)) << 16u);
    let out0 = ((v * p.s_alpha) + (c * p.s_beta));
    return out0;
}
// Four columns of one row; what lies outside the output is dropped.
fn store(v0: f32, v1: f32, v2: f32, v3: f32, m: u32, n: u32, base: u32, ob: u32, ib: u32) {
    if (m >= p.m || n >= p.n) {
        return;
    }
    let r0 = epilogue(v0, m, min(n + 0u, p.n - 1u), ob, ib);
    let r1 = epilogue(v1, m, min(n + 1u, p.n - 1u), ob, ib);
    let r2 = epilogue(v2, m, min(n + 2u, p.n - 1u), ob, ib);
    let r3 = epilogue(v3, m, min(n + 3u, p.n - 1u), ob, ib);
    let at = base + m * p.o_m + n / 4u;
    out[at] = vec4<f32>(r0, r1, r2, r3);
}

@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let tile = gid.x + gid.y * nwg.x * 8u;
    if (tile >= p.total) {
        return;
    }
    let n0 = (tile % p.tiles_n) * 8u;
    let rest = tile / p.tiles_n;
    let m0 = (rest % p.tiles_m) * 1u;
    let z = rest / p.tiles_m;
    let split = z % p.splits;
    let batch = z / p.splits;
    let ob = batch / p.inner;
    let ib = batch % p.inner;
    let k_first = split * p.chunk;
    let k_last = min(k_first + p.chunk, p.k);
    let a0 = p.a_o + ob * p.a_b + ib * p.a_i + min(m0 + 0u, p.m - 1u) * p.a_r;
    let b0 = p.b_o + ob * p.b_b + ib * p.b_i + min(n0 / 4u + 0u, p.n / 4u - 1u);
    let b1 = p.b_o + ob * p.b_b + ib * p.b_i + min(n0 / 4u + 1u, p.n / 4u - 1u);
    var c0_0 = vec4<f32>(0.0);
    var c0_1 = vec4<f32>(0.0);
    var k = k_first;
    for (; k + 4u <= k_last; k += 4u) {
        let av0 = widen_bf16(a_in[a0 + k / 4u]);

        let bw0_0 = widen_bf16(b_in[b0 + (k + 0u) * p.b_k]);
        let bw0_1 = widen_bf16(b_in[b1 + (k + 0u) * p.b_k]);
        let bw1_0 = widen_bf16(b_in[b0 + (k + 1u) * p.b_k]);
        let bw1_1 = widen_bf16(b_in[b1 + (k + 1u) * p.b_k]);
        let bw2_0 = widen_bf16(b_in[b0 + (k + 2u) * p.b_k]);
        let bw2_1 = widen_bf16(b_in[b1 + (k + 2u) * p.b_k]);
        let bw3_0 = widen_bf16(b_in[b0 + (k + 3u) * p.b_k]);
        let bw3_1 = widen_bf16(b_in[b1 + (k + 3u) * p.b_k]);

        let y0_0 = bw0_0;
        c0_0 += av0.x * y0_0;
        let y0_1 = bw0_1;
        c0_1 += av0.x * y0_1;
        let y1_0 = bw1_0;
        c0_0 += av0.y * y1_0;
        let y1_1 = bw1_1;
        c0_1 += av0.y * y1_1;
        let y2_0 = bw2_0;
        c0_0 += av0.z * y2_0;
        let y2_1 = bw2_1;
        c0_1 += av0.z * y2_1;
        let y3_0 = bw3_0;
        c0_0 += av0.w * y3_0;
        let y3_1 = bw3_1;
        c0_1 += av0.w * y3_1;

    }
    let base = p.o_o + ob * p.o_b + ib * p.o_i + split * p.o_s;
    // A loop, because a call per row is most of what a software driver would compile.
    var results = array<vec4<f32>, 2>(
c0_0, c0_1, 
    );
    for (var r = 0u; r < 2u; r++) {
        let v = results[r];
        store(v.x, v.y, v.z, v.w, m0 + r / 2u, n0 + 4u * (r % 2u), base, ob, ib);
    }
}
