{% include "text/interface.wgsl" %}

{% if packed %}
// An element on its way: a key of 16 bits that orders as the values do, then its index.
alias E = u32;

fn fetch(row: u32, j: u32) -> E {
    let i = (row / p.inner * p.length + j) * p.inner + row % p.inner;
    var u = u32({{ a("i") }}) & 0xffffu;
{% if infinity %}
    // NaN is one key above infinity; both zeros are one key.
    let size = u & 0x7fffu;
    if (size > {{ infinity }}u) {
        u = 0xffffu;
    } else {
        u = select(u | 0x8000u, u ^ 0xffffu, u > 0x8000u);
    }
{% elif signed %}
    u = u ^ 0x8000u;
{% endif %}
    return ((u ^ (p.flip & 0xffffu)) << 16u) | j;
}

fn before(a: E, b: E) -> bool {
    return (a >> 16u) < (b >> 16u);
}

fn pair(x: E) -> vec2<u32> {
    return vec2<u32>(x >> 16u, x & 0xffffu);
}

fn unpair(x: vec2<u32>) -> E {
    return (x.x << 16u) | x.y;
}

var<workgroup> work: array<E, {{ capacity }}>;
{% else %}
{% include "sort/element.wgsl" %}

fn before(a: E, b: E) -> bool {
    return a.x < b.x{{ " || (a.x == b.x && a.y < b.y)" if words == 2 }};
}

fn pair(x: E) -> E {
    return x;
}

fn unpair(x: E) -> E {
    return x;
}
{% endif %}

// libstdc++'s std::sort, level by level: what it does to one segment does not depend on the others, so all segments of
// a level are split at once, and in a partition the i-th element from the left that is not before the pivot trades
// places with the i-th from the right that is not after it, until they meet: ranks say which those are. Segments of up
// to SHORT are then split by a thread each. Equal values end in the CPU's order. A workgroup has a row to itself.
const TEAM = {{ workgroup }}u;
const SHORT = {{ short }}u;
const MOST = {{ most }}u;
const SMALL = 16u; // what std::sort leaves to its last pass

