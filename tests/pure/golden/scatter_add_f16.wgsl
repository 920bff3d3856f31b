// scatter_sum_f162l, bindings rrw, 56 parameter bytes
fn f16_bits(x: f32) -> u32 {
    let u = bitcast<u32>(x);
    let sign = (u >> 16u) & 0x8000u;
    let m = u & 0x7fffffffu;
    let normal = (m - 0x38000000u + 0xfffu + ((m >> 13u) & 1u)) >> 13u;
    let tiny = bitcast<u32>(bitcast<f32>(m) + 0.5) - 0x3f000000u;
    var r = select(normal, tiny, m < 0x38800000u);
    r = select(r, 0x7c00u, m >= 0x477ff000u);
    r = select(r, 0x7e00u, m > 0x7f800000u);
    return sign | r;
}
struct P {
    n: u32,
    d0: u32,
    dst_o: u32,
    dst_s0: u32,
    dst_s1: u32,
    i0_o: u32,
    i0_s0: u32,
    i0_s1: u32,
    i0_limit: u32,
    i0_step: u32,
    i0_site: u32,
    val_o: u32,
    val_s0: u32,
    val_s1: u32,
}
@group(0) @binding(0) var<storage, read> b_val: array<u32>;
@group(0) @binding(1) var<storage, read> b_i0: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> b_dst: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read_write> faults: array<atomic<u32>>;

// An index as a position below `limit`, or position 0 for a bad one, of which the first is kept in `fault` to be
// reported. Both words of a 64-bit index count: a value past 2^31 is bad, not truncated. There is no branch, so that
// what is read through several indices is on its way at the same time.
var<private> bad: bool = false;
var<private> fault: vec4<u32>;  // site, low and high word, limit; no limit is 0

fn placed(low: u32, high: u32, limit: u32, site: u32) -> u32 {
    let fits = (high == 0u) & (low < limit);
    let wrapped = low + limit;
    let wraps = (high == 0xffffffffu) & (wrapped < limit) & ((site & 0x80000000u) != 0u);
    let good = fits | wraps;
    bad = bad | !good;
    fault = select(vec4<u32>(site, low, high, limit), fault, good | (fault.w != 0u));
    return select(select(0u, wrapped, wraps), low, fits);
}

fn report() {
    if (fault.w != 0u && atomicOr(&faults[0], 1u) == 0u) {
        atomicStore(&faults[1], fault.x);
        atomicStore(&faults[2], fault.y);
        atomicStore(&faults[3], fault.z);
        atomicStore(&faults[4], fault.w);
    }
}

fn checked(low: u32, high: u32, limit: u32, site: u32) -> u32 {
    let at = placed(low, high, limit, site);
    report();
    return at;
}

fn combine(a: f32, b: f32) -> f32 {
    let joined = (a + b);
    return joined;
}

fn put(element: u32) {
    var r = element;
    let c0 = r % p.d0;
    r = r / p.d0;
    let c1 = r;
    let vi = p.val_o + c0 * p.val_s0 + c1 * p.val_s1;
    let v = unpack2x16float(b_val[(vi) / 2u] >> (((vi) % 2u) * 16u)).x;
    var at = p.dst_o + c0 * p.dst_s0 + c1 * p.dst_s1;
    bad = false;
    let w0 = b_i0[p.i0_o + c0 * p.i0_s0 + c1 * p.i0_s1];
    at += placed(w0.x, w0.y, p.i0_limit, p.i0_site) * p.i0_step;
    if (bad) {
        report();
        return;
    }
    let shift = (at % 2u) * 16u;
    var now = atomicLoad(&b_dst[at / 2u]);
    loop {
        let next = (now & ~(0xffffu << shift)) | (f16_bits(combine(unpack2x16float(now >> (((at) % 2u) * 16u)).x, v)) << shift);
        if (next == now) { break; }
        let seen = atomicCompareExchangeWeak(&b_dst[at / 2u], now, next);
        if (seen.exchanged) { break; }
        now = seen.old_value;
    }
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let thread = gid.x + gid.y * nwg.x * 64u;
    for (var u = 0u; u < 8u; u++) {
        let element = (thread * 8u + u) * 1u;
        if (element >= p.n) {
            return;
        }
        put(element);
    }
}
