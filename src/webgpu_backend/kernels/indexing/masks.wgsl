{% include "text/interface.wgsl" %}

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
                b_out[{{ d }}u * p.room + place] = vec2<u32>(r % p.d{{ d }}, 0u);
                r = r / p.d{{ d }};
{% endfor %}
                b_out[place] = vec2<u32>(r, 0u);
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
