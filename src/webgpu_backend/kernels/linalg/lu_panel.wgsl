{% from "linalg/shared.wgsl" import shared, put, get with context %}
{% include "linalg/head.wgsl" %}
const TEAM = {{ workgroup }}u;
const NONE = 0xffffffffu;
{% set parts = workgroup // 8 if caps.subgroups else workgroup %}
var<workgroup> best: array<vec2<u32>, {{ 2 * parts }}>;
{{ shared('top', 2 * width) }}
var<workgroup> moved: atomic<u32>;

fn better(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    // The first of equals, as LAPACK has it.
    return select(y, x, x.x > y.x || (x.x == y.x && x.y < y.y));
}

// What LAPACK compares as an integer in the same order; NaN is never chosen while there is anything else.
fn key(x: E) -> u32 {
    let u = bitcast<u32>(size(x));
    return select(u + 1u, 0u, u > 0x7f800000u);
}

// {{ width }} columns of a = P L U in place, a thread {{ "a row" if rows == 1 else "%d rows" % rows }}, which stay in registers: an exchange of rows changes
// only where they will be written. `moves` has what was exchanged, for the other columns.
@compute @workgroup_size({{ workgroup }})
fn main(
    @builtin(local_invocation_index) t: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>,
{% if caps.subgroups %}
    @builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_size) lanes: u32, @builtin(subgroup_id) sub: u32,
    @builtin(num_subgroups) subs: u32,
{% endif %}
) {
    let b = wid.x + wid.y * nwg.x;
    if (b >= p.batch) {
        return;
    }
    let o = p.a_o + b * p.a_b + p.first * (p.a_r + p.a_c);
    if (t == 0u) {
        atomicStore(&moved, 0u);
    }
    var bad = 0u;
{% for q in range(rows) %}
    let i{{ q }} = t + {{ q * workgroup }}u;
    let live{{ q }} = i{{ q }} < p.m;
    var at{{ q }} = i{{ q }};
{% for j in range(width) %}
    var v{{ q }}_{{ j }} = E(0.0);
    if (live{{ q }} && {{ j }}u < p.n) { v{{ q }}_{{ j }} = a[o + i{{ q }} * p.a_r + {{ j }}u * p.a_c]; }
{% endfor %}
{% endfor %}
    storageBarrier();
    workgroupBarrier();
    // Registers go round: the column at hand is in v_0, and what was found of it goes to the end.
    for (var k = 0u; k < {{ width }}u; k++) {
        let turn = (k & 1u) * {{ width }}u;
        let half = (k & 1u) * {{ parts }}u;
        if (k < p.steps) {
            var chosen = k;
            if (p.pivot != 0u) {
                var mine = vec2<u32>(0u, NONE);
{% for q in range(rows) %}
                if (live{{ q }} && at{{ q }} >= k) { mine = better(vec2<u32>(key(v{{ q }}_0), at{{ q }}), mine); }
{% endfor %}
{% if caps.subgroups %}
                let most = subgroupMax(mine.x);
                let place = subgroupMin(select(NONE, mine.y, mine.x == most));
                if (lane == 0u) { best[half + sub] = vec2<u32>(most, place); }
                workgroupBarrier();
                mine = vec2<u32>(0u, NONE);
                for (var s = lane; s < subs; s += lanes) { mine = better(best[half + s], mine); }
                let all = subgroupMax(mine.x);
                chosen = subgroupMin(select(NONE, mine.y, mine.x == all));
{% else %}
                best[half + t] = mine;
                workgroupBarrier();
                for (var s = TEAM / 2u; s > 0u; s = s / 2u) {
                    if (t < s) { best[half + t] = better(best[half + t], best[half + t + s]); }
                    workgroupBarrier();
                }
                chosen = best[half].y;
{% endif %}
            }
{% for q in range(rows) %}
            if (live{{ q }} && at{{ q }} == chosen) {
{% for j in range(width) %}
                let u{{ j }} = {{ "select(E(0.0), v%d_%d, %du + k < %du)" % (q, j, j, width) if j else "v%d_0" % q }};
{% endfor %}
{% set each = 2 if complex else 4 %}
{% for g in range(width // each) %}
                top[turn / {{ each }}u + {{ g }}u] = vec4<f32>({% for e in range(each) %}u{{ g * each + e }}{{ ", " if not loop.last }}{% endfor %});
{% endfor %}
            }
            at{{ q }} = select(select(at{{ q }}, chosen, at{{ q }} == k), k, at{{ q }} == chosen);
{% endfor %}
            if (t == 0u) {
                pivots[b * p.count + p.first + k] = i32(p.first + chosen) + 1;
            }
            workgroupBarrier();
        }
        {{ get("top", "turn", width, "d") }}
        let d = d0;
        let solvable = !is_zero(d);
        bad = select(bad, p.first + k + 1u, k < p.steps && !solvable && bad == 0u);
{% for q in range(rows) %}
        {
            var found = v{{ q }}_0;
            if (k < p.steps && at{{ q }} > k) {
                if (solvable) { found = over(found, d); }
{% for j in range(1, width) %}
                v{{ q }}_{{ j - 1 }} = v{{ q }}_{{ j }} - mul(found, d{{ j }});
{% endfor %}
            } else if (live{{ q }}) {
{% for j in range(1, width) %}
                v{{ q }}_{{ j - 1 }} = v{{ q }}_{{ j }};
{% endfor %}
            }
            v{{ q }}_{{ width - 1 }} = found;
        }
{% endfor %}
    }
    if (t == 0u && bad != 0u && info[b] == 0) {
        info[b] = i32(bad);
    }
    let list = b * {{ 2 * width + 1 }}u;
{% for q in range(rows) %}
    if (live{{ q }}) {
{% for j in range(width) %}
        if ({{ j }}u < p.n) { a[o + at{{ q }} * p.a_r + {{ j }}u * p.a_c] = v{{ q }}_{{ j }}; }
{% endfor %}
        if (at{{ q }} != i{{ q }}) {
            moves[list + 1u + atomicAdd(&moved, 1u)] = vec2<u32>(i{{ q }}, at{{ q }});
        }
    }
{% endfor %}
    workgroupBarrier();
    if (t == 0u) {
        moves[list] = vec2<u32>(atomicLoad(&moved), 0u);
    }
}
