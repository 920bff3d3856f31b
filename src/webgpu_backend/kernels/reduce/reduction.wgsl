{% include "text/interface.wgsl" %}

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
var<workgroup> shared_state: array<S, {{ across * along * totals }}>;
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
{% if rows %}
    let part = group % p.split;
    let y = lid % {{ along }}u;
    let row = (group / p.split) * {{ across }}u + lid / {{ along }}u;
    let live = row < p.m;
{% else %}
    // Neighbouring groups take neighbouring rows, whose elements are neighbours in memory.
    let blocks = (p.m + {{ across - 1 }}u) / {{ across }}u;
    let part = group / blocks;
    let y = lid / {{ across }}u;
    let row = (group % blocks) * {{ across }}u + lid % {{ across }}u;
    let live = row < p.m && part < p.split;
{% endif %}
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
    let slots = p.split * {{ along }}u;
{% if four %}
    let n = p.k / 4u;
{% else %}
    let n = p.k;
{% endif %}
{% if blocked %}
    // A range of its own for each thread: software adapters prefetch along it.
    let chunk = (n + slots - 1u) / slots;
    let start = first * chunk;
    let stop = min(n, start + chunk);
    let stride = 1u;
{% else %}
    let start = first;
    let stop = n;
    let stride = slots;
{% endif %}
{% for t in range(totals) %}
    var total{{ t }} = init();
{% endfor %}
    var at = start;
    // Runs of bounded length keep the rounding error of long sums down.
    while (at < stop) {
        let end = min(stop, at + stride * {{ run }}u);
{% for lane in range(lanes) %}
        var s{{ lane }} = init();
{% endfor %}
{% if unroll > 1 %}
        // Several loads in flight before the first is used.
        for (; at + {{ unroll - 1 }}u * stride < end; at += {{ unroll }}u * stride) {
{% for u in range(unroll) %}
            {
                let g = at + {{ u }}u * stride;
{% for line in load %}
                {{ line }}
{% endfor %}
{% for lane in range(lanes) %}
                s{{ lane }} = {{ next[lane] }};
{% endfor %}
            }
{% endfor %}
        }
{% endif %}
        for (; at < end; at += stride) {
            let g = at;
{% for line in load %}
            {{ line }}
{% endfor %}
{% for lane in range(lanes) %}
            s{{ lane }} = {{ next[lane] }};
{% endfor %}
        }
{% if four %}
        s0 = combine(combine(s0, s1), combine(s2, s3));
{% endif %}
{% for t in range(totals) %}
        total{{ t }} = combine(total{{ t }}, s{{ t }});
{% endfor %}
    }
{% if tail %}
    if (first == 0u && n * 4u < p.k) {
        let g = n;
{% for line in load_tail %}
        {{ line }}
{% endfor %}
{% for lane in range(3) %}
        if (n * 4u + {{ lane }}u < p.k) {
            total0 = {{ next_tail[lane] }};
        }
{% endfor %}
    }
{% endif %}
{% if tree %}
{% set threads = across * along %}
{% for t in range(totals) %}
    shared_state[lid + {{ t * threads }}u] = total{{ t }};
{% endfor %}
    workgroupBarrier();
    for (var h = {{ along // 2 }}u; h > 0u; h /= 2u) {
        if (y < h) {
            let other = lid + h{% if not rows %} * {{ across }}u{% endif %};
{% for t in range(totals) %}
            shared_state[lid + {{ t * threads }}u] = combine(shared_state[lid + {{ t * threads }}u], shared_state[other + {{ t * threads }}u]);
{% endfor %}
        }
        workgroupBarrier();
    }
    let leader = {% if rows %}lid - y{% else %}lid % {{ across }}u{% endif %};
{% for t in range(totals) %}
    total{{ t }} = shared_state[leader + {{ t * threads }}u];
{% endfor %}
{% endif %}
{% if finish %}
{% for t in range(totals) %}
    let r{{ t }} = finish(total{{ t }});
{% endfor %}
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
        for (at = start; at < stop; at += stride) {
            let g = at;
{% for line in load_again %}
            {{ line }}
{% endfor %}
{% for line in store_map %}
            {{ line }}
{% endfor %}
        }
{% if tail %}
        if (first == 0u && n * 4u < p.k) {
            let g = n;
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
