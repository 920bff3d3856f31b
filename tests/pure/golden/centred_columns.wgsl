// centred_f32v_f32v_f32_q8x1_11, bindings rw, 40 parameter bytes
struct P {
    m: u32,
    k: u32,
    split: u32,
    base: u32,
    a_o: u32,
    a_s0: u32,
    a_r0: u32,
    y_o: u32,
    y_s0: u32,
    y_r0: u32,
}
@group(0) @binding(0) var<storage, read> memory_a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> memory_y: array<vec4<f32>>;

struct S {
    acc: f32,
}
struct R {
    out: f32,
}
struct Y {
    y: f32,
}

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
    let out = (s.acc / f32(p.k));
    return R(out);
}

fn emit(a: f32, r: R, i: u32) -> Y {
    let y = (a - r.out);
    return Y(y);
}

@compute @workgroup_size(8)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let group = wid.x + wid.y * nwg.x;
    // Neighbouring groups take neighbouring rows, whose elements are neighbours in memory.
    let blocks = (p.m + 7u) / 8u;
    let part = group / blocks;
    let y = lid / 8u;
    let row = (group % blocks) * 8u + lid % 8u;
    let live = row < p.m && part < p.split;
    if (!live) {
        return;
    }
    let o = row;
    let c0 = (o) * 4u;
    let a_b = p.a_o + c0 * p.a_s0;
    let y_b = p.y_o + c0 * p.y_s0;
    let first = part * 1u + y;
    let slots = p.split * 1u;
    let n = p.k;
    // A range of its own for each thread: software adapters prefetch along it.
    let chunk = (n + slots - 1u) / slots;
    let start = first * chunk;
    let stop = min(n, start + chunk);
    let stride = 1u;
    var total0 = init();
    var total1 = init();
    var total2 = init();
    var total3 = init();
    var at = start;
    // Runs of bounded length keep the rounding error of long sums down.
    while (at < stop) {
        let end = min(stop, at + stride * 256u);
        var s0 = init();
        var s1 = init();
        var s2 = init();
        var s3 = init();
        for (; at < end; at += stride) {
            let g = at;
            let k0 = g;
            let av = memory_a[(a_b + k0 * p.a_r0) / 4u];
            s0 = step(s0, av.x, p.base + g);
            s1 = step(s1, av.y, p.base + g);
            s2 = step(s2, av.z, p.base + g);
            s3 = step(s3, av.w, p.base + g);
        }
        total0 = combine(total0, s0);
        total1 = combine(total1, s1);
        total2 = combine(total2, s2);
        total3 = combine(total3, s3);
    }
    let r0 = finish(total0);
    let r1 = finish(total1);
    let r2 = finish(total2);
    let r3 = finish(total3);
    if (live) {
        for (at = start; at < stop; at += stride) {
            let g = at;
            let k0 = g;
            let av = memory_a[(a_b + k0 * p.a_r0) / 4u];
            let y0 = emit(av.x, r0, g);
            let y1 = emit(av.y, r1, g);
            let y2 = emit(av.z, r2, g);
            let y3 = emit(av.w, r3, g);
            let yw0 = y0.y;
            let yw1 = y1.y;
            let yw2 = y2.y;
            let yw3 = y3.y;
            memory_y[(y_b + k0 * p.y_r0) / 4u] = vec4<f32>(yw0, yw1, yw2, yw3);
        }
    }
}
