{% if step == "count" %}
struct P {
    n: u32,
    a_o: u32,
}
@group(0) @binding(0) var<storage, read> b_a: {{ a }};
@group(0) @binding(1) var<storage, read_write> b_out: array<u32>;
{% elif step == "write" %}
struct P {
    n: u32,
    a_o: u32,
    room: u32,
{% for d in range(rank) %}
    d{{ d }}: u32,
{% endfor %}
}
@group(0) @binding(0) var<storage, read> b_a: {{ a }};
@group(0) @binding(1) var<storage, read> b_sums: array<u32>;
@group(0) @binding(2) var<storage, read_write> b_out: array<vec2<u32>>;
{% else %}
struct P {
    n: u32,
    a_o: u32,
    room: u32,
    value_o: u32,
    out_o: u32,
    site: u32,
}
@group(0) @binding(0) var<storage, read> b_a: array<u32>;
@group(0) @binding(1) var<storage, read> b_sums: array<u32>;
@group(0) @binding(2) var<storage, read> b_value: {{ value }};
@group(0) @binding(3) var<storage, read_write> b_out: {{ out }};
@group(0) @binding(4) var<storage, read_write> faults: array<atomic<u32>>;

{% include "text/faults.wgsl" %}
{% endif %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let thread = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (thread >= (p.n + {{ chunk - 1 }}u) / {{ chunk }}u) {
        return;
    }
    let start = thread * {{ chunk }}u;
    let end = min(start + {{ chunk }}u, p.n);
{% if step == "count" %}
    var found = 0u;
    for (var e = start; e < end; e++) {
        let i = e + p.a_o;
        found += select(0u, 1u, {{ test }});
    }
    b_out[thread] = found;
{% elif step == "write" %}
    var place = select(0u, b_sums[max(thread, 1u) - 1u], thread > 0u);
    for (var e = start; e < end; e++) {
        let i = e + p.a_o;
        if ({{ test }}) {
            if (place < p.room) {
                var r = e;
{% for d in range(rank - 1, 0, -1) %}
                b_out[place * {{ rank }}u + {{ d }}u] = vec2<u32>(r % p.d{{ d }}, 0u);
                r = r / p.d{{ d }};
{% endfor %}
                b_out[place * {{ rank }}u] = vec2<u32>(r, 0u);
            }
            place++;
        }
    }
{% else %}
    var next = select(0u, b_sums[max(thread, 1u) - 1u], thread > 0u);
    for (var i = start; i < end; i++) {
        let m = i + p.a_o;
        if (extractBits(b_a[m / 4u], (m % 4u) * 8u, 8u) != 0u) {
            bad = false;
            let place = checked(next, 0u, p.room, p.site);
            next++;
            if (!bad) {
                let v = {{ read_value }};
                {{ write_out }}
            }
        }
    }
{% endif %}
}
