// Tiles of {{ tile }} elements: a thread looks at {{ per }} neighbours. The positions of a tile's nonzero elements are
// gathered in workgroup memory, so that what is written for them is written by neighbouring threads side by side.
{% include "text/interface.wgsl" %}

const THREADS = {{ threads }}u;
var<workgroup> partial: array<u32, {{ threads }}>;
{% if step != "count" %}
var<workgroup> found: array<u32, {{ tile }}>;
{% endif %}

// The sum over the workgroup of what each thread brings, up to and with the thread's own.
fn scanned(own: u32, thread: u32) -> u32 {
    var sum = own;
    partial[thread] = sum;
    workgroupBarrier();
{% for reach in reaches %}
    sum += select(0u, partial[max(thread, {{ reach }}u) - {{ reach }}u], thread >= {{ reach }}u);
    workgroupBarrier();
    partial[thread] = sum;
    workgroupBarrier();
{% endfor %}
    return sum;
}

// Which of four neighbours are not zero, as bits.
fn flags(g: u32) -> u32 {
    let e = g * 4u;
    if (e >= p.n) {
        return 0u;
    }
{% for line in load %}
    {{ line }}
{% endfor %}
    var bits = 0u;
{% for lane in lanes %}
    bits |= select(0u, {{ 2 ** loop.index0 }}u, {{ lane }});
{% endfor %}
    return bits & ((1u << min(p.n - e, 4u)) - 1u);
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let tile = group.x + group.y * groups.x;
    let first = tile * {{ tile // 4 }}u + thread * {{ per // 4 }}u;
    var bits = 0u;
{% for k in range(per // 4) %}
    bits |= flags(first + {{ k }}u) << {{ 4 * k }}u;
{% endfor %}
{% if step == "count" %}
    let all = scanned(countOneBits(bits), thread);
    if (thread == THREADS - 1u && tile * {{ tile }}u < p.n) {
        b_out[tile] = all;
    }
{% else %}
    // What comes before the tile: a prefix sum, or the sum of all tiles before this one.
{% if summed %}
    let base = select(0u, b_counts[max(tile, 1u) - 1u], tile > 0u);
{% else %}
    var before = 0u;
    for (var t = thread; t < tile; t += THREADS) {
        before += b_counts[min(t, p.tiles - 1u)];
    }
    _ = scanned(before, thread);
    let base = partial[THREADS - 1u];
    workgroupBarrier();
{% endif %}
    var place = scanned(countOneBits(bits), thread) - countOneBits(bits);
    var rest = bits;
    while (rest != 0u) {
        found[place] = thread * {{ per }}u + firstTrailingBit(rest);
        rest &= rest - 1u;
        place++;
    }
    let all = partial[THREADS - 1u];
    workgroupBarrier();
    for (var k = thread; k < all; k += THREADS) {
        let i = tile * {{ tile }}u + found[k];
        let at = base + k;
{% if step == "write" %}
        if (at < p.room) {
            var r = i;
{% for d in range(rank - 1, 0, -1) %}
            b_out[{{ d }}u * p.room + at] = vec2<u32>(r % p.d{{ d }}, 0u);
            r = r / p.d{{ d }};
{% endfor %}
            b_out[at] = vec2<u32>(r, 0u);
        }
{% elif step == "select" %}
        if (at < p.room) {
            let v = {{ read_value }};
            {{ write_out }}
        }
{% else %}
        bad = false;
        let place = placed(at, 0u, p.room, p.site);
        if (!bad) {
            let v = {{ read_value }};
            {{ write_out }}
        }
{% endif %}
    }
{% if step == "fill" %}
    report();
{% endif %}
{% endif %}
}
