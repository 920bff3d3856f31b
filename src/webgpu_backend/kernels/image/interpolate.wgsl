{% include "text/interface.wgsl" %}

{% include "image/volume.wgsl" %}
{% set taps = {"nearest": 1, "exact": 1, "linear": 2, "cubic": 4, "lanczos": 6}[mode] %}
// Where output o of one dimension starts to read, and how far it lies between elements.
struct Tap { base: i32, t: f32 }

{% if mode == "nearest" %}
fn tap(o: u32, scale: f32, size: u32) -> Tap {
    return Tap(min(i32(floor(f32(o) * scale)), i32(size) - 1), 0.0);
}
{% elif mode == "exact" %}
fn tap(o: u32, scale: f32, size: u32) -> Tap {
    return Tap(min(i32(floor((f32(o) + 0.5) * scale)), i32(size) - 1), 0.0);
}
{% elif not antialias %}
fn tap(o: u32, scale: f32, size: u32) -> Tap {
{% if corners %}
    let source = f32(o) * scale;
{% else %}
    let source = {{ "max((f32(o) + 0.5) * scale - 0.5, 0.0)" if mode == "linear" else "(f32(o) + 0.5) * scale - 0.5" }};
{% endif %}
    let low = floor(source);
    return Tap(i32(low){{ " - 1" if mode == "cubic" }}, source - low);
}
{% endif %}
{% if mode == "lanczos" %}

// sin(pi x) / (pi x), by the series of the sine within half a turn: the device's own may have few digits.
fn sinc(x: f32) -> f32 {
    let turns = round(x);
    let t = (x - turns) * 3.14159265358979323846;
    let s = t * t;
{% set terms = namespace(text="1.0") %}
{% for n in range(21, 1, -2) %}
{% set terms.text = "(1.0 - s / " ~ (n * (n - 1)) ~ ".0 * " ~ terms.text ~ ")" %}
{% endfor %}
    let sine = t * {{ terms.text }};
    let odd = turns - 2.0 * floor(turns * 0.5);
    return select(select(sine, -sine, odd == 1.0) / (x * 3.14159265358979323846), 1.0, x == 0.0);
}
{% endif %}
{% if antialias %}

fn weight_at(x: f32) -> f32 {
    let d = abs(x);
{% if mode == "linear" %}
    return max(1.0 - d, 0.0);
{% elif mode == "lanczos" %}
    return select(0.0, sinc(d) * sinc(d / 3.0), d < 3.0);
{% else %}
    if (d < 1.0) {
        return (1.5 * d - 2.5) * d * d + 1.0;
    }
    return select(0.0, ((-0.5 * d + 2.5) * d - 4.0) * d + 2.0, d < 2.0);
{% endif %}
}

// The filter widens with the scale: first element, one past the last, centre and inverse scale.
struct Span { low: i32, high: i32, center: f32, inverse: f32 }

