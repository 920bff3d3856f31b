{% include "text/interface.wgsl" %}

// One pass over one dimension in whole numbers, as torch's CPU kernel does: weights scaled by a power of two, the sum
// rounded and clamped to a byte.
fn at(i: u32) -> i32 {
    let inner = i % p.inner;
    let rest = i / p.inner;
    let o = rest % p.outs;
    let base = (rest / p.outs) * p.size;
    let low = {{ low("o") }};
    var sum = 1 << (p.bits - 1u);
    for (var k = 0u; k < p.taps; k++) {
        let j = (base + u32(clamp(low + i32(k), 0, i32(p.size) - 1))) * p.inner + inner;
        let w = o * p.taps + k;
        sum += {{ weight("w") }} * {{ a("j") }};
    }
    return clamp(sum >> p.bits, 0, 255);
}
{% include "text/by_index.wgsl" %}
