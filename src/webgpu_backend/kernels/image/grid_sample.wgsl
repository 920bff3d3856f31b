{% include "text/interface.wgsl" %}

{% include "image/volume.wgsl" %}
{% set taps = {"nearest": 1, "linear": 2, "cubic": 4}[mode] %}
{% set axes = [("z", "depth", 2), ("y", "height", 1), ("x", "width", 0)][3 - dims:] %}
// torch keeps coordinates and weights in the tensors' own dtype, and half-precision results depend on it.
fn rounded(x: f32) -> f32 {
    return {{ rounding }};
}

fn clip(u: f32, size: u32) -> f32 {
    return min(f32(size) - 1.0, max(u, 0.0));
}

// Folded back at the borders; .y is the sign of its derivative.
fn reflect_(u: f32, size: u32) -> vec2<f32> {
    let low = {{ "0.0" if corners else "-0.5" }};
    let span = f32(size){{ " - 1.0" if corners }};
    if (span <= 0.0) {
        return vec2<f32>(0.0);
    }
    let x = abs(u - low);
    let turns = floor(x / span);
    let extra = f32_fmod(x, span);
    let odd = f32_fmod(turns, 2.0) >= 1.0;
    let side = select(1.0, -1.0, u < low);
    return vec2<f32>(select(extra, span - extra, odd) + low, select(side, -side, odd));
}

fn padded(u: f32, size: u32) -> f32 {
{% if padding == "border" %}
    return clip(u, size);
{% elif padding == "reflection" %}
    return clip(reflect_(u, size).x, size);
{% else %}
    return u;
{% endif %}
}

fn spread(c: f32, size: u32) -> f32 {
{% if corners %}
    return rounded(rounded(rounded(c + 1.0) * 0.5) * (f32(size) - 1.0));
{% else %}
    return rounded(rounded(rounded(c + 1.0) * f32(size)) - 1.0) * 0.5;
{% endif %}
}

// Kept within what an integer holds; anything so far out is outside.
fn whole(u: f32) -> i32 {
    return i32(clamp(u, -1.0e9, 1.0e9));
}

// Of one dimension: the first element read, and how far the point lies beyond the element it is measured from.
// `rest` is how far the next element is; rounded for itself, as torch does in three dimensions.
struct Tap { base: i32, t: f32, rest: f32 }

fn tap(c: f32, size: u32) -> Tap {
{% if mode == "cubic" %}
    let u = spread(c, size);
    let low = floor(u);
    return Tap(whole(low) - 1, u - low, 0.0);
{% elif mode == "linear" %}
    let u = padded(spread(c, size), size);
    let low = floor(u);
    let t = rounded(u - low);
    return Tap(whole(low), t, rounded({{ "1.0 - t" if dims == 2 else "low + 1.0 - u" }}));
{% else %}
    return Tap(whole(round(padded(spread(c, size), size))), 0.0, 0.0);
{% endif %}
}

// The element that tap k reads, or -1.
fn element(t: Tap, k: i32, size: u32) -> i32 {
{% if mode == "cubic" and padding != "zeros" %}
    return whole(padded(f32(t.base + k), size));
{% else %}
    let i = t.base + k;
    return select(-1, i, i >= 0 && i < i32(size));
{% endif %}
}

fn weight(k: i32, t: f32) -> f32 {
{% if mode == "cubic" %}
    let d = abs(t + 1.0 - f32(k));
    if (d <= 1.0) {
        return (1.25 * d - 2.25) * d * d + 1.0;
    }
    return ((-0.75 * d + 3.75) * d - 6.0) * d + 3.0;
{% elif mode == "linear" %}
    return select(t, rounded(1.0 - t), k == 0);
{% else %}
    return 1.0;
{% endif %}
}
{% macro place_of(q) %}
{% for d, size, c in axes %}
    let g{{ d }} = g0 + {{ c }}u;
    let t{{ d }} = tap({{ g("g" ~ d, "f32") }}, p.{{ size }});
{% endfor %}
{% endmacro %}
{% macro walk() %}
{% for d, size, c in axes %}
    for (var k{{ d }} = 0; k{{ d }} < {{ taps }}; k{{ d }}++) {
        let e{{ d }} = element(t{{ d }}, k{{ d }}, p.{{ size }});
        if (e{{ d }} < 0) {
            continue;
        }
{% endfor %}
{% endmacro %}
{% if kind == "forward" %}

fn at(i: u32) -> {{ result }} {
    let q = place(i, p.od, p.oh, p.ow);
    let g0 = (((q.batch * p.od + q.z) * p.oh + q.y) * p.ow + q.x) * {{ dims }}u;
    let base = q.batch * p.sn + q.channel * p.sc;
{{ place_of() }}
{% if dims == 2 and mode != "nearest" and padding == "zeros" %}
    // A coordinate that is none has no share either, as on the CPU.
    let share = tx.t + ty.t;
    var sum = select(0.0, share, f32_isnan(share));
{% else %}
    var sum = 0.0;
{% endif %}
{{ walk() }}
        let j = base{% for d, size, c in axes %} + u32(e{{ d }}) * p.s{{ d }}{% endfor %};
        sum += {% for d, size, c in axes %}weight(k{{ d }}, t{{ d }}.t) * {% endfor %}{{ a("j", "f32") }};
{% for d in axes %}
    }
{% endfor %}
    return sum;
}
{% elif kind == "taps" %}

