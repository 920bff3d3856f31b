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
