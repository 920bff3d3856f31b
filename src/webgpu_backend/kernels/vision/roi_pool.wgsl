{% include "text/interface.wgsl" %}

// Halves away from zero.
fn nearest(x: f32) -> i32 {
    let far = floor(abs(x) + 0.5);
    return i32(clamp(select(far, -far, x < 0.0), -1.0e9, 1.0e9));
}

// The elements of a bin, within the image.
fn bin_of(start: i32, end: i32, bins: u32, bin: u32, size: u32) -> vec2<i32> {
    let step = f32_quotient(f32(max(end - start + 1, 1)), f32(bins));
    let low = i32(floor(f32(bin) * step)) + start;
    let high = i32(ceil(f32(bin + 1u) * step)) + start;
    return clamp(vec2<i32>(low, high), vec2<i32>(0), vec2<i32>(i32(size)));
}

fn at(i: u32) -> R {
    let pw = i % p.wide;
    let ph = (i / p.wide) % p.high;
    let c = (i / (p.wide * p.high)) % p.channels;
    let k = i / (p.wide * p.high * p.channels);
{% for c in range(5) %}
    let o{{ c }} = 5u * k + {{ c }}u;
{% endfor %}
    let named = i32({{ r("o0", "f32") }});
    let image = checked(u32(named), select(0u, 0xffffffffu, named < 0), p.images, p.site);
    let base = image * p.sn + c * p.sc;
    let left = nearest({{ r("o1", "f32") }} * p.scale);
    let top = nearest({{ r("o2", "f32") }} * p.scale);
    let xs = bin_of(left, nearest({{ r("o3", "f32") }} * p.scale), p.wide, pw, p.width);
    let ys = bin_of(top, nearest({{ r("o4", "f32") }} * p.scale), p.high, ph, p.height);
    if (xs.y <= xs.x || ys.y <= ys.x) {
        return R(0.0, -1);
    }
    var most = -3.4028234663852886e38;
    var place = -1;
    for (var y = ys.x; y < ys.y; y++) {
        for (var x = xs.x; x < xs.y; x++) {
            let j = base + u32(y) * p.sy + u32(x) * p.sx;
            let v = {{ a("j", "f32") }};
            if (v > most) {
                most = v;
                place = y * i32(p.width) + x;
            }
        }
    }
    return R(most, place);
}
{% include "text/by_index.wgsl" %}
