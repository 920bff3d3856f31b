{% include "text/interface.wgsl" %}

{% include "sort/element.wgsl" %}
{% if kind == "block" %}

var<workgroup> s: array<E, {{ block }}>;

// A workgroup sorts a block of a row by bitonic exchanges and keeps its first p.keep elements.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.groups) {
        return;
    }
    let row = group / p.blocks;
    let start = (group % p.blocks) * {{ block }}u;
    for (var k = t; k < {{ block }}u; k += {{ workgroup }}u) {
        s[k] = fetch(row, start + k);
    }
    for (var size = 2u; size <= {{ block }}u; size = size * 2u) {
        for (var step = size / 2u; step > 0u; step = step / 2u) {
            workgroupBarrier();
            for (var q = t; q < {{ block // 2 }}u; q += {{ workgroup }}u) {
                let low = q & (step - 1u);
                let i = (q - low) * 2u + low;
                let x = s[i];
                let y = s[i + step];
                if (less(y, x) == ((i & size) == 0u)) {
                    s[i] = y;
                    s[i + step] = x;
                }
            }
        }
    }
    workgroupBarrier();
    let base = row * p.stride + (group % p.blocks) * p.keep;
    let count = min(p.keep, p.stride - (group % p.blocks) * p.keep);
    for (var k = t; k < count; k += {{ workgroup }}u) {
        b_out[base + k] = s[k];
    }
}
{% elif kind in ("topk", "nth") %}

var<private> r: array<E, {{ block }}>;

fn before(a: E, b: E) -> bool {
    return a.x < b.x{{ " || (a.x == b.x && a.y < b.y)" if words == 2 }};
}

fn swap(i: u32, j: u32) {
    let x = r[i];
    r[i] = r[j];
    r[j] = x;
}

{% if kind == "topk" %}
fn insertion_sort(first: u32, end: u32) {
    for (var i = first + 1u; i < end; i++) {
        let x = r[i];
        var j = i;
        for (; j > first; j--) {
            if (!before(x, r[j - 1u])) { break; }
            r[j] = r[j - 1u];
        }
        r[j] = x;
    }
}

// std::nth_element of libstdc++, then std::sort of what comes before: equal values end as they do on the CPU.
fn arrange(n: u32) {
    var first = 0u;
    var end = n;
    while (end - first > 3u) {
        let a = first + 1u;
        let b = first + (end - first) / 2u;
        let c = end - 1u;
        if (before(r[a], r[b])) {
            if (before(r[b], r[c])) { swap(first, b); } else if (before(r[a], r[c])) { swap(first, c); } else { swap(first, a); }
        } else if (before(r[a], r[c])) { swap(first, a); } else if (before(r[b], r[c])) { swap(first, c); } else { swap(first, b); }
        let pivot = r[first];
        var i = first + 1u;
        var j = end;
        loop {
            while (before(r[i], pivot)) { i++; }
            j--;
            while (before(pivot, r[j])) { j--; }
            if (i >= j) { break; }
            swap(i, j);
            i++;
        }
        if (i < p.keep) { first = i; } else { end = i; }
    }
    insertion_sort(first, end);
    if (p.width != 0u) { insertion_sort(0u, p.keep - 1u); }
}
{% else %}
fn above(i: u32, j: u32) {
    if (before(r[j], r[i])) { swap(i, j); }
}

// torch's own quickselect for the CPU: equal values end as they do there.
fn arrange(n: u32) {
    var low = 0u;
    var high = n - 1u;
    while (high > low) {
        if (high == low + 1u) {
            above(low, high);
            break;
        }
        swap(low + (high - low) / 2u, low + 1u);
        above(low + 1u, high);
        above(low, high);
        above(low + 1u, low);
        let pivot = r[low];
        var i = low + 1u;
        var j = high;
        loop {
            i++;
            while (before(r[i], pivot)) { i++; }
            j--;
            while (before(pivot, r[j])) { j--; }
            if (j < i) { break; }
            swap(i, j);
        }
        swap(low, j);
        if (j < p.keep) { low = i; }
        if (j + 1u >= p.keep) {
            if (j == 0u) { break; }
            high = j - 1u;
        }
    }
}
{% endif %}

// A thread has a short row to itself, and writes its first p.keep elements, or the last of them.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let row = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (row >= p.groups) {
        return;
    }
    for (var k = 0u; k < p.length; k++) {
        r[k] = fetch(row, k);
    }
    arrange(p.length);
{% if kind == "topk" %}
    for (var k = 0u; k < p.keep; k++) {
        b_out[row * p.keep + k] = r[k];
    }
{% else %}
    b_out[row] = r[p.keep - 1u];
{% endif %}
}
{% elif kind == "registers" %}

// A thread sorts eight neighbours without memory.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let t = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (t >= p.groups) {
        return;
    }
    let row = t / p.blocks;
    let start = (t % p.blocks) * 8u;
{% for k in range(8) %}
    var x{{ k }} = fetch(row, start + {{ k }}u);
{% endfor %}
{% for i, j in network %}
    if (less(x{{ j }}, x{{ i }})) { let y = x{{ i }}; x{{ i }} = x{{ j }}; x{{ j }} = y; }
{% endfor %}
    let base = row * p.stride + start;
    let count = min(8u, p.stride - start);
{% for k in range(8) %}
    if ({{ k }}u < count) { b_out[base + {{ k }}u] = x{{ k }}; }
{% endfor %}
}
{% else %}

// A thread writes p.span neighbours of the merge of two sorted runs; where they start in each run is found by bisection.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let t = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (t >= p.groups) {
        return;
    }
    let row = (t / p.blocks) * p.length;
    let at = (t % p.blocks) * p.span;
    let run = at - at % (2u * p.width);
    let middle = min(run + p.width, p.length);
    let end = min(run + 2u * p.width, p.length);
    let diagonal = at - run;
    let left = row + run;
    let right = row + middle;
    let left_count = middle - run;
    let right_count = end - middle;
    var low = select(0u, diagonal - right_count, diagonal > right_count);
    var high = min(diagonal, left_count);
    while (low < high) {
        let mid = (low + high) / 2u;
        if (less(b_pairs[right + diagonal - 1u - mid], b_pairs[left + mid])) {
            high = mid;
        } else {
            low = mid + 1u;
        }
    }
    var i = low;
    var j = diagonal - low;
    var x = last();
    var y = last();
    if (i < left_count) { x = b_pairs[left + i]; }
    if (j < right_count) { y = b_pairs[right + j]; }
    let stop = min(at + p.span, end);
    for (var k = at; k < stop; k++) {
        if (j >= right_count || (i < left_count && less(x, y))) {
            b_out[row + k] = x;
            i++;
            if (i < left_count) { x = b_pairs[left + i]; }
        } else {
            b_out[row + k] = y;
            j++;
            if (j < right_count) { y = b_pairs[right + j]; }
        }
    }
}
{% endif %}
