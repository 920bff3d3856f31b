struct P {
{% for field in fields %}
    {{ field }}: u32,
{% endfor %}
    ignore: i32,
}
{% for name, access, type in bindings %}
@group(0) @binding({{ loop.index0 }}) var<storage, {{ access }}> {{ name }}: {{ type }};
{% endfor %}

{% if not backward %}
@group(0) @binding({{ bindings | length }}) var<storage, read_write> faults: array<atomic<u32>>;

{% include "faults.wgsl" %}
{% endif %}
{% if backward %}
fn gradient(i: u32) -> f32 {
    let k = min(i, p.n - 1u);
    let place = k % p.places;
    let own = (k / p.places) % p.classes;
    let sample = k / (p.places * p.classes);
    let ti = p.t_o + sample * p.t_n + place * p.t_s;
    let c = {{ class_of }};
    if (c != i32(own) || c == p.ignore) {
        return 0.0;
    }
    let gi = p.g_o + sample * p.g_n + place * p.g_s;
    return -({{ weight }}) * ({{ grad }}) / ({{ total }});
}
{% endif %}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let thread = gid.x + gid.y * nwg.x * {{ workgroup }}u;
{% if backward %}
    let g = thread;
    if (g >= (p.n + 3u) / 4u) {
        return;
    }
{% for lane in range(4) %}
    let v{{ lane }} = gradient(g * 4u + {{ lane }}u);
{% endfor %}
    {{ store }}
{% else %}
    let i = thread;
    if (i >= p.n) {
        return;
    }
    let place = i % p.places;
    let sample = i / p.places;
    let ti = p.t_o + sample * p.t_n + place * p.t_s;
    let c = {{ class_of }};
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
