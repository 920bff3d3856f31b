{% include "text/interface.wgsl" %}

// torchvision keeps coordinates in the tensors' own dtype, and results in float16 depend on it.
fn rounded(x: f32) -> f32 {
    return {{ "f32_half(x)" if half else "x" }};
}

// Kept within what an integer holds; anything so far out is outside.
fn whole(u: f32) -> i32 {
    return i32(clamp(floor(u), -1.0e9, 1.0e9));
}

// Where element (tap, place) of a window reads: the element before that point, how far it is from there, its mask.
struct Read { y: i32, x: i32, ty: f32, tx: f32, inside: bool, weight: f32 }

fn read_of(image: u32, group: u32, tap: u32, place: u32) -> Read {
    let taps = p.high * p.wide;
    let bunch = image * p.groups + group;
    let oy = ((bunch * taps + tap) * 2u) * p.places + place;
    let ox = oy + p.places;
    let y0 = i32(place / p.ow * p.step_y + tap / p.wide * p.gap_y) - i32(p.pad_y);
    let x0 = i32(place % p.ow * p.step_x + tap % p.wide * p.gap_x) - i32(p.pad_x);
    let y = rounded(f32(y0) + {{ o("oy", "f32") }});
    let x = rounded(f32(x0) + {{ o("ox", "f32") }});
    let low_y = whole(y);
    let low_x = whole(x);
    let inside = y > -1.0 && y < f32(p.height) && x > -1.0 && x < f32(p.width);
{% if masked %}
    let m = (bunch * taps + tap) * p.places + place;
    let weight = {{ m("m", "f32") }};
{% else %}
    let weight = 1.0;
{% endif %}
    return Read(low_y, low_x, rounded(y - f32(low_y)), rounded(x - f32(low_x)), inside, weight);
}

fn on(y: i32, x: i32) -> bool {
    return y >= 0 && y < i32(p.height) && x >= 0 && x < i32(p.width);
}
{% if kind != "taps" %}

// An element of a plane that begins at `base`; zero outside.
fn element(base: u32, y: i32, x: i32) -> f32 {
    if (!on(y, x)) {
        return 0.0;
    }
    let j = base + u32(y) * p.width + u32(x);
    return {{ a("j", "f32") }};
}

fn between(base: u32, r: Read) -> f32 {
    let hy = 1.0 - r.ty;
    let hx = 1.0 - r.tx;
    return hy * hx * element(base, r.y, r.x) + hy * r.tx * element(base, r.y, r.x + 1)
        + r.ty * hx * element(base, r.y + 1, r.x) + r.ty * r.tx * element(base, r.y + 1, r.x + 1);
}
{% endif %}
{% if kind == "columns" %}

// (image, channel, tap, place)
fn at(i: u32) -> {{ result }} {
    let place = i % p.places;
    let tap = (i / p.places) % (p.high * p.wide);
    let plane = i / (p.places * p.high * p.wide);
    let channel = plane % p.channels;
    let r = read_of(plane / p.channels, channel / (p.channels / p.groups), tap, place);
    if (!r.inside) {
        return 0.0;
    }
    return r.weight * between(plane * p.height * p.width, r);
}
{% elif kind == "taps" %}

// (image, group, neighbour, tap, place): the element that gets a share of the gradient there, and the share.
fn at(i: u32) -> R {
    let taps = p.high * p.wide;
    let place = i % p.places;
    let tap = (i / p.places) % taps;
    let k = (i / (p.places * taps)) % 4u;
    let bunch = i / (p.places * taps * 4u);
    let r = read_of(bunch / p.groups, bunch % p.groups, tap, place);
    let y = r.y + i32(k / 2u);
    let x = r.x + i32(k % 2u);
    let w = select(1.0 - r.ty, r.ty, k >= 2u) * select(1.0 - r.tx, r.tx, k % 2u == 1u);
    let gets = on(y, x) && r.inside;
    let where_ = u32(select(0, y * i32(p.width) + x, gets));
    return R({{ index("where_", index_dtype) }}, select(0.0, r.weight * w, gets));
}
{% elif kind == "mask" %}

// (image, group, tap, place)
fn at(i: u32) -> {{ result }} {
    let taps = p.high * p.wide;
    let place = i % p.places;
    let tap = (i / p.places) % taps;
    let bunch = i / (p.places * taps);
    let each = p.channels / p.groups;
    let r = read_of(bunch / p.groups, bunch % p.groups, tap, place);
    if (!r.inside) {
        return 0.0;
    }
    var sum = 0.0;
    for (var c = 0u; c < each; c++) {
        let plane = bunch * each + c;
        let j = (plane * taps + tap) * p.places + place;
        sum += {{ dy("j", "f32") }} * between(plane * p.height * p.width, r);
    }
    return sum;
}
{% else %}

// (image, group, tap, y or x, place)
fn at(i: u32) -> {{ result }} {
    let taps = p.high * p.wide;
    let place = i % p.places;
    let along_x = (i / p.places) % 2u == 1u;
    let tap = (i / (2u * p.places)) % taps;
    let bunch = i / (2u * p.places * taps);
    let each = p.channels / p.groups;
    let r = read_of(bunch / p.groups, bunch % p.groups, tap, place);
    let t = select(r.tx, r.ty, along_x);
    var sum = 0.0;
    for (var c = 0u; c < each; c++) {
        let plane = bunch * each + c;
        let base = plane * p.height * p.width;
        let j = (plane * taps + tap) * p.places + place;
        let v00 = element(base, r.y, r.x);
        let v01 = element(base, r.y, r.x + 1);
        let v10 = element(base, r.y + 1, r.x);
        let v11 = element(base, r.y + 1, r.x + 1);
        let slope = t * (v11 - select(v01, v10, along_x)) + (1.0 - t) * (select(v10, v01, along_x) - v00);
        sum += {{ dy("j", "f32") }} * slope;
    }
    return r.weight * sum;
}
{% endif %}
{% include "text/by_index.wgsl" %}
