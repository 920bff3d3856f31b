{% include "text/interface.wgsl" %}

fn combine(a: {{ type }}, b: {{ type }}) -> {{ type }} {
{% for line in combine %}
    {{ line }}
{% endfor %}
    return joined;
}

fn element(i: u32) -> {{ type }} {
    let x = i % p.width + p.pad_x;
    let rest = i / p.width;
    let y = rest % p.height + p.pad_y;
    let base = p.src_o + (rest / p.height) * p.s_outer;
    var sum = {{ zero }};
    // A window covers y at place k when y - k * gap is its start: a multiple of the step.
    for (var k = 0u; k < p.high && k * p.gap_y <= y; k++) {
        let from_y = y - k * p.gap_y;
        let row = from_y / p.step_y;
        if (row * p.step_y != from_y || row >= p.rows) {
            continue;
        }
        for (var l = 0u; l < p.wide && l * p.gap_x <= x; l++) {
            let from_x = x - l * p.gap_x;
            let column = from_x / p.step_x;
            if (column * p.step_x == from_x && column < p.columns) {
                let at = base + k * p.s_i + l * p.s_j + row * p.s_r + column * p.s_c;
                sum = combine(sum, {{ read }});
            }
        }
    }
    return sum;
}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let g = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (g >= (p.n + 3u) / 4u) {
        return;
    }
{% include "text/four_elements.wgsl" %}
}
