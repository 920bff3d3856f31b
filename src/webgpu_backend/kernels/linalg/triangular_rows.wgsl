{% from "linalg/shared.wgsl" import shared, put, get with context %}
{% include "linalg/head.wgsl" %}
{% set width = 16 if complex else 32 %}
var<workgroup> low: array<E, {{ 2 * width * width }}>;  // a block of a by columns, with room after each
{{ shared("top", columns * width) }}

fn line(i: u32) -> u32 { return select(i, p.n - 1u - i, p.upper != 0u); }

// x = a^-1 x for a triangular a of up to {{ workgroup }} rows; a workgroup has {{ columns }} columns of x, a thread their elements of one row.
// {{ width }} rows at a time are solved, a thread a column, and taken out of the others.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    let tiles = (p.columns + {{ columns - 1 }}u) / {{ columns }}u;
    if (group >= p.batch * tiles) {
        return;
    }
    let b = group / tiles;
    let start = group % tiles * {{ columns }}u;
    let count = min({{ columns }}u, p.columns - start);
    let live = t < p.n;
    let row = line(min(t, p.n - 1u));
    let whole = p.a_o + b * p.a_b;
    let o = whole + row * p.a_r;
    let xo = p.x_o + b * p.x_b + row * p.x_r + start * p.x_c;
{% for c in range(columns) %}
    var x{{ c }} = x[xo + min({{ c }}u, count - 1u) * p.x_c];
{% endfor %}
    for (var first = 0u; first < p.n; first += {{ width }}u) {
        let steps = min({{ width }}u, p.n - first);
        let own = t - first;  // large for rows before
        for (var e = t; e < {{ width * width }}u; e += {{ workgroup }}u) {
            let i = line(first + min(e % {{ width }}u, steps - 1u));
            let j = line(first + min(e / {{ width }}u, steps - 1u));
            low[e / {{ width }}u * {{ 2 * width }}u + e % {{ width }}u] = conj_if(a[whole + i * p.a_r + j * p.a_c], p.conjugate);
        }
        if (own < steps) {
{% for c in range(columns) %}
            {{ put("top", "own * %du + %du" % (columns, c), "x%d" % c) }}
{% endfor %}
        }
        workgroupBarrier();
        if (t < {{ columns }}u) {
{% for j in range(width) %}
            var y{{ j }} = {{ "vec2<f32>(top[(%d + t) / 2u][t %% 2u * 2u], top[(%d + t) / 2u][t %% 2u * 2u + 1u])" % (j * columns, j * columns) if complex else "top[(%du + t) / 4u][t %% 4u]" % (j * columns) }};
{% endfor %}
            // Registers move up: the row at hand is in y0, and those that came from below the block are never used.
            for (var i = 0u; i < steps; i++) {
                var found = y0;
                if (p.unit == 0u) { found = over(found, low[i * {{ 2 * width + 1 }}u]); }
                {{ put("top", "i * %du + t" % columns, "found") }}
{% for j in range(1, width) %}
                y{{ j - 1 }} = y{{ j }} - mul(low[i * {{ 2 * width + 1 }}u + {{ j }}u], found);
{% endfor %}
            }
        }
        workgroupBarrier();
        if (own < steps) {
            {{ get("top", "own * %du" % columns, columns, "q") }}
{% for c in range(columns) %}
            x{{ c }} = q{{ c }};
{% endfor %}
        } else if (live && t > first) {
            for (var s = 0u; s < steps; s += 8u) {
{% for u in range(8) %}
                let l{{ u }} = select(E(0.0), conj_if(a[o + line(min(first + s + {{ u }}u, p.n - 1u)) * p.a_c], p.conjugate), s + {{ u }}u < steps);
{% endfor %}
{% for u in range(8) %}
                {
                    {{ get("top", "(s + %du) * %du" % (u, columns), columns, "q") }}
{% for c in range(columns) %}
                    x{{ c }} = x{{ c }} - mul(l{{ u }}, q{{ c }});
{% endfor %}
                }
{% endfor %}
            }
        }
        workgroupBarrier();
    }
{% for c in range(columns) %}
    if (live && {{ c }}u < count) { x[xo + {{ c }}u * p.x_c] = x{{ c }}; }
{% endfor %}
}
