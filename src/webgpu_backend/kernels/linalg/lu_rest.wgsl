{% from "linalg/shared.wgsl" import shared, put, get with context %}
{% include "linalg/head.wgsl" %}
const TEAM = {{ workgroup }}u;
var<workgroup> low: array<E, {{ 2 * width * width }}>;  // by columns, with room after each
{{ shared("top", columns * width) }}
{% set held = (2 * width * columns + workgroup - 1) // workgroup %}

// What a panel of {{ width }} columns means for {{ columns }} others: its exchanges of rows and, right of it, the part of U beside it and
// what that takes off the rows below.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    let before = (p.first + {{ columns - 1 }}u) / {{ columns }}u;
    let groups = before + (p.columns - p.first - p.width + {{ columns - 1 }}u) / {{ columns }}u;
    let b = group / groups;
    if (b >= p.batch) {
        return;
    }
    let tile = group % groups;
    let right = tile >= before;
    let start = select(tile * {{ columns }}u, p.first + p.width + (tile - before) * {{ columns }}u, right);
    let count = min({{ columns }}u, select(p.first, p.columns, right) - start);
    let panel = p.a_o + b * p.a_b + p.first * (p.a_r + p.a_c);
    let o = p.a_o + b * p.a_b + p.first * p.a_r + start * p.a_c;
    let list = b * {{ 2 * width + 1 }}u;
    let exchanged = moves[list].x * {{ columns }}u;
    // Neighbouring threads have neighbouring rows of a column.
{% for e in range(held) %}
    let e{{ e }} = t + {{ workgroup * e }}u;
    var x{{ e }} = E(0.0);
    var to{{ e }} = 0u;
    let c{{ e }} = e{{ e }} / max(exchanged / {{ columns }}u, 1u);
    if (e{{ e }} < exchanged && c{{ e }} < count) {
        let pair = moves[list + 1u + e{{ e }} % (exchanged / {{ columns }}u)];
        x{{ e }} = a[o + pair.x * p.a_r + c{{ e }} * p.a_c];
        to{{ e }} = pair.y;
    }
{% endfor %}
    if (right) {
        for (var e = t; e < {{ width * width }}u; e += TEAM) {
            let i = e % {{ width }}u;
            let j = e / {{ width }}u;
            var x = E(0.0);
            if (j < i && i < p.width) { x = a[panel + i * p.a_r + j * p.a_c]; }
            low[j * {{ 2 * width }}u + i] = x;
        }
        for (var e = t; e < {{ columns * width }}u; e += TEAM) {
            let i = e % {{ width }}u;
            let j = e / {{ width }}u;
            var x = E(0.0);
            if (i < p.width && j < count) { x = a[o + i * p.a_r + j * p.a_c]; }
            {{ put("top", "i * %du + j" % columns, "x") }}
        }
    }
    storageBarrier();
    workgroupBarrier();
{% for e in range(held) %}
    if (e{{ e }} < exchanged && c{{ e }} < count) {
        if (right && to{{ e }} < p.width) {
            {{ put("top", "to%d * %du + c%d" % (e, columns, e), "x%d" % e) }}
        } else {
            a[o + to{{ e }} * p.a_r + c{{ e }} * p.a_c] = x{{ e }};
        }
    }
{% endfor %}
    if (!right) {
        return;
    }
    storageBarrier();
    workgroupBarrier();
    if (t < count) {
{% for j in range(width) %}
        var y{{ j }} = {{ "vec2<f32>(top[(%d + t) / 2u][t %% 2u * 2u], top[(%d + t) / 2u][t %% 2u * 2u + 1u])" % (j * columns, j * columns) if complex else "top[(%du + t) / 4u][t %% 4u]" % (j * columns) }};
{% endfor %}
        // Registers move up: the row at hand is in y0, and those that came from below the block are never used.
        for (var i = 0u; i < p.width; i++) {
            let found = y0;
            {{ put("top", "i * %du + t" % columns, "found") }}
            a[o + i * p.a_r + t * p.a_c] = found;
{% for j in range(1, width) %}
            y{{ j - 1 }} = y{{ j }} - mul(low[i * {{ 2 * width + 1 }}u + {{ j }}u], found);
{% endfor %}
        }
    }
    workgroupBarrier();
{% set each = width if width < 16 else 16 %}
    for (var i = p.width + t; i < p.m; i += TEAM) {
{% for c in range(columns) %}
        var z{{ c }} = a[o + i * p.a_r + min({{ c }}u, count - 1u) * p.a_c];
{% endfor %}
        for (var s = 0u; s < {{ width }}u; s += {{ each }}u) {
{% for u in range(each) %}
            let l{{ u }} = select(E(0.0), a[panel + i * p.a_r + min(s + {{ u }}u, p.width - 1u) * p.a_c], s + {{ u }}u < p.width);
{% endfor %}
{% for u in range(each) %}
            {
                {{ get("top", "(s + %du) * %du" % (u, columns), columns, "q") }}
{% for c in range(columns) %}
                z{{ c }} = z{{ c }} - mul(l{{ u }}, q{{ c }});
{% endfor %}
            }
{% endfor %}
        }
{% for c in range(columns) %}
        if ({{ c }}u < count) { a[o + i * p.a_r + {{ c }}u * p.a_c] = z{{ c }}; }
{% endfor %}
    }
}