// For each tap of each point, which input element of the plane it reads and its share; output is (batch, tap, point).
fn at(i: u32) -> R {
    let points = p.od * p.oh * p.ow;
    let point = i % points;
    let k = i32((i / points) % {{ taps ** dims }}u);
    let batch = i / (points * {{ taps ** dims }}u);
    let g0 = (batch * points + point) * {{ dims }}u;
{{ place_of() }}
{% for d, size, c in axes %}
    let k{{ d }} = (k / {{ taps ** c }}) % {{ taps }};
    let e{{ d }} = element(t{{ d }}, k{{ d }}, p.{{ size }});
{% endfor %}
    let inside = {% for d, size, c in axes %}e{{ d }} >= 0{{ " && " if not loop.last }}{% endfor %};
    var j = 0;
{% for d, size, c in axes %}
    j = j * i32(p.{{ size }}) + e{{ d }};
{% endfor %}
    let w = {% for d, size, c in axes %}weight(k{{ d }}, t{{ d }}.t){{ " * " if not loop.last }}{% endfor %};
    let where_ = u32(select(0, j, inside));
    return R({{ index("where_", index_dtype) }}, select(0.0, w, inside));
}
{% else %}

// Derivative of weight() by the point's coordinate.
fn slope(k: i32, t: f32) -> f32 {
{% if mode == "cubic" %}
    let x = t + 1.0 - f32(k);
    let d = abs(x);
    let s = select(1.0, -1.0, x < 0.0);
    if (d <= 1.0) {
        return s * (3.75 * d - 4.5) * d;
    }
    return s * ((-2.25 * d + 7.5) * d - 6.0);
{% elif mode == "linear" %}
    return select(1.0, -1.0, k == 0);
{% else %}
    return 0.0;
{% endif %}
}

// Derivative of the coordinate in elements by the grid's.
fn stretch(c: f32, size: u32) -> f32 {
    let unit = {{ "(f32(size) - 1.0) * 0.5" if corners else "f32(size) * 0.5" }};
{% if mode == "linear" and padding != "zeros" %}
    let u = spread(c, size);
{% if padding == "reflection" %}
    let folded = reflect_(u, size);
    return select(folded.y * unit, 0.0, folded.x <= 0.0 || folded.x >= f32(size) - 1.0);
{% else %}
    return select(unit, 0.0, u <= 0.0 || u >= f32(size) - 1.0);
{% endif %}
{% else %}
    return unit;
{% endif %}
}

fn at(i: u32) -> {{ result }} {
    let component = i % {{ dims }}u;
    let g0 = i - component;
    let point = i / {{ dims }}u;
    let points = p.od * p.oh * p.ow;
    let batch = point / points;
    let to = batch * p.channels * points + point % points;
{{ place_of() }}
    var sum = 0.0;
{% if rounding != "x" and mode == "linear" %}
{# As torch rounds: at every operation, channel by channel. #}
{% for d, size, c in axes %}
    let w{{ d }} = vec2<f32>(t{{ d }}.rest, t{{ d }}.t);
    let i{{ d }} = vec2<i32>(element(t{{ d }}, 0, p.{{ size }}), element(t{{ d }}, 1, p.{{ size }}));
{% endfor %}
    for (var c = 0u; c < p.channels; c++) {
        let plane = batch * p.sn + c * p.sc;
        let o = to + c * points;
        let dy = {{ dy("o", "f32") }};
{% if dims == 2 %}
{% for ky in range(2) %}
{% for kx in range(2) %}
        var v{{ ky }}{{ kx }} = 0.0;
        if (iy[{{ ky }}] >= 0 && ix[{{ kx }}] >= 0) {
            let j = plane + u32(iy[{{ ky }}]) * p.sy + u32(ix[{{ kx }}]) * p.sx;
            v{{ ky }}{{ kx }} = {{ a("j", "f32") }};
        }
{% endfor %}
{% endfor %}
        let low = rounded(rounded(select(v10, v01, component == 0u) - v00) * select(wx[0], wy[0], component == 0u));
        let high = rounded(rounded(v11 - select(v01, v10, component == 0u)) * select(wx[1], wy[1], component == 0u));
        sum = rounded(sum + rounded(rounded(low + high) * dy));
{% else %}
        for (var k = 0; k < 8; k++) {
            let kx = k % 2;
            let ky = k / 2 % 2;
            let kz = k / 4;
            if (ix[kx] < 0 || iy[ky] < 0 || iz[kz] < 0) {
                continue;
            }
            let j = plane + u32(iz[kz]) * p.sz + u32(iy[ky]) * p.sy + u32(ix[kx]) * p.sx;
            let one = select(wx[kx], wy[ky], component == 0u);
            let two = select(wz[kz], wy[ky], component == 2u);
            let share = rounded(rounded(rounded({{ a("j", "f32") }} * one) * two) * dy);
            let ahead = select(select(kz, ky, component == 1u), kx, component == 0u) == 1;
            sum = rounded(sum + select(-share, share, ahead));
        }
{% endif %}
    }
{% else %}
{{ walk() }}
        let w = {% for d, size, c in axes %}select(weight(k{{ d }}, t{{ d }}.t), slope(k{{ d }}, t{{ d }}.t), component == {{ c }}u){{ " * " if not loop.last }}{% endfor %};
        let base = batch * p.sn{% for d, size, c in axes %} + u32(e{{ d }}) * p.s{{ d }}{% endfor %};
        var across = 0.0;
        for (var c = 0u; c < p.channels; c++) {
            let j = base + c * p.sc;
            let o = to + c * points;
            across += {{ a("j", "f32") }} * {{ dy("o", "f32") }};
        }
        sum += w * across;
{% for d in axes %}
    }
{% endfor %}
{% endif %}
    let own = g0 + component;
    let coordinate = {{ g("own", "f32") }};
{% for d, size, c in axes %}
    if (component == {{ c }}u) {
        sum *= stretch(coordinate, p.{{ size }});
    }
{% endfor %}
    return sum;
}
{% endif %}
{% include "text/by_index.wgsl" %}