fn span(o: u32, scale: f32, size: u32) -> Span {
    let support = {{ taps // 2 }}.0 * max(scale, 1.0);
    let center = scale * (f32(o) + 0.5);
    let low = max(i32(center - support + 0.5), 0);
    return Span(low, min(i32(center + support + 0.5), i32(size)), center, select(1.0, 1.0 / scale, scale >= 1.0));
}

fn weight_of(s: Span, j: i32) -> f32 {
    return weight_at((f32(j) - s.center + 0.5) * s.inverse);
}
{% elif taps == 1 %}

fn weight(k: i32, t: f32) -> f32 {
    return 1.0;
}
{% elif mode == "linear" %}

fn weight(k: i32, t: f32) -> f32 {
    return select(t, 1.0 - t, k == 0);
}
{% else %}

fn weight(k: i32, t: f32) -> f32 {
    let d = abs(t + 1.0 - f32(k));
    if (d <= 1.0) {
        return (1.25 * d - 2.25) * d * d + 1.0;
    }
    return ((-0.75 * d + 3.75) * d - 6.0) * d + 3.0;
}
{% endif %}
{% set axes = [("z", "depth", "od"), ("y", "height", "oh"), ("x", "width", "ow")][3 - dims:] %}
{% if not backward %}

fn at(i: u32) -> {{ result }} {
    let q = place(i, p.od, p.oh, p.ow);
    let base = q.batch * p.sn + q.channel * p.sc;
{% if taps == 1 %}
{% for d, size, outs in axes %}
    let t{{ d }} = tap(q.{{ d }}, p.f{{ d }}, p.{{ size }});
{% endfor %}
    let j = base{% for d, size, outs in axes %} + u32(t{{ d }}.base) * p.s{{ d }}{% endfor %};
    return {{ a("j") }};
{% elif antialias %}
{% for d, size, outs in axes %}
    let s{{ d }} = span(q.{{ d }}, p.f{{ d }}, p.{{ size }});
    var n{{ d }} = 0.0;
{% endfor %}
    var sum = 0.0;
    for (var x = sx.low; x < sx.high; x++) {
        nx += weight_of(sx, x);
    }
    for (var y = sy.low; y < sy.high; y++) {
        let wy = weight_of(sy, y);
        ny += wy;
        if (wy == 0.0) { // at the filter's edge: zero times infinity is NaN
            continue;
        }
        var row = 0.0;
        for (var x = sx.low; x < sx.high; x++) {
            let j = base + u32(y) * p.sy + u32(x) * p.sx;
            let wx = weight_of(sx, x);
            if (wx != 0.0) {
                row += wx * {{ a("j", "f32") }};
            }
        }
        sum += wy * row;
    }
    return sum / (nx * ny);
{% else %}
{% for d, size, outs in axes %}
    let t{{ d }} = tap(q.{{ d }}, p.f{{ d }}, p.{{ size }});
{% endfor %}
    var sum = 0.0;
{% for d, size, outs in axes %}
    for (var k{{ d }} = 0; k{{ d }} < {{ taps }}; k{{ d }}++) {
        let w{{ d }} = weight(k{{ d }}, t{{ d }}.t);
        let i{{ d }} = u32(clamp(t{{ d }}.base + k{{ d }}, 0, i32(p.{{ size }}) - 1)) * p.s{{ d }};
{% endfor %}
        let j = base{% for d, size, outs in axes %} + i{{ d }}{% endfor %};
        sum += {% for d, size, outs in axes %}w{{ d }} * {% endfor %}{{ a("j", "f32") }};
{% for d in axes %}
    }
{% endfor %}
    return sum;
{% endif %}
}
{% else %}

// The share of input i in output o, of one dimension.
fn share(i: u32, o: u32, scale: f32, size: u32) -> f32 {
{% if antialias %}
    let s = span(o, scale, size);
    if (i32(i) < s.low || i32(i) >= s.high) {
        return 0.0;
    }
    var total = 0.0;
    for (var j = s.low; j < s.high; j++) {
        total += weight_of(s, j);
    }
    return weight_of(s, i32(i)) / total;
{% else %}
    let t = tap(o, scale, size);
    var w = 0.0;
    for (var k = 0; k < {{ taps }}; k++) {
        w += select(0.0, weight(k, t.t), clamp(t.base + k, 0, i32(size) - 1) == i32(i));
    }
    return w;
{% endif %}
}

{% if antialias %}
// Outputs that may read input i: a margin is allowed for, share() decides.
fn range(i: u32, scale: f32, size: u32, outs: u32) -> vec2<u32> {
    if (scale <= 0.0) {
        return vec2<u32>(0u, outs);
    }
    let margin = {{ taps // 2 }}.0 * max(scale, 1.0) + 1.0;
    let low = clamp((f32(i) - margin) / scale - 1.0, 0.0, f32(outs));
    let high = clamp((f32(i) + 1.0 + margin) / scale + 2.0, 0.0, f32(outs));
    return vec2<u32>(select(u32(low), 0u, i == 0u), select(u32(high), outs, i + 1u == size));
}
{% else %}
{# A source that lies in (i + low, i + high) reads i, and output o has its source at (o + middle) * scale - middle. #}
{% set centred = not corners and mode != "nearest" %}
{% set near, far = {"nearest": (0.0, 1.0), "exact": (0.0, 1.0), "linear": (-1.0, 1.0), "cubic": (-2.0, 2.0)}[mode] %}
{% set shift = 0.5 if centred and taps > 1 else 0.0 %}
// Outputs that may read input i: half an output on each side is allowed for rounding, share() decides.
fn range(i: u32, scale: f32, size: u32, outs: u32) -> vec2<u32> {
    if (scale <= 0.0) {
        return vec2<u32>(0u, outs);
    }
    let low = clamp((f32(i) + {{ near + shift }}) / scale - {{ 1.0 if centred else 0.5 }}, 0.0, f32(outs));
    let high = clamp((f32(i) + {{ far + shift }}) / scale + {{ 1.0 if centred else 1.5 }}, 0.0, f32(outs));
    return vec2<u32>(select(u32(low), 0u, i == 0u), select(u32(high), outs, i + 1u == size));
}
{% endif %}

fn at(i: u32) -> {{ result }} {
    let q = place(i, p.depth, p.height, p.width);
    let base = q.batch * p.sn + q.channel * p.sc;
    var sum = {{ result }}(0.0);
{% if whole %}
{# Every input has a block of outputs of its own. #}
{% for d, size, outs in axes %}
    let b{{ d }} = p.{{ outs }} / p.{{ size }};
    for (var {{ d }} = q.{{ d }} * b{{ d }}; {{ d }} < (q.{{ d }} + 1u) * b{{ d }}; {{ d }}++) {
{% endfor %}
        let j = base{% for d, size, outs in axes %} + {{ d }} * p.s{{ d }}{% endfor %};
        sum += {{ a("j") }};
{% for d in axes %}
    }
{% endfor %}
    return sum;
}
{% else %}
{% for d, size, outs in axes %}
    let r{{ d }} = range(q.{{ d }}, p.f{{ d }}, p.{{ size }}, p.{{ outs }});
    for (var {{ d }} = r{{ d }}.x; {{ d }} < r{{ d }}.y; {{ d }}++) {
        let w{{ d }} = share(q.{{ d }}, {{ d }}, p.f{{ d }}, p.{{ size }});
        if (w{{ d }} == 0.0) {
            continue;
        }
{% endfor %}
        let j = base{% for d, size, outs in axes %} + {{ d }} * p.s{{ d }}{% endfor %};
        sum += {{ result }}({% for d, size, outs in axes %}{{ " * " if not loop.first }}w{{ d }}{% endfor %}) * {{ a("j") }};
{% for d in axes %}
    }
{% endfor %}
    return sum;
}
{% endif %}
{% endif %}
{% if fours %}

// Four neighbours of a row at a time: where they are is found once.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let g = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (4u * g >= p.n) {
        return;
    }
    let q = place(4u * g, p.od, p.oh, p.ow);
    var base = q.batch * p.sn + q.channel * p.sc;
{% for d, size, outs in axes if d != "x" %}
    base += u32(tap(q.{{ d }}, p.f{{ d }}, p.{{ size }}).base) * p.s{{ d }};
{% endfor %}
{% for k in range(4) %}
    let j{{ k }} = base + u32(tap(q.x + {{ k }}u, p.fx, p.width).base) * p.sx;
    let y{{ k }} = {{ a("j%d" % k) }};
{% endfor %}
{% for line in stores %}
    {{ line }}
{% endfor %}
}
{% else %}
{% include "text/by_index.wgsl" %}
{% endif %}
