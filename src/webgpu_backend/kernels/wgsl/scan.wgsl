{{ head }}
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

fn load(at: u32, j: u32) -> V {
    return {{ a("at", C) }};
}
{% endif %}

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

var<workgroup> sums: array<V, {{ workgroup }}>;

// One workgroup walks one chunk of one row in tiles; threads hold {{ per }} neighbours each. Positions past the end
// repeat the last element: they are right of every stored one, so they change nothing.
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
    for (var tile = start; tile < stop; tile += {{ workgroup * per }}u) {
        let j = tile + t * {{ per }}u;
        var x: array<V, {{ per }}>;
{% for k in range(per) %}
        {
            let q = min(j + {{ k }}u, p.length - 1u);
            x[{{ k }}] = load(row + q, q);
        }
{% endfor %}
{% for k in range(1, per) %}
        x[{{ k }}] = join(x[{{ k - 1 }}], x[{{ k }}]);
{% endfor %}
        var sum = x[{{ per - 1 }}];
        sums[t] = sum;
        workgroupBarrier();
{% for step in steps %}
        {
            var left = sum;
            if (t >= {{ step }}u) {
                left = sums[t - {{ step }}u];
            }
            workgroupBarrier();
            if (t >= {{ step }}u) {
                sum = join(left, sum);
                sums[t] = sum;
            }
            workgroupBarrier();
        }
{% endfor %}
        var prefix = before;
        var has = some;
        if (t > 0u) {
            prefix = sums[t - 1u];
            if (some) {
                prefix = join(before, prefix);
            }
            has = true;
        }
        let all = sums[{{ workgroup - 1 }}];
        if (some) {
            before = join(before, all);
        } else {
            before = all;
        }
        some = true;
        workgroupBarrier();
{% if not total %}
{% for k in range(per) %}
        if (j + {{ k }}u < stop) {
            var y = x[{{ k }}];
            if (has) {
                y = join(prefix, y);
            }
            store(row + j + {{ k }}u, y);
        }
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
