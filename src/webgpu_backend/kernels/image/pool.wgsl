{% include "text/interface.wgsl" %}

{{ functions }}
{% include "image/volume.wgsl" %}
{% if window == "fixed" %}

fn start(o: u32, k: u32, s: u32, pad: u32, size: u32, outs: u32) -> i32 {
    return i32(o * s) - i32(pad);
}

// The first and one past the last output whose window may reach input h.
fn first_reaching(h: u32, k: u32, s: u32, pad: u32, dilation: u32, size: u32, outs: u32) -> u32 {
    let reach = (k - 1u) * dilation + 1u;
    return select(0u, (h + pad - reach) / s + 1u, h + pad >= reach);
}

fn last_reaching(h: u32, k: u32, s: u32, pad: u32, dilation: u32, size: u32, outs: u32) -> u32 {
    return min((h + pad) / s + 1u, outs);
}
{% elif window == "adaptive" %}

fn start(o: u32, k: u32, s: u32, pad: u32, size: u32, outs: u32) -> i32 {
    return i32(o * size / outs);
}

fn end(o: u32, size: u32, outs: u32) -> i32 {
    return i32(((o + 1u) * size + outs - 1u) / outs);
}

fn first_reaching(h: u32, k: u32, s: u32, pad: u32, dilation: u32, size: u32, outs: u32) -> u32 {
    return h * outs / size;
}

fn last_reaching(h: u32, k: u32, s: u32, pad: u32, dilation: u32, size: u32, outs: u32) -> u32 {
    return min(((h + 1u) * outs + size - 1u) / size, outs);
}
{% endif %}
{% if kind in ("max", "largest", "avg") %}

fn input_at(q: At, z: i32, y: i32, x: i32) -> u32 {
    return q.batch * p.sn + q.channel * p.sc + u32(z) * p.sz + u32(y) * p.sy + u32(x) * p.sx;
}
{% endif %}
{% set fractional = {"z": 0, "y": 1, "x": 0 if dims == 2 else 2} %}
{% macro bounds(d, size, k, outs) %}
{% if window == "fixed" %}
    var {{ d }}0 = start(q.{{ d }}, p.k{{ d }}, p.s{{ d }}_, p.p{{ d }}, p.{{ size }}, p.{{ outs }});
    let {{ d }}1 = min({{ d }}0 + i32((p.k{{ d }} - 1u) * p.d{{ d }} + 1u), i32(p.{{ size }}));
    let {{ d }}d = i32(p.d{{ d }});
    {{ d }}0 = select({{ d }}0, {{ d }}0 + ((-{{ d }}0 + {{ d }}d - 1) / {{ d }}d) * {{ d }}d, {{ d }}0 < 0);
{% elif window == "adaptive" %}
    let {{ d }}0 = start(q.{{ d }}, 0u, 0u, 0u, p.{{ size }}, p.{{ outs }});
    let {{ d }}1 = end(q.{{ d }}, p.{{ size }}, p.{{ outs }});
    let {{ d }}d = 1;
{% else %}
    let {{ d }}0 = interval(sample({{ fractional[d] }}u, q), q.{{ d }}, p.{{ size }}, p.{{ outs }}, p.k{{ d }});
    let {{ d }}1 = {{ d }}0 + i32(p.k{{ d }});
    let {{ d }}d = 1;
{% endif %}
{% endmacro %}
{% if window == "fractional" %}

fn sample(k: u32, q: At) -> f32 {
    let i = (q.batch * p.channels + q.channel) * p.dims + k;
    return {{ r("i", "f32") }};
}

fn interval(u: f32, o: u32, size: u32, outs: u32, k: u32) -> i32 {
    if (o + 1u == outs) {
        return i32(size - k);
    }
    let alpha = f32(size - k) / f32(outs - 1u);
    return i32((f32(o) + u) * alpha) - i32(u * alpha);
}
{% endif %}
{% if kind in ("max", "largest") %}

fn at(i: u32) -> {{ result }} {
    let q = place(i, p.od, p.oh, p.ow);
{{ bounds("z", "depth", "kz", "od") }}
{{ bounds("y", "height", "ky", "oh") }}
{{ bounds("x", "width", "kx", "ow") }}
    var best = {{ lowest }};
{% if kind == "max" %}
    var where_ = (u32(z0) * p.height + u32(y0)) * p.width + u32(x0);
{% endif %}
    for (var z = z0; z < z1; z += zd) {
        for (var y = y0; y < y1; y += yd) {
            for (var x = x0; x < x1; x += xd) {
                let j = input_at(q, z, y, x);
                let v = {{ a("j") }};
                if (beats(v, best)) {
                    best = v;
{% if kind == "max" %}
                    where_ = (u32(z) * p.height + u32(y)) * p.width + u32(x);
{% endif %}
                }
            }
        }
    }
    return {{ "R(best, " ~ index("where_", index_dtype) ~ ")" if kind == "max" else "best" }};
}
{% elif kind == "avg" %}
{% set fixed = window == "fixed" %}

