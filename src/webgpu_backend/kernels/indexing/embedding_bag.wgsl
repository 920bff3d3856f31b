{% include "text/interface.wgsl" %}

fn offset(bag: u32) -> u32 {
    if (bag >= p.bags) {
        return p.count;
    }
    return min(b_off[p.off_o + bag]{{ ".x" if wide else "" }}, p.count);
}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let t = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (t >= p.n) {
        return;
    }
    let bag = t / p.width;
    let column = t % p.width;
    let first = max(offset(bag), p.begin);
    let last = min(offset(bag + 1u), p.end);
    var acc = {{ type }}(0.0);
    var found = 0u;
    if (p.begin > 0u) {
        acc = b_out[t];
    }
{% if largest %}
    var best = vec2<u32>(0xffffffffu);
    if (p.begin > 0u) {
        best = b_max[t];
    }
{% endif %}
    for (var k = first; k < last; k++) {
        let w = b_i[p.i_o + k * p.i_s];
        bad = false;
{% if wide %}
        let row = checked(w.x, w.y, p.limit, p.site);
{% else %}
        let row = checked(w, select(0u, 0xffffffffu, w > 0x7fffffffu), p.limit, p.site);
{% endif %}
        if (bad || row == p.padding) {
            continue;
        }
        found++;
        let at = p.w_o + row * p.w_s0 + column * p.w_s1;
        let v = {{ type }}({{ read_weight }});
{% if largest %}
        if (best.y == 0xffffffffu || v > acc) {
            acc = v;
            best = vec2<u32>(row, 0u);
        }
{% elif weighted %}
        let ps = p.psw_o + k * p.psw_s;
        acc += v * {{ type }}({{ read_sample }});
{% else %}
        acc += v;
{% endif %}
    }
{% if largest %}
    b_out[t] = acc;
    if (p.end == p.count && best.y == 0xffffffffu) {
        best = vec2<u32>(0u);
    }
    b_max[t] = best;
{% else %}
    b_out[t] = select(acc, acc / {{ type }}(max(found, 1u)), p.mean != 0u);
{% endif %}
    if (column == 0u) {
        if (p.begin > 0u) {
            found += b_size[bag].x;
        }
        b_size[bag] = vec2<u32>(found, 0u);
    }
}
