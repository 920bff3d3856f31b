{% include "text/interface.wgsl" %}

// torchvision keeps coordinates in the tensors' own dtype, and results in float16 depend on it.
fn rounded(x: f32) -> f32 {
    return {{ "f32_half(x)" if half else "x" }};
}

// A region: its image, where it begins, the size of its bins, and how many samples a bin has each way.
struct Roi { image: i32, y: f32, x: f32, high: f32, wide: f32, rows: i32, columns: i32 }

fn samples(length: f32, bins: u32) -> i32 {
{% if adaptive %}
    return select(0, i32(ceil(rounded(length / f32(bins)))), abs(length) < 1.0e9);
{% else %}
    return i32(p.ratio);
{% endif %}
}

fn region(k: u32) -> Roi {
{% for c in range(5) %}
    let o{{ c }} = 5u * k + {{ c }}u;
{% endfor %}
    let scale = rounded(p.scale);
{% for name, c in [("x", 1), ("y", 2), ("right", 3), ("bottom", 4)] %}
    let {{ name }} = rounded(rounded({{ r("o" ~ c, "f32") }} * scale) - {{ "0.5" if aligned else "0.0" }});
{% endfor %}
    var wide = rounded(right - x);
    var high = rounded(bottom - y);
{% if not aligned %}
    wide = select(wide, 1.0, wide < 1.0);
    high = select(high, 1.0, high < 1.0);
{% endif %}
    return Roi(
        i32({{ r("o0", "f32") }}), y, x, rounded(high / f32(p.high)), rounded(wide / f32(p.wide)),
        samples(high, p.high), samples(wide, p.wide),
    );
}

// Where a sample of a bin lies.
fn point(start: f32, size: f32, bin: i32, sample: i32, samples: i32) -> f32 {
    let low = rounded(start + rounded(f32(bin) * size));
    return rounded(low + rounded(rounded(rounded(f32(sample) + 0.5) * size) / rounded(f32(samples))));
}

// Of one dimension: the elements on both sides of a point, and how far it is from the first to the second.
struct Tap { low: i32, high: i32, t: f32, inside: bool }

fn tap(v: f32, size: u32) -> Tap {
    let inside = v >= -1.0 && v <= f32(size);
    let u = select(0.0, v, inside && v > 0.0);
    let low = min(i32(u), i32(size) - 1);
    let last = low == i32(size) - 1;
    return Tap(low, low + select(1, 0, last), select(rounded(u - f32(low)), 0.0, last), inside);
}

// Which of the samples, counted from the start, may lie between two elements: a few more are named.
fn between(start: f32, step: f32, count: i32, low: f32, high: f32) -> vec2<i32> {
    if (!(step > 0.0) || count < 8) {
        return vec2<i32>(0, count);
    }
    let first = floor((low - start) / step - p.margin);
    let end = ceil((high - start) / step + p.margin);
    return vec2<i32>(i32(clamp(first, 0.0, f32(count))), i32(clamp(end, 0.0, f32(count))));
}
{% if kind == "forward" %}

fn at(i: u32) -> {{ result }} {
    let pw = i % p.wide;
    let ph = (i / p.wide) % p.high;
    let c = (i / (p.wide * p.high)) % p.channels;
    let r = region(i / (p.wide * p.high * p.channels));
    let image = checked(u32(r.image), select(0u, 0xffffffffu, r.image < 0), p.images, p.site);
    let base = image * p.sn + {{ "((c * p.high + ph) * p.wide + pw)" if mapped else "c" }} * p.sc;
    let top = r.y + f32(ph) * r.high;
    let left = r.x + f32(pw) * r.wide;
    let ys = between(top, r.high / f32(r.rows), r.rows, -1.0, f32(p.height));
    let xs = between(left, r.wide / f32(r.columns), r.columns, -1.0, f32(p.width));
    var sum = 0.0;
    for (var y = ys.x + i32(p.begin); y < min(ys.y, ys.x + i32(p.end)); y++) {
        let ty = tap(point(r.y, r.high, i32(ph), y, r.rows), p.height);
        if (!ty.inside) {
            continue;
        }
        let upper = base + u32(ty.low) * p.sy;
        let lower = base + u32(ty.high) * p.sy;
        for (var x = xs.x; x < xs.y; x++) {
            let tx = tap(point(r.x, r.wide, i32(pw), x, r.columns), p.width);
            if (!tx.inside) {
                continue;
            }
            let j0 = upper + u32(tx.low) * p.sx;
            let j1 = upper + u32(tx.high) * p.sx;
            let j2 = lower + u32(tx.low) * p.sx;
            let j3 = lower + u32(tx.high) * p.sx;
            let hy = 1.0 - ty.t;
            let hx = 1.0 - tx.t;
            sum += hy * hx * {{ a("j0", "f32") }} + hy * tx.t * {{ a("j1", "f32") }}
                + ty.t * hx * {{ a("j2", "f32") }} + ty.t * tx.t * {{ a("j3", "f32") }};
        }
    }
    let count = rounded(f32(r.rows) * f32(r.columns));
    return sum / {{ "count" if mapped else "max(count, 1.0)" }};
}
{% include "text/by_index.wgsl" %}
{% else %}