fn at(i: u32) -> {{ result }} {
    let q = place(i, p.od, p.oh, p.ow);
{{ bounds("z", "depth", "kz", "od") }}
{{ bounds("y", "height", "ky", "oh") }}
{{ bounds("x", "width", "kx", "ow") }}
    var sum = {{ zero }};
    for (var z = z0; z < z1; z++) {
        for (var y = y0; y < y1; y++) {
            for (var x = x0; x < x1; x++) {
                let j = input_at(q, z, y, x);
                sum = add(sum, {{ a("j") }});
            }
        }
    }
    return over(sum, {{ "divisor(q.z, q.y, q.x)" if fixed else "max((z1 - z0) * (y1 - y0) * (x1 - x0), 1)" }});
}
{% elif kind == "max_backward" %}

fn at(i: u32) -> {{ result }} {
    let q = place(i, p.depth, p.height, p.width);
    let own = (q.z * p.height + q.y) * p.width + q.x;
    let plane = (q.batch * p.channels + q.channel) * p.od * p.oh * p.ow;
{% for d, size, outs in (("z", "depth", "od"), ("y", "height", "oh"), ("x", "width", "ow")) %}
    let {{ d }}0 = first_reaching(q.{{ d }}, p.k{{ d }}, p.s{{ d }}_, p.p{{ d }}, p.d{{ d }}, p.{{ size }}, p.{{ outs }});
    let {{ d }}1 = last_reaching(q.{{ d }}, p.k{{ d }}, p.s{{ d }}_, p.p{{ d }}, p.d{{ d }}, p.{{ size }}, p.{{ outs }});
{% endfor %}
    var sum = {{ zero }};
    for (var z = z0; z < z1; z++) {
        for (var y = y0; y < y1; y++) {
            for (var x = x0; x < x1; x++) {
                let j = plane + (z * p.oh + y) * p.ow + x;
                if (u32({{ k("j", "u32") }}) == own) {
                    sum = add(sum, {{ g("j") }});
                }
            }
        }
    }
    return sum;
}
{% elif kind == "avg_backward" %}

fn at(i: u32) -> {{ result }} {
    let q = place(i, p.depth, p.height, p.width);
    let plane = (q.batch * p.channels + q.channel) * p.od * p.oh * p.ow;
{% for d, size, outs in (("z", "depth", "od"), ("y", "height", "oh"), ("x", "width", "ow")) %}
    let {{ d }}0 = first_reaching(q.{{ d }}, p.k{{ d }}, p.s{{ d }}_, p.p{{ d }}, 1u, p.{{ size }}, p.{{ outs }});
    let {{ d }}1 = last_reaching(q.{{ d }}, p.k{{ d }}, p.s{{ d }}_, p.p{{ d }}, 1u, p.{{ size }}, p.{{ outs }});
{% endfor %}
    var sum = {{ zero }};
    for (var z = z0; z < z1; z++) {
        for (var y = y0; y < y1; y++) {
            for (var x = x0; x < x1; x++) {
                let j = plane + (z * p.oh + y) * p.ow + x;
{% if window == "adaptive" %}
                let count = ((end(z, p.depth, p.od) - start(z, 0u, 0u, 0u, p.depth, p.od))
                    * (end(y, p.height, p.oh) - start(y, 0u, 0u, 0u, p.height, p.oh))
                    * (end(x, p.width, p.ow) - start(x, 0u, 0u, 0u, p.width, p.ow)));
                sum = add(sum, over({{ g("j") }}, count));
{% else %}
                sum = add(sum, over({{ g("j") }}, divisor(z, y, x)));
{% endif %}
            }
        }
    }
    return sum;
}
{% endif %}
{% if kind in ("avg", "avg_backward") and window == "fixed" %}

// Of one dimension: elements under the window, with padding or without.
fn extent(o: u32, k: u32, s: u32, pad: u32, size: u32) -> u32 {
    let low = i32(o * s) - i32(pad);
{% if include_pad %}
    return u32(min(low + i32(k), i32(size + pad)) - low);
{% else %}
    return u32(max(min(low + i32(k), i32(size)) - max(low, 0), 0));
{% endif %}
}

fn divisor(z: u32, y: u32, x: u32) -> i32 {
    if (p.divisor != 0) {
        return p.divisor;
    }
    return i32(max(extent(z, p.kz, p.sz_, p.pz, p.depth) * extent(y, p.ky, p.sy_, p.py, p.height) * extent(x, p.kx, p.sx_, p.px, p.width), 1u));
}
{% endif %}
{% include "text/by_index.wgsl" %}
