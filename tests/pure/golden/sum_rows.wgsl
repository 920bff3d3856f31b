// sum_bf16v_bf16_r8x32_11, bindings rw, 36 parameter bytes
fn bf16_bits(x: f32) -> u32 {
    let u = bitcast<u32>(x);
    let rounded = (u + 0x7fffu + ((u >> 16u) & 1u)) >> 16u;
    return select(rounded, 0x7fc0u, (u & 0x7fffffffu) > 0x7f800000u);
}
struct P {
    m: u32,
    k: u32,
    split: u32,
    base: u32,
    a_o: u32,
    a_s0: u32,
    a_r0: u32,
    out_o: u32,
    out_s0: u32,
}
@group(0) @binding(0) var<storage, read> memory_a: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read_write> memory_out: array<atomic<u32>>;

struct S {
    acc: f32,
}
struct R {
    out: f32,
}
var<workgroup> shared_state: array<S, 256>;

fn init() -> S {
    return S(0.0);
}

fn step(s: S, a: f32, i: u32) -> S {
    let next = (s.acc + a);
    return S(next);
}

fn combine(s: S, o: S) -> S {
    let next = (s.acc + o.acc);
    return S(next);
}

fn finish(s: S) -> R {
    let out = s.acc;
    return R(out);
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let group = wid.x + wid.y * nwg.x;
    let part = group % p.split;
    let y = lid % 32u;
    let row = (group / p.split) * 8u + lid / 32u;
    let live = row < p.m;
    // Threads past the last row repeat it, so that all of them meet at the barriers.
    let o = min(row, p.m - 1u);
    let c0 = o;
    let a_b = p.a_o + c0 * p.a_s0;
    let out_b = p.out_o + c0 * p.out_s0;
    let first = part * 32u + y;
    let slots = p.split * 32u;
    let n = p.k / 4u;
    let start = first;
    let stop = n;
    let stride = slots;
    var total0 = init();
    var at = start;
    // Runs of bounded length keep the rounding error of long sums down.
    while (at < stop) {
        let end = min(stop, at + stride * 256u);
        var s0 = init();
        var s1 = init();
        var s2 = init();
        var s3 = init();
        // Several loads in flight before the first is used.
        for (; at + 3u * stride < end; at += 4u * stride) {
            {
                let g = at + 0u * stride;
                let k0 = g * 4u;
                let av_w = memory_a[(a_b + k0) / 4u];
                let av = bitcast<vec4<f32>>(vec4<u32>(av_w.x << 16u, av_w.x & 0xffff0000u, av_w.y << 16u, av_w.y & 0xffff0000u));
                s0 = step(s0, av.x, p.base + g * 4u + 0u);
                s1 = step(s1, av.y, p.base + g * 4u + 1u);
                s2 = step(s2, av.z, p.base + g * 4u + 2u);
                s3 = step(s3, av.w, p.base + g * 4u + 3u);
            }
            {
                let g = at + 1u * stride;
                let k0 = g * 4u;
                let av_w = memory_a[(a_b + k0) / 4u];
                let av = bitcast<vec4<f32>>(vec4<u32>(av_w.x << 16u, av_w.x & 0xffff0000u, av_w.y << 16u, av_w.y & 0xffff0000u));
                s0 = step(s0, av.x, p.base + g * 4u + 0u);
                s1 = step(s1, av.y, p.base + g * 4u + 1u);
                s2 = step(s2, av.z, p.base + g * 4u + 2u);
                s3 = step(s3, av.w, p.base + g * 4u + 3u);
            }
            {
                let g = at + 2u * stride;
                let k0 = g * 4u;
                let av_w = memory_a[(a_b + k0) / 4u];
                let av = bitcast<vec4<f32>>(vec4<u32>(av_w.x << 16u, av_w.x & 0xffff0000u, av_w.y << 16u, av_w.y & 0xffff0000u));
                s0 = step(s0, av.x, p.base + g * 4u + 0u);
                s1 = step(s1, av.y, p.base + g * 4u + 1u);
                s2 = step(s2, av.z, p.base + g * 4u + 2u);
                s3 = step(s3, av.w, p.base + g * 4u + 3u);
            }
            {
                let g = at + 3u * stride;
                let k0 = g * 4u;
                let av_w = memory_a[(a_b + k0) / 4u];
                let av = bitcast<vec4<f32>>(vec4<u32>(av_w.x << 16u, av_w.x & 0xffff0000u, av_w.y << 16u, av_w.y & 0xffff0000u));
                s0 = step(s0, av.x, p.base + g * 4u + 0u);
                s1 = step(s1, av.y, p.base + g * 4u + 1u);
                s2 = step(s2, av.z, p.base + g * 4u + 2u);
                s3 = step(s3, av.w, p.base + g * 4u + 3u);
            }
        }
        for (; at < end; at += stride) {
            let g = at;
            let k0 = g * 4u;
            let av_w = memory_a[(a_b + k0) / 4u];
            let av = bitcast<vec4<f32>>(vec4<u32>(av_w.x << 16u, av_w.x & 0xffff0000u, av_w.y << 16u, av_w.y & 0xffff0000u));
            s0 = step(s0, av.x, p.base + g * 4u + 0u);
            s1 = step(s1, av.y, p.base + g * 4u + 1u);
            s2 = step(s2, av.z, p.base + g * 4u + 2u);
            s3 = step(s3, av.w, p.base + g * 4u + 3u);
        }
        s0 = combine(combine(s0, s1), combine(s2, s3));
        total0 = combine(total0, s0);
    }
    if (first == 0u && n * 4u < p.k) {
        let g = n;
        let k0 = g * 4u;
        let av_w = memory_a[(a_b + k0) / 4u];
        let av = bitcast<vec4<f32>>(vec4<u32>(av_w.x << 16u, av_w.x & 0xffff0000u, av_w.y << 16u, av_w.y & 0xffff0000u));
        if (n * 4u + 0u < p.k) {
            total0 = step(total0, av.x, p.base + n * 4u + 0u);
        }
        if (n * 4u + 1u < p.k) {
            total0 = step(total0, av.y, p.base + n * 4u + 1u);
        }
        if (n * 4u + 2u < p.k) {
            total0 = step(total0, av.z, p.base + n * 4u + 2u);
        }
    }
    shared_state[lid + 0u] = total0;
    workgroupBarrier();
    for (var h = 16u; h > 0u; h /= 2u) {
        if (y < h) {
            let other = lid + h;
            shared_state[lid + 0u] = combine(shared_state[lid + 0u], shared_state[other + 0u]);
        }
        workgroupBarrier();
    }
    let leader = lid - y;
    total0 = shared_state[leader + 0u];
    let r0 = finish(total0);
    if (live && y == 0u) {
        let outi0 = out_b;
        let outw0 = r0.out;
        { atomicAnd(&memory_out[(outi0) / 2u], ~(0xffffu << (((outi0) % 2u) * 16u))); atomicOr(&memory_out[(outi0) / 2u], bf16_bits(outw0) << (((outi0) % 2u) * 16u)); }
    }
}
