// An index as a position below `limit`, or a report of the first bad one and position 0. Both words of a 64-bit
// index count: a value past 2^31 is bad, not truncated.
var<private> bad: bool = false;

fn checked(low: u32, high: u32, limit: u32, site: u32) -> u32 {
    if (high == 0u && low < limit) {
        return low;
    }
    let wrapped = low + limit;
    if (high == 0xffffffffu && wrapped < limit && (site & 0x80000000u) != 0u) {
        return wrapped;
    }
    bad = true;
    if (atomicOr(&faults[0], 1u) == 0u) {
        atomicStore(&faults[1], site);
        atomicStore(&faults[2], low);
        atomicStore(&faults[3], high);
        atomicStore(&faults[4], limit);
    }
    return 0u;
}