// What a sample at v has of an element.
fn share(v: f32, element: i32, size: u32) -> f32 {
    let t = tap(v, size);
    return select(select(select(0.0, t.t, element == t.high), 1.0 - t.t, element == t.low), 0.0, !t.inside);
}

// A thread has {{ chunk }} channels of an element of an image, and looks at all regions for samples beside it.
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let g = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (g >= p.n) {
        return;
    }
    let chunks = (p.channels + {{ chunk - 1 }}u) / {{ chunk }}u;
    let c = g % chunks * {{ chunk }}u;
    let pixel = g / chunks;
    let px = i32(pixel % p.width);
    let py = i32((pixel / p.width) % p.height);
    let image = i32(pixel / (p.width * p.height));
{% for j in range(chunk) %}
    var sum{{ j }} = 0.0;
    let c{{ j }} = min(c + {{ j }}u, p.channels - 1u);
{% endfor %}
    for (var k = p.begin; k < p.end; k++) {
        let r = region(k);
        if (r.image != image || r.rows <= 0 || r.columns <= 0) {
            continue;
        }
{% if mapped %}
        let bx = i32(c % p.wide);
        let by = i32((c / p.wide) % p.high);
        let out_c = c / (p.wide * p.high);
        let ys = between(r.y + f32(by) * r.high, r.high / f32(r.rows), r.rows, f32(py - 1), f32(py + 1));
        let xs = between(r.x + f32(bx) * r.wide, r.wide / f32(r.columns), r.columns, f32(px - 1), f32(px + 1));
{% else %}
        let ys = between(r.y, r.high / f32(r.rows), r.rows * i32(p.high), f32(py - 1), f32(py + 1));
        let xs = between(r.x, r.wide / f32(r.columns), r.columns * i32(p.wide), f32(px - 1), f32(px + 1));
{% endif %}
        if (ys.x >= ys.y || xs.x >= xs.y) {
            continue;
        }
        let count = rounded(f32(r.rows) * f32(r.columns));
        for (var y = ys.x; y < ys.y; y++) {
{% if not mapped %}
            let by = y / r.rows;
{% endif %}
            let wy = share(point(r.y, r.high, by, y{{ " - by * r.rows" if not mapped }}, r.rows), py, p.height);
            if (wy == 0.0) {
                continue;
            }
            for (var x = xs.x; x < xs.y; x++) {
{% if not mapped %}
                let bx = x / r.columns;
{% endif %}
                let at = point(r.x, r.wide, bx, x{{ " - bx * r.columns" if not mapped }}, r.columns);
                let w = wy * share(at, px, p.width) / count;
                if (w == 0.0) {
                    continue;
                }
                let from_ = k * p.gn + u32(by) * p.gy + u32(bx) * p.gx;
{% for j in range(chunk) %}
                let j{{ j }} = from_ + {{ "out_c" if mapped else "c" ~ j }} * p.gc;
                sum{{ j }} += w * {{ dy("j" ~ j, "f32") }};
{% endfor %}
            }
        }
    }
    let to = pixel * p.channels + c;
{% for j in range(chunk) %}
    if (c + {{ j }}u < p.channels) {
        b_out[to + {{ j }}u] = sum{{ j }};
    }
{% endfor %}
}
{% endif %}
