{{ head }}
{% include "sort_element.wgsl" %}

// libstdc++'s std::sort, level by level: what it does to one segment does not depend on the others, so all segments of
// a level are split at once, and in a partition the i-th element from the left that is not before the pivot trades
// places with the i-th from the right that is not after it, until they meet: ranks say which those are. Equal values
// end in the CPU's order. A workgroup has a row to itself.
const TEAM = {{ workgroup }}u;
const MOST = {{ longest // 17 + 1 }}u;
const SMALL = 16u;

var<workgroup> sums: array<u32, TEAM>;
var<workgroup> segments: array<u32, {{ 2 * (longest // 17 + 1) }}>; // two lists of first | end << 16, in order
var<workgroup> opening: array<u32, MOST>; // the tally of its thread where a segment starts
var<workgroup> closing: array<u32, MOST>; // and where it ends
var<workgroup> trades: array<atomic<u32>, MOST>;
var<workgroup> cuts: array<atomic<u32>, MOST>;
var<workgroup> starts: array<atomic<u32>, {{ longest // 32 }}>; // a bit for each element that starts a segment
var<workgroup> count: u32;

fn before(a: E, b: E) -> bool {
    return a.x < b.x{{ " || (a.x == b.x && a.y < b.y)" if words == 2 }};
}

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

fn swap(i: u32, j: u32) {
    let x = b_work[i];
    b_work[i] = b_work[j];
    b_work[j] = x;
}

fn median_to_first(first: u32, a: u32, b: u32, c: u32) {
    let x = b_work[a];
    let y = b_work[b];
    let z = b_work[c];
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

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let row = wid.x + wid.y * nwg.x;
    if (row >= p.groups) {
        return;
    }
    let n = p.length;
    let base = row * n;
    for (var k = t; k < n; k += TEAM) {
        b_work[base + k] = fetch(row, k);
    }
    for (var k = t; k < {{ longest // 32 }}u; k += TEAM) {
        atomicStore(&starts[k], 0u);
    }
    if (t == 0u) {
        segments[0] = n << 16u;
        count = select(0u, 1u, n > SMALL);
    }
    // A thread's own stretch of the row.
    let stretch = (n + TEAM - 1u) / TEAM;
    let low = min(t * stretch, n);
    let high = min(low + stretch, n);
    let depth = 2u * firstLeadingBit(n);
    var list = 0u;
    var level = 0u;
    meet();
    loop {
        let open = workgroupUniformLoad(&count);
        if (open == 0u) {
            break;
        }
        for (var s = t; s < open; s += TEAM) {
            let first = segments[list + s] & 0xffffu;
            let end = segments[list + s] >> 16u;
            let at = base + first;
            let size = end - first;
            if (level < depth) {
                median_to_first(at, at + 1u, at + size / 2u, at + size - 1u);
            } else {
                // Where std::sort gives up and heaps, pivots are drawn: values are in order, equal ones in any.
                let others = size - 1u;
                let a = ((first + level) * 2654435769u >> 8u) % others;
                median_to_first(at, at + 1u + a, at + 1u + (a + others / 3u) % others,
                                at + 1u + (a + 2u * (others / 3u)) % others);
            }
            atomicStore(&trades[s], 0u);
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
        // One loop over the stretch in each step, so that threads of a subgroup stay together.
        var tally = 0u;
        var reach = 0u; // bits of the elements not before their pivots
        var under = 0u; // and of those not after them
        var now = segment(list, here, open);
        var pivot = b_work[base + min(now.x, n - 1u)];
        for (var k = low; k < high; k++) {
            if (k >= now.y) {
                here++;
                now = segment(list, here, open);
                pivot = b_work[base + min(now.x, n - 1u)];
            }
            if (k == now.x) {
                opening[here] = tally;
            } else if (k > now.x) {
                let x = b_work[base + k];
                let side = vec2<u32>(select(1u, 0u, before(x, pivot)), select(1u, 0u, before(pivot, x)));
                reach |= side.x << (k - low);
                under |= side.y << (k - low);
                tally += side.x | (side.y << 16u);
            }
            if (k + 1u == now.y) {
                closing[here] = tally;
            }
        }
        tally = sum_before(t, tally);
        here = start;
        now = segment(list, here, open);
        var edges = edges_of(now, here, stretch);
        var traded = 0u;
        var cut = 0xffffffffu;
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
                if (not_before != 0u && left < right) {
                    b_out[base + now.x + 1u + left].x = k;
                    traded = left + 1u;
                } else if (not_after != 0u && right < left) {
                    b_out[base + now.y - 1u - right].x = k;
                    cut = min(cut, k);
                } else if (not_before != 0u) {
                    cut = min(cut, k);
                }
                if (k + 1u == min(now.y, high)) {
                    atomicMax(&trades[here], traded);
                    atomicMin(&cuts[here], cut);
                    traded = 0u;
                    cut = 0xffffffffu;
                }
            }
        }
        meet();
        here = start;
        now = segment(list, here, open);
        for (var k = low; k < high; k++) {
            if (k >= now.y) {
                here++;
                now = segment(list, here, open);
            }
            if (k > now.x) {
                if (k - now.x <= atomicLoad(&trades[here])) {
                    swap(base + b_out[base + k].x, base + b_out[base + now.y + now.x - k].x);
                }
            }
        }
        let share = (open + TEAM - 1u) / TEAM;
        let mine = min(t * share, open);
        let others = min(mine + share, open);
        var children = 0u;
        for (var s = mine; s < others; s++) {
            let cut = atomicLoad(&cuts[s]);
            children += select(0u, 1u, cut - (segments[list + s] & 0xffffu) > SMALL);
            children += select(0u, 1u, (segments[list + s] >> 16u) - cut > SMALL);
            atomicOr(&starts[cut / 32u], 1u << (cut % 32u));
        }
        var to = MOST - list + sum_before(t, children);
        if (t == TEAM - 1u) {
            count = sums[t];
        }
        for (var s = mine; s < others; s++) {
            let cut = atomicLoad(&cuts[s]);
            let first = segments[list + s] & 0xffffu;
            let end = segments[list + s] >> 16u;
            if (cut - first > SMALL) {
                segments[to] = first | (cut << 16u);
                to++;
            }
            if (end - cut > SMALL) {
                segments[to] = cut | (end << 16u);
                to++;
            }
        }
        list = MOST - list;
        level++;
        meet();
    }
    // std::sort ends with insertions, which are stable, and no further than a segment: an element's place is its rank.
    for (var k = t; k < n; k += TEAM) {
        let word = k / 32u;
        let up_to = 0xffffffffu >> (31u - k % 32u);
        let here = atomicLoad(&starts[word]);
        var first = 0u;
        if ((here & up_to) != 0u) {
            first = word * 32u + firstLeadingBit(here & up_to);
        } else if (word > 0u) {
            first = (word - 1u) * 32u + firstLeadingBit(atomicLoad(&starts[word - 1u]));
        }
        var end = n;
        if ((here & ~up_to) != 0u) {
            end = word * 32u + firstTrailingBit(here & ~up_to);
        } else if (word + 1u < {{ longest // 32 }}u) {
            let next = atomicLoad(&starts[word + 1u]);
            if (next != 0u) {
                end = (word + 1u) * 32u + firstTrailingBit(next);
            }
        }
        let x = b_work[base + k];
        var rank = first;
        for (var j = first; j < end; j++) {
            let y = b_work[base + j];
            rank += select(0u, 1u, before(y, x) || (j < k && !before(x, y)));
        }
        b_out[base + rank] = x;
    }
}
