{% include "text/interface.wgsl" %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let i = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (i >= p.n) {
        return;
    }
    let place = i % p.places;
    let sample = i / p.places;
    let ti = p.t_o + sample * p.t_n + place * p.t_s;
    let c = {{ class_of }};
{% if backward %}
    if (c == p.ignore || u32(c) >= p.classes) {
        return;
    }
    let gi = p.g_o + sample * p.g_n + place * p.g_s;
    let v = -({{ weight }}) * ({{ grad }}) / ({{ total }});
    let at = (sample * p.classes + u32(c)) * p.places + place;
    {{ store }}
{% else %}
    var w = 0.0;
    var loss = 0.0;
    if (c != p.ignore) {
        let own = checked({{ words[0] }}, {{ words[1] }}, p.classes, p.site);
        if (!bad) {
            w = {{ weight }};
            let xi = p.x_o + sample * p.x_n + own * p.x_c + place * p.x_s;
            loss = -w * {{ picked }};
        }
    }
    {{ store }}
{% if weigh %}
    weights[i] = w;
{% endif %}
{% endif %}
}
