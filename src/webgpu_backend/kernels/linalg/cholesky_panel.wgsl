{% from "linalg/shared.wgsl" import shared, put, get with context %}
{% include "linalg/head.wgsl" %}
{% set pitch = width + 1 %}
{{ shared("column", 2 * width) }}
var<workgroup> left: array<E, {{ 32 * pitch }}>;
var<workgroup> right: array<E, {{ 32 * pitch }}>;

// {{ width }} columns of L in a = L L^H, from p.first on, go to out, and what they take off the rest is taken off a. Every
// workgroup factors the block on the diagonal, and with it the rows that its tile of 32 x 32 of the rest needs, a thread
// a row: nobody waits for another, and nothing that is read is written. Nothing above the diagonal counts.
@compute @workgroup_size(128)
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    let tile = group % (p.tiles * p.tiles);
    let b = group / (p.tiles * p.tiles);
    let down = tile / p.tiles;
    let across = tile % p.tiles;
    if (b >= p.batch || across > down) {
        return;
    }
    let o = p.a_o + b * p.a_b;
    let stop = min(p.first + {{ width }}u, p.n);
    let count = stop - p.first;
    let part = t / 32u;
    let own = t % 32u;
    let row = select(stop + select(across, down, part == 1u) * 32u, p.first, part == 0u) + own;
    let live = row < select(select(0u, p.n, part < 3u), stop, part == 0u);
    let on_diagonal = part == 0u;
    var bad = 0u;
{% for j in range(width) %}
    var v{{ j }} = E(0.0);
    if (live && {{ j }}u < count) { v{{ j }} = a[o + row * p.a_r + (p.first + {{ j }}u) * p.a_c]; }
{% endfor %}
    // Registers go round: the column at hand is in v0, and what was found of it goes to the end.
    for (var k = 0u; k < {{ width }}u; k++) {
        let turn = (k & 1u) * {{ width }}u;
        if (on_diagonal && own < {{ width }}u) {
            // What is done already takes nothing off.
            let u = select(E(0.0), v0, live && own >= k);
            {{ put("column", "turn + (own + %du - k) %% %du" % (width, width), "u") }}
        }
        workgroupBarrier();
        {{ get("column", "turn", width, "d") }}
        let d = re(d0);
        let good = d > 0.0;
        bad = select(bad, p.first + k + 1u, k < count && !good && bad == 0u);
        var found = v0;
        var f = E(0.0);
        if (good && !(on_diagonal && own < k)) {
            f = v0 / d;
            found = select(v0 / sqrt(d), real(sqrt(d)), on_diagonal && own == k);
        }
{% for j in range(1, width) %}
        v{{ j - 1 }} = v{{ j }} - mul(f, cj(d{{ j }}));
{% endfor %}
        v{{ width - 1 }} = found;
    }
    if (t == 0u && tile == 0u && bad != 0u && info[b] == 0) {
        info[b] = i32(bad);
    }
    if (live && ((on_diagonal && tile == 0u) || (part == 1u && across == 0u))) {
        let to = p.out_o + b * p.out_b + row * p.out_r;
{% for j in range(width) %}
        if ({{ j }}u < count && (!on_diagonal || {{ j }}u <= own)) { out[to + (p.first + {{ j }}u) * p.out_c] = v{{ j }}; }
{% endfor %}
    }
    if (stop == p.n) {
        return;
    }
    if (part == 1u) {
{% for j in range(width) %}
        left[own * {{ pitch }}u + {{ j }}u] = v{{ j }};
{% endfor %}
    } else if (part == 2u) {
{% for j in range(width) %}
        right[own * {{ pitch }}u + {{ j }}u] = cj(v{{ j }});
{% endfor %}
    }
    workgroupBarrier();
    let i = stop + down * 32u + own;
{% for e in range(8) %}
    var sum{{ e }} = E(0.0);
{% endfor %}
    for (var s = 0u; s < {{ width }}u; s += 4u) {
{% for u in range(4) %}
        let l{{ u }} = left[own * {{ pitch }}u + s + {{ u }}u];
{% for e in range(8) %}
        sum{{ e }} = sum{{ e }} + mul(l{{ u }}, right[(part + {{ 4 * e }}u) * {{ pitch }}u + s + {{ u }}u]);
{% endfor %}
{% endfor %}
    }
{% for e in range(8) %}
    {
        let j = stop + across * 32u + part + {{ 4 * e }}u;
        if (i < p.n && j <= i) {
            let at = o + i * p.a_r + j * p.a_c;
            a[at] = a[at] - sum{{ e }};
        }
    }
{% endfor %}
}
