// The `keep` smallest keys of long rows, by digits of eight bits from the first on. A workgroup has a part of a row. A
// pass counts the digits of those keys that agree with what is known of the last key wanted; the next pass finds its
// digit from the counts of all parts, each workgroup for itself. Then the keys below it are put together, in any order,
// and as many of those that equal it as are still wanted, the first ones.
{% include "text/interface.wgsl" %}

{% include "sort/element.wgsl" %}

const THREADS = {{ threads }}u;
var<workgroup> sums: array<u32, 256>;
var<workgroup> picked: vec2<u32>;
{% if kind == "count" %}
var<workgroup> own: array<atomic<u32>, 256>;
{% endif %}

// What is known of the last key wanted after `turn` digits: its first bits, and how many keys with these are wanted.
fn known(row: u32, thread: u32) -> vec2<u32> {
    if (p.turn == 0u) {
        return vec2<u32>(0u, p.keep);
    }
    let before = states[(p.turn - 1u) * p.rows + row];
    let mine = atomicLoad(&counts[((p.turn - 1u) * p.rows + row) * 256u + thread]);
    sums[thread] = mine;
    workgroupBarrier();
    var sum = mine;
{% for reach in reaches %}
    sum += select(0u, sums[max(thread, {{ reach }}u) - {{ reach }}u], thread >= {{ reach }}u);
    workgroupBarrier();
    sums[thread] = sum;
    workgroupBarrier();
{% endfor %}
    if (sum >= before.y && sum - mine < before.y) {
        picked = vec2<u32>(before.x | (thread << p.last), before.y - (sum - mine));
    }
    return workgroupUniformLoad(&picked);
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let number = group.x + group.y * groups.x;
    let row = min(number / p.parts, p.rows - 1u);
    let part = number % p.parts;
    let here = number < p.rows * p.parts;
    let state = known(row, thread);
    let start = part * p.span;
    let end = select(0u, min(start + p.span, p.length), here);
{% if kind == "count" %}
    if (here && part == 0u && thread == 0u) {
        states[p.turn * p.rows + row] = state;
    }
    atomicStore(&own[thread], 0u);
    workgroupBarrier();
    for (var j = start + thread; j < end; j += THREADS) {
        let key = element(row, j, 0u).x;
        if (((key ^ state.x) & p.above) == 0u) {
            atomicAdd(&own[(key >> p.shift) & 255u], 1u);
        }
    }
    workgroupBarrier();
    let found = atomicLoad(&own[thread]);
    if (found != 0u) {
        atomicAdd(&counts[(p.turn * p.rows + row) * 256u + thread], found);
    }
{% else %}
    // Of the keys that equal the last one, all are wanted or the first ones: then one workgroup looks for these.
    if (thread == 0u) {
        picked.x = atomicLoad(&counts[((p.turn - 1u) * p.rows + row) * 256u + ((state.x >> p.last) & 255u)]);
    }
    let all = workgroupUniformLoad(&picked).x == state.y;
    for (var j = start + thread; j < end; j += THREADS) {
        let e = element(row, j, 0u);
        let key = e.x & p.above;
        if (key < state.x || (all && key == state.x)) {
            let at = atomicAdd(&counts[p.turn * p.rows * 256u + row], 1u);
            b_out[row * p.keep + min(at, p.keep - 1u)] = e;
        }
    }
    if (!all && here && part == 0u) {
        var taken = 0u;
        for (var first = 0u; first < p.length; first += THREADS) {
            let j = first + thread;
            var e = last();
            if (j < p.length) {
                e = element(row, j, 0u);
            }
            let mine = select(0u, 1u, j < p.length && (e.x & p.above) == state.x);
            sums[thread] = mine;
            workgroupBarrier();
            var before = 0u;
            for (var t = 0u; t < thread; t++) {
                before += sums[t];
            }
            if (thread == THREADS - 1u) {
                picked.x = before + mine;
            }
            let found = workgroupUniformLoad(&picked).x;
            if (mine == 1u && taken + before < state.y) {
                b_out[row * p.keep + p.keep - state.y + taken + before] = e;
            }
            taken += found;
            if (taken >= state.y) {
                break;
            }
        }
    }
{% endif %}
}