var<private> base: u32; // of the row in what is bound
var<workgroup> sums: array<u32, TEAM>;
var<workgroup> segments: array<u32, {{ 2 * most }}>; // two lists of first | end << 16, in order
var<workgroup> opening: array<u32, MOST>; // the tally of its thread where a segment starts
var<workgroup> closing: array<u32, MOST>; // and where it ends
var<workgroup> cuts: array<atomic<u32>, MOST>;
var<workgroup> starts: array<atomic<u32>, {{ longest // 32 }}>; // a bit for each element that starts a segment
var<workgroup> count: u32;

fn meet() {
    storageBarrier();
    workgroupBarrier();
}

// The sum of the values of the threads before this one; `sums` keeps the sums up to each thread.
fn sum_before(t: u32, value: u32) -> u32 {
    sums[t] = value;
    workgroupBarrier();
    for (var s = 1u; s < TEAM; s = s * 2u) {
        var x = sums[t];
        if (t >= s) {
            x += sums[t - s];
        }
        workgroupBarrier();
        sums[t] = x;
        workgroupBarrier();
    }
    return sums[t] - value;
}

fn tally_before(thread: u32) -> u32 {
    if (thread == 0u) {
        return 0u;
    }
    return sums[thread - 1u];
}

fn element_at(i: u32) -> E {
    return {{ "work[i]" if packed else "b_work[base + i]" }};
}

fn place(i: u32, x: E) {
    {{ "work[i]" if packed else "b_work[base + i]" }} = x;
}

fn swap(i: u32, j: u32) {
    let x = element_at(i);
    place(i, element_at(j));
    place(j, x);
}

fn median_to_first(first: u32, a: u32, b: u32, c: u32) {
    let x = element_at(a);
    let y = element_at(b);
    let z = element_at(c);
    var chosen = b;
    if (before(x, y)) {
        if (!before(y, z)) { chosen = select(a, c, before(x, z)); }
    } else if (before(x, z)) {
        chosen = a;
    } else if (before(y, z)) {
        chosen = c;
    }
    swap(first, chosen);
}

fn starts_at(i: u32) {
    atomicOr(&starts[i / 32u], 1u << (i % 32u));
}

// The next element after k that starts a segment, at most SHORT away.
fn next_start(k: u32) -> u32 {
    var word = k / 32u;
    var bits = atomicLoad(&starts[word]) & ~(0xffffffffu >> (31u - k % 32u));
    for (var n = 0u; n < {{ short // 32 + 1 }}u && bits == 0u && word + 1u < {{ longest // 32 }}u; n++) {
        word++;
        bits = atomicLoad(&starts[word]);
    }
    if (bits == 0u) {
        return p.length;
    }
    return word * 32u + firstTrailingBit(bits);
}

// Where an open segment begins and ends; the one past the last has no elements.
fn segment(list: u32, s: u32, open: u32) -> vec2<u32> {
    if (s >= open) {
        return vec2<u32>(0xffffffffu);
    }
    return vec2<u32>(segments[list + s] & 0xffffu, segments[list + s] >> 16u);
}

// How many elements of the row not before their pivots come before a segment, and how many not after them before its end.
fn edges_of(now: vec2<u32>, s: u32, stretch: u32) -> vec2<u32> {
    if (now.x == 0xffffffffu) {
        return vec2<u32>(0u);
    }
    let opened = tally_before(now.x / stretch) + opening[s];
    let closed = tally_before((now.y - 1u) / stretch) + closing[s];
    return vec2<u32>(opened & 0xffffu, closed >> 16u);
}

// std::sort of a short segment but for its last pass; the longer part of each cut waits.
fn split(from_: u32, to: u32) {
    var waiting: array<u32, 8>;
    var top = 0u;
    var first = from_;
    var end = to;
    loop {
        while (end - first > SMALL) {
            median_to_first(first, first + 1u, first + (end - first) / 2u, end - 1u);
            let pivot = element_at(first);
            var i = first + 1u;
            var j = end;
            loop {
                while (before(element_at(i), pivot)) { i++; }
                j--;
                while (before(pivot, element_at(j))) { j--; }
                if (i >= j) { break; }
                swap(i, j);
                i++;
            }
            starts_at(i);
            if (i - first > end - i) {
                waiting[top] = first | (i << 16u);
                first = i;
            } else {
                waiting[top] = i | (end << 16u);
                end = i;
            }
            top++;
        }
        if (top == 0u) {
            break;
        }
        top--;
        first = waiting[top] & 0xffffu;
        end = waiting[top] >> 16u;
    }
}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let row = wid.x + wid.y * nwg.x;
    if (row >= p.groups) {
        return;
    }
    let n = p.length;
    base = row * n;
    for (var k = t; k < n; k += TEAM) {
        place(k, fetch(row, k));
    }
    for (var k = t; k < {{ longest // 32 }}u; k += TEAM) {
        atomicStore(&starts[k], 0u);
    }
    if (t == 0u) {
        segments[0] = n << 16u;
        count = select(0u, 1u, n > SHORT);
    }
    // A thread's own stretch of the row.
    let stretch = (n + TEAM - 1u) / TEAM;
    let low = min(t * stretch, n);
    let high = min(low + stretch, n);
    let depth = 2u * firstLeadingBit(n);
    var list = 0u;
    var level = 0u;
    meet();
    if (t == 0u) {
        starts_at(0u);
    }
    loop {
        let open = workgroupUniformLoad(&count);
        if (open == 0u) {
            break;
        }
        for (var s = t; s < open; s += TEAM) {
            let at = segments[list + s] & 0xffffu;
            let size = (segments[list + s] >> 16u) - at;
            if (level < depth) {
                median_to_first(at, at + 1u, at + size / 2u, at + size - 1u);
            } else {
                // Where std::sort gives up and heaps, pivots are drawn: values are in order, equal ones in any.
                let others = size - 1u;
                let a = (((at + level) * 2654435769u) >> 8u) % others;
                median_to_first(at, at + 1u + a, at + 1u + (a + others / 3u) % others,
                                at + 1u + (a + 2u * (others / 3u)) % others);
            }
            atomicStore(&cuts[s], 0xffffffffu);
        }
        meet();
        // The first segment that ends in or after the stretch.
        var here = 0u;
        var bound = open;
        while (here < bound) {
            let mid = (here + bound) / 2u;
            if ((segments[list + mid] >> 16u) > low) {
                bound = mid;
            } else {
                here = mid + 1u;
            }
        }
        let start = here;
        // One loop over the stretch in each pass, so that threads of a subgroup stay together.
        var now = segment(list, here, open);
        var pivot = element_at(min(now.x, n - 1u));
        var tally = 0u;
        var reach = 0u; // bits of the elements not before their pivots
        var under = 0u; // and of those not after them
        for (var k = low; k < high; k++) {
            if (k >= now.y) {
                here++;
                now = segment(list, here, open);
                pivot = element_at(min(now.x, n - 1u));
            }
            if (k == now.x) {
                opening[here] = tally;
            } else if (k > now.x) {
                let x = element_at(k);
                let side = vec2<u32>(select(1u, 0u, before(x, pivot)), select(1u, 0u, before(pivot, x)));
                reach |= side.x << (k - low);
                under |= side.y << (k - low);
                tally += side.x | (side.y << 16u);
            }
            if (k + 1u == now.y) {
                closing[here] = tally;
            }
        }
        let before_all = sum_before(t, tally);
        tally = before_all;
        here = start;
        now = segment(list, here, open);
        var edges = edges_of(now, here, stretch);
        var cut = 0xffffffffu;
        var trading = 0u; // bits of the elements that trade places
        for (var k = low; k < high; k++) {
            if (k >= now.y) {
                here++;
                now = segment(list, here, open);
                edges = edges_of(now, here, stretch);
            }
            if (k > now.x) {
                let not_before = (reach >> (k - low)) & 1u;
                let not_after = (under >> (k - low)) & 1u;
                let left = (tally & 0xffffu) - edges.x;
                tally += not_before | (not_after << 16u);
                let right = edges.y - (tally >> 16u);
                // Traders meet in a place that both know.
                if (not_before != 0u && left < right) {
                    b_out[base + now.x + 1u + left] = pair(element_at(k));
                    trading |= 1u << (k - low);
                } else if (not_after != 0u && right < left) {
                    b_out[base + now.y - 1u - right] = pair(element_at(k));
                    trading |= 1u << (k - low);
                    cut = min(cut, k);
                } else if (not_before != 0u) {
                    cut = min(cut, k);
                }
                if (k + 1u == min(now.y, high)) {
                    atomicMin(&cuts[here], cut);
                    cut = 0xffffffffu;
                }
            }
        }
        meet();
        tally = before_all;
        here = start;
        now = segment(list, here, open);
        edges = edges_of(now, here, stretch);
        for (var k = low; k < high; k++) {
            if (k >= now.y) {
                here++;
                now = segment(list, here, open);
                edges = edges_of(now, here, stretch);
            }
            if (k > now.x) {
                let not_before = (reach >> (k - low)) & 1u;
                let left = (tally & 0xffffu) - edges.x;
                tally += not_before | (((under >> (k - low)) & 1u) << 16u);
                let right = edges.y - (tally >> 16u);
                if (((trading >> (k - low)) & 1u) != 0u) {
                    let at = select(now.x + 1u + right, now.y - 1u - left, not_before != 0u && left < right);
                    place(k, unpair(b_out[base + at]));
                }
            }
        }
        workgroupBarrier(); // `sums` has been read
        let share = (open + TEAM - 1u) / TEAM;
        let mine = min(t * share, open);
        let others = min(mine + share, open);
        var children = 0u;
        for (var s = mine; s < others; s++) {
            let at = atomicLoad(&cuts[s]);
            children += select(0u, 1u, at - (segments[list + s] & 0xffffu) > SHORT);
            children += select(0u, 1u, (segments[list + s] >> 16u) - at > SHORT);
            starts_at(at);
        }
        var to = MOST - list + sum_before(t, children);
        if (t == TEAM - 1u) {
            count = sums[t];
        }
        for (var s = mine; s < others; s++) {
            let at = atomicLoad(&cuts[s]);
            let first = segments[list + s] & 0xffffu;
            let end = segments[list + s] >> 16u;
            if (at - first > SHORT) {
                segments[to] = first | (at << 16u);
                to++;
            }
            if (end - at > SHORT) {
                segments[to] = at | (end << 16u);
                to++;
            }
        }
        list = MOST - list;
        level++;
        meet();
    }
    var mine = 0u; // bits of the segments that start in the stretch; splitting them makes more
    for (var k = low; k < high; k++) {
        mine |= ((atomicLoad(&starts[k / 32u]) >> (k % 32u)) & 1u) << (k - low);
    }
    workgroupBarrier();
    while (mine != 0u) {
        let k = low + firstTrailingBit(mine);
        split(k, next_start(k));
        mine &= mine - 1u;
    }
    meet();
    // std::sort ends with insertions, which are stable, and no further than a segment: an element's place is its rank.
    for (var k = t; k < n; k += TEAM) {
        let word = k / 32u;
        let bits = atomicLoad(&starts[word]) & (0xffffffffu >> (31u - k % 32u));
        var first = word * 32u + firstLeadingBit(bits);
        if (bits == 0u) {
            first = (word - 1u) * 32u + firstLeadingBit(atomicLoad(&starts[word - 1u]));
        }
        let end = next_start(k);
        let x = element_at(k);
        var rank = first;
        for (var j = first; j < end; j++) {
            let y = element_at(j);
            rank += select(0u, 1u, before(y, x) || (j < k && !before(x, y)));
        }
        b_out[base + rank] = pair(x);
    }
}
