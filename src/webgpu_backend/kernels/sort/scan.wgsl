{% include "text/interface.wgsl" %}

{{ combine }}
{% if paired %}
struct V { v: {{ T }}, i: u32 }

fn join(a: V, b: V) -> V {
    if (later(a.v, b.v)) { return b; }
    return a;
}

fn load(at: u32, j: u32) -> V {
{% if indexed %}
    return V({{ a("at", C) }}, u32({{ ai("at") }}));
{% else %}
    return V({{ a("at", C) }}, j);
{% endif %}
}
{% elif logs %}
// Exponentials relative to the largest element, and that element: rounding does not add up along the line.
alias V = vec2<f32>;

fn rescaled(x: V, top: f32) -> f32 {
    if (x.x == top) {
        return x.y;
    }
    return x.y * f32_exp(x.x - top);
}

fn join(a: V, b: V) -> V {
    let top = f32_max(a.x, b.x);
    return V(top, rescaled(a, top) + rescaled(b, top));
}

fn load(at: u32, j: u32) -> V {
    return {{ a("at") if logs == "inside" else "V(%s, 1.0)" % a("at", "f32") }};
}
{% else %}
alias V = {{ T }};

fn join(a: V, b: V) -> V {
    return combine(a, b);
}
{% if not vector %}

fn load(at: u32, j: u32) -> V {
    return {{ a("at", C) }};
}
{% endif %}
{% endif %}
{% if total or not vector %}

fn store(at: u32, x: V) {
{% if paired %}
    {{ out("at", "x.v", C) }}
    {{ outi("at", index("x.i", index_dtype)) }}
{% elif logs and not raw %}
    {{ out("at", "(x.x + f32_log(x.y))", "f32") }}
{% else %}
    {{ out("at", "x", C) }}
{% endif %}
}
{% endif %}
{% if carried %}

fn carry(at: u32) -> V {
{% if paired %}
    return V({{ c("at", C) }}, u32({{ ci("at") }}));
{% else %}
    return {{ c("at", C) }};
{% endif %}
}
{% endif %}
{% if kind == "serial" %}

// One thread walks one chunk of one line: elements p.inner apart.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let t = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (t >= p.threads) {
        return;
    }
    let inner = t % p.inner;
    let line = t / p.inner;
    let chunk = line % p.chunks;
    let outer = line / p.chunks;
    let start = chunk * p.chunk;
    let stop = min(start + p.chunk, p.length);
    var at = (outer * p.length + start) * p.inner + inner;
    var acc = load(at, start);
{% if carried %}
    if (chunk > 0u) {
        acc = join(carry(t - p.inner), acc);
    }
{% endif %}
{% if not total %}
    store(at, acc);
{% endif %}
    for (var j = start + 1u; j < stop; j++) {
        at += p.inner;
        acc = join(acc, load(at, j));
{% if not total %}
        store(at, acc);
{% endif %}
    }
{% if total %}
    store(t, acc);
{% endif %}
}
{% else %}

var<workgroup> sums: array<V, {{ workgroup * parts }}>;

// One workgroup walks one chunk of one row in tiles of {{ parts }} parts; threads hold {{ per }} neighbours of each.
// Positions past the end repeat the last ones: they are right of every stored one, so they change nothing.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.threads) {
        return;
    }
    let chunk = group % p.chunks;
    let row = (group / p.chunks) * p.length;
    let start = chunk * p.chunk;
    let stop = min(start + p.chunk, p.length);
    var before: V;
    var some = false;
{% if carried %}
    if (chunk > 0u) {
        before = carry(group - 1u);
        some = true;
    }
{% endif %}
    for (var tile = start; tile < stop; tile += {{ workgroup * per * parts }}u) {
{% for u in range(parts) %}
        let j{{ u }} = tile + {{ u * workgroup * per }}u + t * {{ per }}u;
        var x{{ u }}: array<V, {{ per }}>;
{% if vector %}
        {
            let g = (p.a_o + row + min(j{{ u }}, p.length - 4u)) / 4u;
{% for line in load4[0] %}
            {{ line }}
{% endfor %}
{% for k in range(per) %}
            x{{ u }}[{{ k }}] = {{ load4[1][k] }};
{% endfor %}
        }
{% else %}
{% for k in range(per) %}
        {
            let q = min(j{{ u }} + {{ k }}u, p.length - 1u);
            x{{ u }}[{{ k }}] = load(row + q, q);
        }
{% endfor %}
{% endif %}
{% endfor %}
{% for u in range(parts) %}
{% for k in range(1, per) %}
        x{{ u }}[{{ k }}] = join(x{{ u }}[{{ k - 1 }}], x{{ u }}[{{ k }}]);
{% endfor %}
        var sum{{ u }} = x{{ u }}[{{ per - 1 }}];
        sums[{{ u * workgroup }}u + t] = sum{{ u }};
{% endfor %}
        workgroupBarrier();
{% for step in steps %}
        {
{% for u in range(parts) %}
            var left{{ u }} = sum{{ u }};
{% endfor %}
            if (t >= {{ step }}u) {
{% for u in range(parts) %}
                left{{ u }} = sums[{{ u * workgroup }}u + t - {{ step }}u];
{% endfor %}
            }
            workgroupBarrier();
            if (t >= {{ step }}u) {
{% for u in range(parts) %}
                sum{{ u }} = join(left{{ u }}, sum{{ u }});
                sums[{{ u * workgroup }}u + t] = sum{{ u }};
{% endfor %}
            }
            workgroupBarrier();
        }
{% endfor %}
{% for u in range(parts) %}
        var prefix{{ u }} = before;
        var has{{ u }} = some;
        if (t > 0u) {
            prefix{{ u }} = sums[{{ u * workgroup }}u + t - 1u];
            if (some) {
                prefix{{ u }} = join(before, prefix{{ u }});
            }
            has{{ u }} = true;
        }
        if (some) {
            before = join(before, sums[{{ (u + 1) * workgroup - 1 }}u]);
        } else {
            before = sums[{{ (u + 1) * workgroup - 1 }}u];
        }
        some = true;
{% endfor %}
        workgroupBarrier();
{% if not total %}
{% for u in range(parts) %}
{% if vector %}
        if (j{{ u }} < stop) {
            let g = (row + j{{ u }}) / 4u;
{% for k in range(per) %}
            var y{{ k }} = x{{ u }}[{{ k }}];
{% endfor %}
            if (has{{ u }}) {
{% for k in range(per) %}
                y{{ k }} = join(prefix{{ u }}, y{{ k }});
{% endfor %}
            }
{% for line in store4 %}
            {{ line }}
{% endfor %}
        }
{% else %}
{% for k in range(per) %}
        if (j{{ u }} + {{ k }}u < stop) {
            var y = x{{ u }}[{{ k }}];
            if (has{{ u }}) {
                y = join(prefix{{ u }}, y);
            }
            store(row + j{{ u }} + {{ k }}u, y);
        }
{% endfor %}
{% endif %}
{% endfor %}
{% endif %}
    }
{% if total %}
    if (t == 0u) {
        store(group, before);
    }
{% endif %}
}
{% endif %}
