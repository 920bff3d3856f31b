{% include "text/interface.wgsl" %}

{% include "sort/element.wgsl" %}

// The passes so far that found a difference; the others left everything where it was: as values, or in one or two.
fn passes() -> u32 {
    var c = 0u;
    for (var i = 0u; i < p.turn; i++) { c += b_flags[i]; }
    return c;
}

fn pair(row: u32, j: u32, passed: u32) -> E {
    if (passed == 0u) {
        return element(row / p.inner, j, row % p.inner);
    }
    if (passed % 2u == 1u) {
        return b_one[row * p.length + j];
    }
    return b_two[row * p.length + j];
}

fn digit(e: E) -> u32 {
{% if words == 1 %}
    return (e.x >> p.shift) & 255u;
{% else %}
    return (select(e.y, e.x, p.shift >= 32u) >> (p.shift & 31u)) & 255u;
{% endif %}
}
{% if kind == "count" %}

var<workgroup> bins: array<atomic<u32>, 256>;

// How often each digit occurs in a block of a row, and whether there is more than one in it.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.groups) {
        return;
    }
    let row = group / p.blocks;
    let start = (group % p.blocks) * p.span;
    let end = min(start + p.span, p.length);
    let passed = passes();
    let usual = digit(pair(row, 0u, passed));
    atomicStore(&bins[t], 0u);
    workgroupBarrier();
    var differs = false;
    for (var j = start + t; j < end; j += 256u) {
        let d = digit(pair(row, j, passed));
        differs = differs || d != usual;
        atomicAdd(&bins[d], 1u);
    }
    if (differs) {
        b_flags[p.turn] = 1u;
    }
    workgroupBarrier();
    b_counts[group * 256u + t] = atomicLoad(&bins[t]);
}
{% elif kind == "scatter" %}

const TEAMS = 16u;
var<workgroup> places: array<atomic<u32>, 4096>;
var<workgroup> sums: array<u32, 64>;

// Where this lane's element goes: after those of its digit that came before, and the lanes before that have the same.
fn rank(d: u32, live: bool, lane: u32, own: u32, below: vec4<u32>) -> u32 {
    var same = subgroupBallot(live);
{% for bit in range(8) %}
    let has{{ bit }} = subgroupBallot((d & {{ 2 ** bit }}u) != 0u);
    same &= select(~has{{ bit }}, has{{ bit }}, (d & {{ 2 ** bit }}u) != 0u);
{% endfor %}
    var first = firstTrailingBit(same.x);
{% for c in range(1, 4) %}
    first = select(first, {{ 32 * c }}u + firstTrailingBit(same.{{ "xyzw"[c] }}), {% for b in range(c) %}same.{{ "xyzw"[b] }} == 0u && {% endfor %}same.{{ "xyzw"[c] }} != 0u);
{% endfor %}
    let n = countOneBits(same);
    var to = 0u;
    if (live && lane == first) {
        to = atomicAdd(&places[own + d], n.x + n.y + n.z + n.w);
    }
    let b = countOneBits(same & below);
    return subgroupShuffle(to, select(0u, first, live)) + b.x + b.y + b.z + b.w;
}

// A block of a row goes where its elements' digits belong, in the order they come. Each subgroup has a part of the block
// and counts its digits first.
@compute @workgroup_size(512)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) t: u32,
    @builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_size) lanes: u32, @builtin(subgroup_id) sub: u32,
    @builtin(num_subgroups) subs: u32,
) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.groups || b_flags[p.turn] == 0u) {
        return;
    }
    let row = group / p.blocks;
    let block = group % p.blocks;
    let passed = passes();

    // Four digits and every eighth block a thread.
    var all = vec4<u32>(0u);
    var before = vec4<u32>(0u);
    for (var b = t / 64u; b < p.blocks; b += 32u) {
{% for u in range(4) %}
        let b{{ u }} = b + {{ 8 * u }}u;
        let n{{ u }} = b_counts[(row * p.blocks + min(b{{ u }}, p.blocks - 1u)) * 64u + t % 64u];
{% endfor %}
{% for u in range(4) %}
        all += select(vec4<u32>(0u), n{{ u }}, b{{ u }} < p.blocks);
        before += select(vec4<u32>(0u), n{{ u }}, b{{ u }} < block);
{% endfor %}
    }
{% for c in range(4) %}
    atomicStore(&places[t / 64u * 512u + t % 64u * 4u + {{ c }}u], all[{{ c }}]);
    atomicStore(&places[t / 64u * 512u + 256u + t % 64u * 4u + {{ c }}u], before[{{ c }}]);
{% endfor %}
    workgroupBarrier();
    // Half of the threads have a digit each: where it begins in the row, for this block.
    var total = 0u;
    var base = 0u;
    if (t < 256u) {
        for (var s = 0u; s < 8u; s++) {
            total += atomicLoad(&places[s * 512u + t]);
            base += atomicLoad(&places[s * 512u + 256u + t]);
        }
    }
    let earlier = subgroupExclusiveAdd(total);
    let sum = subgroupAdd(total);
    if (lane == 0u) { sums[sub] = sum; }
    workgroupBarrier();
    base += earlier;
    for (var s = 0u; s < sub; s++) { base += sums[s]; }
    for (var i = t; i < 4096u; i += 512u) { atomicStore(&places[i], 0u); }
    workgroupBarrier();

    let teams = min(subs, TEAMS);
    let part = (p.span + teams - 1u) / teams;
    let start = min(block * p.span + sub * part, p.length);
    let stop = select(start, min(min(start + part, (block + 1u) * p.span), p.length), sub < teams);
    let own = min(sub, TEAMS - 1u) * 256u;
    for (var j = start + lane; j < stop; j += lanes) {
        atomicAdd(&places[own + digit(pair(row, j, passed))], 1u);
    }
    workgroupBarrier();
    if (t < 256u) {
        for (var s = 0u; s < teams; s++) {
            let n = atomicLoad(&places[s * 256u + t]);
            atomicStore(&places[s * 256u + t], base);
            base += n;
        }
    }
    workgroupBarrier();
    let below = vec4<u32>(
{% for c in range(4) %}
        select(select((1u << (lane & 31u)) - 1u, 0xffffffffu, lane >= {{ 32 * c + 32 }}u), 0u, lane < {{ 32 * c }}u),
{% endfor %}
    );
    let odd = passed % 2u == 1u;
    let rounds = (stop - start + lanes - 1u) / lanes;
    for (var r = 0u; r < rounds; r++) {
        let j = start + r * lanes + lane;
        let live = j < stop;
        let e = pair(row, min(j, stop - 1u), passed);
        let to = row * p.length + rank(digit(e), live, lane, own, below);
        if (live && odd) { b_two[to] = e; }
        if (live && !odd) { b_one[to] = e; }
    }
}
{% else %}

// The sorted pairs end where they are if no pass is skipped.
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let passed = passes();
    let i = gid.x + gid.y * nwg.x * 256u;
    if ((passed > 0u && passed % 2u == p.turn % 2u) || i >= p.groups) {
        return;
    }
    if (p.turn % 2u == 1u) {
        b_one[i] = pair(i / p.length, i % p.length, passed);
    } else {
        b_two[i] = pair(i / p.length, i % p.length, passed);
    }
}
{% endif %}
