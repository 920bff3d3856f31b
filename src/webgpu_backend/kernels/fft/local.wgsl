{% include "text/interface.wgsl" %}

// Real parts of {{ batch }} transforms, or imaginary ones: half of the memory lets twice the workgroups run. One place in 16 is left
// free, so that neighbours of a pass are in other banks.
var<workgroup> memory: array<f32, {{ batch * pitch }}>;
{% include "fft/twiddle.wgsl" %}

fn place(i: u32) -> u32 {
    return i + i / 16u;
}
{# The butterflies of a thread in one pass, inside a condition where the last of them are not whole. #}
{% macro own(radix, u) %}{{ "if (t + %du < %du) " % (u * threads, length // radix) if (u + 1) * threads > length // radix else "" }}{% endmacro %}
{% macro write(radix, done, part) %}
{% for u in range(rounds[radix]) %}
    {{ own(radix, u) }}{
        let j = t + {{ u * threads }}u;
        let start = j / {{ done }}u * {{ done * radix }}u + j % {{ done }}u;
{% for s in range(radix) %}
        memory[base + place(start + {{ s * done }}u)] = h[{{ u * radix + s }}]{{ part }};
{% endfor %}
    }
{% endfor %}
    workgroupBarrier();
{% endmacro %}
{% macro read(radix, part) %}
{% for u in range(rounds[radix]) %}
    {{ own(radix, u) }}{
        let j = t + {{ u * threads }}u;
{% for s in range(radix) %}
        g[{{ u * radix + s }}]{{ part }} = memory[base + place(j + {{ s * (length // radix) }}u)];
{% endfor %}
    }
{% endfor %}
{% endmacro %}

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
{% if load == "frames" %}
    let from_ = p.a_o + outer * p.pitch + column * p.hop;
{% else %}
    let from_ = p.a_o + outer * {{ signal // 2 + 1 if load == "hermitian" else signal }}u * p.inner + column;
{% endif %}
{% if store == "turned" %}
    let to = row * {{ length }}u;
{% elif load == "frames" %}
    let to = row * {{ signal // 2 + 1 }}u;
{% else %}
    let to = outer * {{ signal // 2 + 1 if store == "half" else signal }}u * p.inner + column;
{% endif %}
    let conjugate = vec2<f32>(1.0, p.sign);
    var g: array<vec2<f32>, {{ held }}>;
    var h: array<vec2<f32>, {{ held }}>;
{% for radix in radices %}
{% set first, last = loop.first, loop.last %}
{% set done = dones[loop.index0] %}
    // Radix {{ radix }}, {{ done }} done.
{% for u in range(rounds[radix]) %}
    {{ own(radix, u) }}{
        let j = t + {{ u * threads }}u;
{% if not first %}
        let k = j % {{ done }}u;
{% for s in range(1, radix) if s < 4 or s % 4 == 0 %}
        let w{{ s }} = twiddle({{ s }}u * k, {{ done * radix }}u);
{% endfor %}
{% endif %}
{% for s in range(radix) %}
{% set i = "(j + %du)" % (s * (length // radix)) %}
{% if first and load == "frames" %}
        let i{{ s }} = 2u * {{ i }};
        let v{{ s }} = vec2<f32>(b_a[from_ + i{{ s }}] * b_w[p.w_o + i{{ s }}], b_a[from_ + i{{ s }} + 1u] * b_w[p.w_o + i{{ s }} + 1u]);
{% elif first and halved and load == "real" %}
        let v{{ s }} = vec2<f32>(b_a[from_ + 2u * {{ i }} * p.inner], b_a[from_ + (2u * {{ i }} + 1u) * p.inner]);
{% elif first and load == "real" %}
        let v{{ s }} = vec2<f32>(b_a[from_ + {{ i }} * p.inner], 0.0);
{% elif first and halved %}
        // Its even elements and its odd ones have spectra of their own, which are joined as real and imaginary parts.
        let i{{ s }} = {{ i }};
        let n{{ s }} = b_a[from_ + i{{ s }} * p.inner];
        let m{{ s }} = b_a[from_ + ({{ length }}u - i{{ s }}) * p.inner];
        let x{{ s }} = select(n{{ s }}, vec2<f32>(n{{ s }}.x, 0.0), i{{ s }} == 0u);
        let z{{ s }} = select(vec2<f32>(m{{ s }}.x, -m{{ s }}.y), vec2<f32>(m{{ s }}.x, 0.0), i{{ s }} == 0u);
        let q{{ s }} = times(x{{ s }} - z{{ s }}, twiddle(i{{ s }}, {{ signal }}u) * vec2<f32>(1.0, -1.0));
        let v{{ s }} = (x{{ s }} + z{{ s }} + vec2<f32>(-q{{ s }}.y, q{{ s }}.x)) * conjugate;
{% elif first and load == "hermitian" %}
        let i{{ s }} = {{ i }};
        let x{{ s }} = b_a[from_ + min(i{{ s }}, {{ length }}u - i{{ s }}) * p.inner];
        let m{{ s }} = select(select(-x{{ s }}.y, x{{ s }}.y, 2u * i{{ s }} < {{ length }}u), 0.0, i{{ s }} == 0u);
        let v{{ s }} = vec2<f32>(x{{ s }}.x, m{{ s }}) * conjugate;
{% elif first %}
        let v{{ s }} = b_a[from_ + {{ i }} * p.inner] * conjugate;
{% elif s == 0 %}
        let v0 = g[{{ u * radix }}];
{% elif s < 4 or s % 4 == 0 %}
        let v{{ s }} = times(g[{{ u * radix + s }}], w{{ s }});
{% else %}
        let v{{ s }} = times(g[{{ u * radix + s }}], times(w{{ s - s % 4 }}, w{{ s % 4 }}));
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
{% if last and halved and store == "half" %}
{% if not first %}
    workgroupBarrier();
{% endif %}
    // The spectra of even and odd elements from their sum: element k of it, and its mirror.
{% set outs = (length + threads) // threads %}
{% for k in range(outs) %}
    let k{{ k }} = min(t + {{ k * threads }}u, {{ length }}u);
    var a{{ k }} = vec2<f32>(0.0);
    var b{{ k }} = vec2<f32>(0.0);
{% endfor %}
{% for part in (".x", ".y") %}
    {{ write(radix, done, part) }}
{% for k in range(outs) %}
    a{{ k }}{{ part }} = memory[base + place(k{{ k }} % {{ length }}u)];
    b{{ k }}{{ part }} = memory[base + place(({{ length }}u - k{{ k }}) % {{ length }}u)];
{% endfor %}
{% if not loop.last %}
    workgroupBarrier();
{% endif %}
{% endfor %}
{% for k in range(outs) %}
    if (live && t + {{ k * threads }}u <= {{ length }}u) {
        let even = vec2<f32>(a{{ k }}.x + b{{ k }}.x, a{{ k }}.y - b{{ k }}.y);
        let odd = vec2<f32>(a{{ k }}.y + b{{ k }}.y, b{{ k }}.x - a{{ k }}.x);
        b_out[to + k{{ k }}{{ "" if load == "frames" else " * p.inner" }}] = (even + times(odd, twiddle(k{{ k }}, {{ signal }}u))) * (0.5 * p.scale);
    }
{% endfor %}
{% elif last %}
    if (live) {
        let finish = conjugate * p.scale;
{% for u in range(rounds[radix]) %}
        {{ own(radix, u) }}{
{% for s in range(radix) %}
{% set i = "(t + %du)" % (u * threads + s * done) %}
{% set value = "h[%d]" % (u * radix + s) %}
{% if store == "real" and halved %}
            b_out[to + 2u * {{ i }} * p.inner] = {{ value }}.x * p.scale;
            b_out[to + (2u * {{ i }} + 1u) * p.inner] = {{ value }}.y * p.sign * p.scale;
{% elif store == "real" %}
            b_out[to + {{ i }} * p.inner] = {{ value }}.x * p.scale;
{% elif store == "turned" %}
            b_out[to + {{ i }}] = times({{ value }}, twiddle(column * {{ i }}, p.inner * {{ length }}u)) * finish;
{% elif store == "half" %}
{% if u * threads + s * done <= length // 2 %}
            if ({{ i }} <= {{ length // 2 }}u) { b_out[to + {{ i }} * p.inner] = {{ value }} * finish; }
{% endif %}
{% else %}
            b_out[to + {{ i }} * p.inner] = {{ value }} * finish;
{% endif %}
{% endfor %}
        }
{% endfor %}
    }
{% else %}
{% if not first %}
    workgroupBarrier();
{% endif %}
{% set next = radices[loop.index0 + 1] %}
{% for part in (".x", ".y") %}
    {{ write(radix, done, part) }}
    {{ read(next, part) }}
{% if not loop.last %}
    workgroupBarrier();
{% endif %}
{% endfor %}
{% endif %}
{% endfor %}
}
