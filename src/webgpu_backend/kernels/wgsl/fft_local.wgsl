struct P {
    count: u32,
    inner: u32,
    a_o: u32,
    sign: f32,
    scale: f32,
}
@group(0) @binding(0) var<storage, read> b_a: array<{{ "f32" if load == "real" else "vec2<f32>" }}>;
@group(0) @binding(1) var<storage, read_write> b_out: array<{{ "f32" if store == "real" else "vec2<f32>" }}>;

// Elements of {{ batch }} transforms. One place in {{ radices[0] }} is left free, so that neighbours of a pass are in other banks.
var<workgroup> memory: array<vec2<f32>, {{ batch * pitch }}>;
{% include "fft_twiddle.wgsl" %}

fn times(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

fn place(i: u32) -> u32 {
    return i + i / 16u;
}

@compute @workgroup_size({{ threads * batch }})
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let group = wid.x + wid.y * nwg.x;
{% if columns %}
    // Neighbouring threads take neighbouring transforms, whose elements are neighbours in memory.
    let own = lid % {{ batch }}u;
    let t = lid / {{ batch }}u;
{% else %}
    let own = lid / {{ threads }}u;
    let t = lid % {{ threads }}u;
{% endif %}
    let id = group * {{ batch }}u + own;
    let live = id < p.count;
    let row = min(id, p.count - 1u);
    let outer = row / p.inner;
    let column = row % p.inner;
    let base = own * {{ pitch }}u;
    let from_ = p.a_o + outer * {{ length // 2 + 1 if load == "hermitian" else length }}u * p.inner + column;
    let to = outer * {{ length // 2 + 1 if store == "half" else length }}u * p.inner + column;
    let conjugate = vec2<f32>(1.0, p.sign);
    var h: array<vec2<f32>, {{ held }}>;
{% for radix in radices %}
{% set first, last = loop.first, loop.last %}
{% set done = dones[loop.index0] %}
{% set part = length // radix %}
    // Radix {{ radix }}, {{ done }} done.
{% for u in range(held // radix) %}
    {
        let j = t + {{ u * threads }}u;
        let k = j % {{ done }}u;
{% for s in range(radix) %}
{% set i = "(j + %du)" % (s * part) %}
{% if first and load == "real" %}
        let v{{ s }} = vec2<f32>(b_a[from_ + {{ i }} * p.inner], 0.0);
{% elif first and load == "hermitian" %}
        let i{{ s }} = {{ i }};
        let x{{ s }} = b_a[from_ + min(i{{ s }}, {{ length }}u - i{{ s }}) * p.inner];
        let e{{ s }} = select(select(-x{{ s }}.y, x{{ s }}.y, i{{ s }} < {{ length // 2 }}u), 0.0, i{{ s }} % {{ length // 2 }}u == 0u);
        let v{{ s }} = vec2<f32>(x{{ s }}.x, e{{ s }}) * conjugate;
{% elif first %}
        let v{{ s }} = b_a[from_ + {{ i }} * p.inner] * conjugate;
{% else %}
        let v{{ s }} = {% if s %}times({% endif %}memory[base + place({{ i }})]{% if s %}, twiddle({{ s }}u * k, {{ done * radix }}u)){% endif %};
{% endif %}
{% endfor %}
{% for line in butterflies[radix] %}
        {{ line }}
{% endfor %}
{% for s in range(radix) %}
        h[{{ u * radix + s }}] = y{{ s }};
{% endfor %}
    }
{% endfor %}
{% if not first %}
    workgroupBarrier();
{% endif %}
{% if last %}
    if (live) {
        let finish = conjugate * p.scale;
{% for u in range(held // radix) %}
{% for s in range(radix) %}
{% set i = "(t + %du)" % (u * threads + s * done) %}
{% set value = "h[%d]" % (u * radix + s) %}
{% if store == "real" %}
        b_out[to + {{ i }} * p.inner] = {{ value }}.x * p.scale;
{% elif store == "half" %}
{% if u * threads + s * done <= length // 2 %}
        if ({{ i }} <= {{ length // 2 }}u) {
            b_out[to + {{ i }} * p.inner] = {{ value }} * finish;
        }
{% endif %}
{% else %}
        b_out[to + {{ i }} * p.inner] = {{ value }} * finish;
{% endif %}
{% endfor %}
{% endfor %}
    }
{% else %}
{% for u in range(held // radix) %}
    {
        let j = t + {{ u * threads }}u;
        let start = j / {{ done }}u * {{ done * radix }}u + j % {{ done }}u;
{% for s in range(radix) %}
        memory[base + place(start + {{ s * done }}u)] = h[{{ u * radix + s }}];
{% endfor %}
    }
{% endfor %}
    workgroupBarrier();
{% endif %}
{% endfor %}
}
