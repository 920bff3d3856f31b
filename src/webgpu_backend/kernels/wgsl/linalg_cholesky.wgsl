{% include "linalg_head.wgsl" %}
{% include "linalg_team.wgsl" %}
{# A matrix in workgroup memory has rows of uneven length: fewer bank conflicts. #}
{% macro at(i, j) %}{{ "near[(%s) * %du + %s]" % (i, block + 1, j) if near else "a[o + (%s) * p.a_r + (%s) * p.a_c]" % (i, j) }}{% endmacro %}
var<workgroup> pivot: f32;
{% if near %}
var<workgroup> near: array<E, {{ block * (block + 1) }}>;
{% endif %}
const SIDE = {{ side }}u;

// a = L L^H in the lower triangle, column by column; nothing above the diagonal is read or written.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let b = wid.x + wid.y * nwg.x;
    if (b >= p.batch) {
        return;
    }
    let o = p.a_o + b * p.a_b;
    let down = t % SIDE;
    let across = t / SIDE;
{% if near %}
    for (var j = across; j < p.n; j = j + TEAM / SIDE) {
        for (var i = down; i < p.n; i = i + SIDE) {
            if (i >= j) {
                near[i * {{ block + 1 }}u + j] = a[o + i * p.a_r + j * p.a_c];
            }
        }
    }
    workgroupBarrier();
{% endif %}
    for (var k = 0u; k < p.n; k = k + 1u) {
        if (t == 0u) {
            let d = re({{ at("k", "k") }});
            let good = d > 0.0 && info[b] == 0;
            pivot = select(0.0, sqrt(d), good);
            if (!good && info[b] == 0) {
                info[b] = i32(p.first + k) + 1;
            }
        }
        let root = workgroupUniformLoad(&pivot);
        if (root == 0.0) {
            break;
        }
        if (t == 0u) {
            {{ at("k", "k") }} = real(root);
        }
        for (var i = k + 1u + t; i < p.n; i = i + TEAM) {
            {{ at("i", "k") }} = {{ at("i", "k") }} / root;
        }
        {{ "workgroupBarrier();" if near else "meet();" }}
        for (var j = k + 1u + across; j < p.n; j = j + TEAM / SIDE) {
            let other = cj({{ at("j", "k") }});
            for (var i = k + 1u + down; i < p.n; i = i + SIDE) {
                if (i >= j) {
                    {{ at("i", "j") }} = {{ at("i", "j") }} - mul({{ at("i", "k") }}, other);
                }
            }
        }
        {{ "workgroupBarrier();" if near else "meet();" }}
    }
{% if near %}
    for (var j = across; j < p.n; j = j + TEAM / SIDE) {
        for (var i = down; i < p.n; i = i + SIDE) {
            if (i >= j) {
                a[o + i * p.a_r + j * p.a_c] = near[i * {{ block + 1 }}u + j];
            }
        }
    }
{% endif %}
}
