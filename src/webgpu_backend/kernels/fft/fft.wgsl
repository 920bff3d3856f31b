{% include "text/interface.wgsl" %}

{% include "fft/twiddle.wgsl" %}
{% if kind == "pass" %}

// One Stockham pass: a thread transforms {{ radix }} elements that lie p.length / {{ radix }} apart. p.done is the product
// of the radices before. The inverse is the conjugate of the transform of the conjugate.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let t = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (t >= p.n) {
        return;
    }
    let inner = t % p.inner;
    let rest = t / p.inner;
    let part = p.length / {{ radix }}u;
    let j = rest % part;
    let outer = rest / part;
    let k = j % p.done;
    let from_ = (outer * p.length + j) * p.inner + inner;
    let conjugate = vec2<f32>(1.0, p.sign);
{% for s in range(radix) %}
    let i{{ s }} = from_ + {{ s }}u * part * p.inner;
    let v{{ s }} = {{ "times(" if s else "" }}{{ a("i%d" % s) }} * conjugate{{ ", twiddle(%du * k, p.done * %du))" % (s, radix) if s else "" }};
{% endfor %}
{% for line in butterfly %}
    {{ line }}
{% endfor %}
    let to = (outer * p.length + (j / p.done) * p.done * {{ radix }}u + k) * p.inner + inner;
    let finish = conjugate * p.scale;
{% for s in range(radix) %}
    {{ out("to + %du * p.done * p.inner" % s, "y%d * finish" % s) }}
{% endfor %}
}
{% else %}
{% if kind == "hermitian" %}

// The whole spectrum of a real signal, from its half along one dimension.
fn at(i: u32) -> vec2<f32> {
    let inner = i % p.inner;
    let rest = i / p.inner;
    let k = rest % p.length;
    let half = p.length / 2u + 1u;
    let own = k < half;
    let j = ((rest / p.length) * half + select(p.length - k, k, own)) * p.inner + inner;
    let x = {{ a("j") }};
    if (k == 0u || 2u * k == p.length) {
        return vec2<f32>(x.x, 0.0);
    }
    return select(vec2<f32>(x.x, -x.y), x, own);
}
{% elif kind == "real" %}

fn at(i: u32) -> f32 {
    let x = {{ a("i") }};
    return x.x;
}
{% else %}

// exp(-pi i j^2 / length): the square is reduced exactly, in two words.
fn chirp(j: u32) -> vec2<f32> {
    let turn = u64_rem(u32_mul_wide(j, j), vec2<u32>(2u * p.length, 0u)).x;
    return twiddle(turn, 2u * p.length);
}
{% if kind == "chirp" %}

// The conjugate chirp as a filter: around zero, cyclic in p.padded.
fn at(i: u32) -> vec2<f32> {
    let j = min(i, p.padded - i);
    if (j >= p.length) {
        return vec2<f32>(0.0);
    }
    let w = chirp(j);
    return vec2<f32>(w.x, -w.y);
}
{% elif kind == "chirp_in" %}

fn at(i: u32) -> vec2<f32> {
    let j = i % p.padded;
    if (j >= p.length) {
        return vec2<f32>(0.0);
    }
    let row = i / p.padded;
    let q = ((row / p.inner) * p.length + j) * p.inner + row % p.inner;
    return c64_mul({{ a("q") }} * vec2<f32>(1.0, p.sign), chirp(j));
}
{% elif kind == "chirp_mul" %}

fn at(i: u32) -> vec2<f32> {
    let j = i % p.padded;
    return c64_mul({{ a("i") }}, {{ b("j") }});
}
{% else %}

fn at(i: u32) -> vec2<f32> {
    let inner = i % p.inner;
    let rest = i / p.inner;
    let j = rest % p.length;
    let q = ((rest / p.length) * p.inner + inner) * p.padded + j;
    return c64_mul({{ a("q") }}, chirp(j)) * vec2<f32>(1.0, p.sign) * p.scale;
}
{% endif %}
{% endif %}
{% include "text/by_index.wgsl" %}
{% endif %}
