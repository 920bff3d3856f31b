struct P {
{% for field in fields %}
    {{ field }},
{% endfor %}
}
{% for name, access, type in bindings %}
@group(0) @binding({{ loop.index0 }}) var<storage, {{ access }}> {{ name }}: {{ type }};
{% endfor %}

struct S {
{% for name, type in state %}
    {{ name }}: {{ type }},
{% endfor %}
}
{% if finish %}
struct R {
{% for name, type in results %}
    {{ name }}: {{ type }},
{% endfor %}
}
{% endif %}
{% if map %}
struct Y {
{% for name, type in maps %}
    {{ name }}: {{ type }},
{% endfor %}
}
{% endif %}
{% if tree %}
var<workgroup> shared_state: array<S, {{ across * along }}>;
{% endif %}

fn init() -> S {
    return S({{ init }});
}
{% if not from_state %}

fn step(s: S, {{ step_arguments }}, i: u32) -> S {
{% for line in step %}
    {{ line }}
{% endfor %}
    return S({{ stepped }});
}
{% endif %}

fn combine(s: S, o: S) -> S {
{% for line in combine %}
    {{ line }}
{% endfor %}
    return S({{ combined }});
}
{% if finish %}

fn finish(s: S) -> R {
{% for line in finish %}
    {{ line }}
{% endfor %}
    return R({{ finished }});
}
{% endif %}
{% if map %}

fn emit({{ map_arguments }}, r: R, i: u32) -> Y {
{% for line in map %}
    {{ line }}
{% endfor %}
    return Y({{ mapped }});
}
{% endif %}

@compute @workgroup_size({{ across * along }})
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let group = wid.x + wid.y * nwg.x;
    let part = group % p.split;
{% if rows %}
    let y = lid % {{ along }}u;
    let row = (group / p.split) * {{ across }}u + lid / {{ along }}u;
{% else %}
    let y = lid / {{ across }}u;
    let row = (group / p.split) * {{ across }}u + lid % {{ across }}u;
{% endif %}
    let live = row < p.m;
{% if tree %}
    // Threads past the last row repeat it, so that all of them meet at the barriers.
    let o = min(row, p.m - 1u);
{% else %}
    if (!live) {
        return;
    }
    let o = row;
{% endif %}
{% for line in outer %}
    {{ line }}
{% endfor %}
    let first = part * {{ along }}u + y;
    let stride = p.split * {{ along }}u;
    var total = init();
    var g = first;
{% if four %}
    let n = p.k / 4u;
{% else %}
    let n = p.k;
{% endif %}
    // Runs of bounded length keep the rounding error of long sums down.
    while (g < n) {
        let end = min(n, g + stride * {{ run }}u);
        var s0 = init();
{% if four %}
        var s1 = init();
        var s2 = init();
        var s3 = init();
{% endif %}
        for (; g < end; g += stride) {
{% for line in load %}
            {{ line }}
{% endfor %}
{% for lane in range(4 if four else 1) %}
            s{{ lane }} = {{ next[lane] }};
{% endfor %}
        }
{% if four %}
        s0 = combine(combine(s0, s1), combine(s2, s3));
{% endif %}
        total = combine(total, s0);
    }
{% if tail %}
    if (first == 0u && n * 4u < p.k) {
        g = n;
{% for line in load_tail %}
        {{ line }}
{% endfor %}
{% for lane in range(3) %}
        if (n * 4u + {{ lane }}u < p.k) {
            total = {{ next_tail[lane] }};
        }
{% endfor %}
    }
{% endif %}
{% if tree %}
    shared_state[lid] = total;
    workgroupBarrier();
    for (var h = {{ along // 2 }}u; h > 0u; h /= 2u) {
        if (y < h) {
            shared_state[lid] = combine(shared_state[lid], shared_state[lid + h{% if not rows %} * {{ across }}u{% endif %}]);
        }
        workgroupBarrier();
    }
    total = shared_state[{% if rows %}lid - y{% else %}lid % {{ across }}u{% endif %}];
{% endif %}
{% if finish %}
    let r = finish(total);
{% endif %}
    if (live{% if tree and not map %} && y == 0u{% endif %}) {
{% if map and results_stored %}
        if (y == 0u) {
{% endif %}
{% for line in store %}
        {{ line }}
{% endfor %}
{% if map and results_stored %}
        }
{% endif %}
{% if map %}
        for (g = first; g < n; g += stride) {
{% for line in load_again %}
            {{ line }}
{% endfor %}
{% for line in store_map %}
            {{ line }}
{% endfor %}
        }
{% if tail %}
        if (first == 0u && n * 4u < p.k) {
            g = n;
{% for line in load_again_tail %}
            {{ line }}
{% endfor %}
{% for line in store_map_tail %}
            {{ line }}
{% endfor %}
        }
{% endif %}
{% endif %}
    }
}
