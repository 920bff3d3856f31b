// Convolutions with few outputs a group: a thread has all of them at {{ pixels }} positions, whose neighbours are its neighbours'.
// Of a transposed convolution the outputs are those of {{ parts }} phases of the stride, which meet the same image.
{% include "text/interface.wgsl" %}
{% set quads = (rows + 3) // 4 %}
{% set pitch = parts * quads %}
var<workgroup> kept: array<vec4<f32>, {{ stage * channels * pitch }}>;
{# `count` channels from u on: read at every position, then multiplied into each part. #}
{% macro some(first, count) %}
{% for u in range(first, first + count) %}
{% for j in range(pixels) %}
                    let v{{ j }}_{{ u }} = select(0.0, {{ read("x", "at%d + %s" % (j, "x_at" if u == 0 else "x_at + %du * p.xs_c" % u)) }}, in{{ j }});
{% endfor %}
{% endfor %}
{% for g in range(parts) %}
                    {{ "if (live%d) " % g if parts > 1 else "" }}{
{% for u in range(first, first + count) %}
{% for q in range(quads) %}
                        let w{{ u }}_{{ q }} = kept[w_at + {{ u * pitch + g * quads + q }}u];
{% endfor %}
{% for j in range(pixels) %}
{% for r in range(rows) %}
                        s{{ j }}_{{ g * rows + r }} += v{{ j }}_{{ u }} * w{{ u }}_{{ r // 4 }}.{{ "xyzw"[r % 4] }};
{% endfor %}
{% endfor %}
{% endfor %}
                    }
{% endfor %}
{% endmacro %}
{# A place outside the image is a zero, and zero times infinity is NaN: such positions are done again without it. #}
{% macro again() %}
    while (spoilt != 0u) {
        let j = firstTrailingBit(spoilt);
        spoilt &= spoilt - 1u;
        let n = tile * {{ threads * pixels }}u + j * {{ threads }}u + lid;
        if (n >= p.n) {
            continue;
        }
        let image = n / places;
        let place = vec3<u32>(n % places / (p.pos_h * p.pos_w), n / p.pos_w % p.pos_h, n % p.pos_w);
        let corner = place * vec3<u32>(p.step_d, p.step_h, p.step_w) + vec3<u32>(p.first_d, p.first_h, p.first_w);
        let by = vec3<u32>(p.by_d, p.by_h, p.by_w);
        for (var g = 0u; g < {{ parts }}u; g++) {
            let number = block * {{ parts }}u + g;
            let phase = vec3<u32>(number / (p.by_h * p.by_w), number / p.by_w % p.by_h, number % p.by_w);
            let to = place * by + vec3<u32>(p.origin_d, p.origin_h, p.origin_w) + phase;
            if (any(to >= vec3<u32>(p.out_d, p.out_h, p.out_w)) || phase.x >= p.by_d) {
                continue;
            }
            for (var r = 0u; r < {{ rows }}u; r++) {
                var sum = 0.0;
                for (var k = 0u; k < taps && !f32_isnan(sum); k++) {
                    let tap = vec3<u32>(k / (p.taps_h * p.taps_w), k / p.taps_w % p.taps_h, k % p.taps_w);
                    let at = corner + tap * vec3<u32>(p.tap_d, p.tap_h, p.tap_w);
                    if (any(at >= vec3<u32>(p.x_d, p.x_h, p.x_w)) || any(phase + tap * by >= vec3<u32>(p.win_d, p.win_h, p.win_w))) {
                        continue;
                    }
                    let x_at = p.x_o + image * p.xs_n + at.x * p.xs_d + at.y * p.xs_h + at.z * p.xs_w;
                    for (var c = c_first; c < c_last; c++) {
                        let e = x_at + (group * p.channels + c) * p.xs_c;
                        let w = w_in[w_first + (k * p.channels + c) * {{ pitch }}u + g * {{ quads }}u + r / 4u][r % 4u];
                        sum += {{ read("x", "e") }} * w;
                    }
                }
{% if bias %}
                sum += {{ read("c", "p.c_o + (group * %du + r) * p.c_s" % rows) }};
{% endif %}
{% if after %}
                sum = epilogue(sum, group * {{ rows }}u + r, (to.x * p.out_h + to.y) * p.out_w + to.z, image, 0u);
{% endif %}
                let o = split * p.o_s + image * p.o_n + (group * {{ rows }}u + r) * p.out_d * p.out_h * p.out_w + (to.x * p.out_h + to.y) * p.out_w + to.z;
                {{ write("o", "sum") }}
            }
        }
    }
{% endmacro %}
@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    var t = wid.x + wid.y * nwg.x;
    if (t >= p.total) {
        return;
    }
    // Neighbours read the same part of the image.
    let block = t % p.blocks;
    t /= p.blocks;
    let tile = t % p.tiles;
    t /= p.tiles;
    let split = t % p.splits;
    let group = t / p.splits;
    let c_first = split * p.chunk;
    let c_last = min(c_first + p.chunk, p.channels);
    let places = p.pos_d * p.pos_h * p.pos_w;
{% for j in range(pixels) %}
    let n{{ j }} = tile * {{ threads * pixels }}u + {{ j * threads }}u + lid;
    let image{{ j }} = min(n{{ j }}, p.n - 1u) / places;
    let place{{ j }} = min(n{{ j }}, p.n - 1u) % places;
    let z{{ j }} = place{{ j }} / (p.pos_h * p.pos_w) * p.step_d + p.first_d;
    let y{{ j }} = place{{ j }} / p.pos_w % p.pos_h * p.step_h + p.first_h;
    let x{{ j }} = place{{ j }} % p.pos_w * p.step_w + p.first_w;
    let base{{ j }} = p.x_o + image{{ j }} * p.xs_n + z{{ j }} * p.xs_d + y{{ j }} * p.xs_h + x{{ j }} * p.xs_w;
{% for r in range(parts * rows) %}
    var s{{ j }}_{{ r }} = 0.0;
{% endfor %}
{% endfor %}
{% for g in range(parts) %}
    let phase{{ g }} = block * {{ parts }}u + {{ g }}u;
    let phase{{ g }}_d = phase{{ g }} / (p.by_h * p.by_w);
    let phase{{ g }}_h = phase{{ g }} / p.by_w % p.by_h;
    let phase{{ g }}_w = phase{{ g }} % p.by_w;
{% endfor %}
    let taps = p.taps_d * p.taps_h * p.taps_w;
    let w_first = (group * p.blocks + block) * taps * p.channels * {{ pitch }}u;
    // A few channels at a time, so that what neighbouring taps share is still in the cache.
    for (var c = c_first; c < c_last; c += {{ channels }}u) {
        let count = min(c_last - c, {{ channels }}u);
        for (var t_first = 0u; t_first < taps; t_first += {{ stage }}u) {
            let t_last = min(t_first + {{ stage }}u, taps);
            workgroupBarrier();
            for (var i = lid; i < (t_last - t_first) * {{ channels * pitch }}u; i += {{ threads }}u) {
                let channel = min(i % {{ channels * pitch }}u, count * {{ pitch }}u - 1u);
                kept[i] = w_in[w_first + ((t_first + i / {{ channels * pitch }}u) * p.channels + c) * {{ pitch }}u + channel];
            }
            workgroupBarrier();
            for (var k = t_first; k < t_last; k++) {
                let kz = k / (p.taps_h * p.taps_w);
                let ky = k / p.taps_w % p.taps_h;
                let kx = k % p.taps_w;
                let away_d = kz * p.tap_d;
                let away_h = ky * p.tap_h;
                let away_w = kx * p.tap_w;
                let away = away_d * p.xs_d + away_h * p.xs_h + away_w * p.xs_w;
{% for j in range(pixels) %}
                let in{{ j }} = z{{ j }} + away_d < p.x_d && y{{ j }} + away_h < p.x_h && x{{ j }} + away_w < p.x_w;
                let at{{ j }} = select(p.x_o, base{{ j }} + away, in{{ j }});
{% endfor %}
{% if parts > 1 %}
{% for g in range(parts) %}
                let live{{ g }} = phase{{ g }}_d + kz * p.by_d < p.win_d && phase{{ g }}_h + ky * p.by_h < p.win_h && phase{{ g }}_w + kx * p.by_w < p.win_w;
{% endfor %}
{% endif %}
                var x_at = (group * p.channels + c) * p.xs_c;
                var w_at = (k - t_first) * {{ channels * pitch }}u;
                if (count == {{ channels }}u) {
{% for u in range(0, channels, unroll) %}
{{ some(u, unroll) }}
{% endfor %}
                } else {
                    for (var i = 0u; i < count; i++) {
{{ some(0, 1) }}
                        x_at += p.xs_c;
                        w_at += {{ pitch }}u;
                    }
                }
            }
        }
    }
    var spoilt = 0u;
{% for j in range(pixels) %}
    spoilt |= select(0u, {{ 2 ** j }}u, f32_isnan({% for r in range(parts * rows) %}s{{ j }}_{{ r }}{{ " + " if not loop.last }}{% endfor %}));
    if (n{{ j }} < p.n) {
        let qz = place{{ j }} / (p.pos_h * p.pos_w) * p.by_d + p.origin_d;
        let qy = place{{ j }} / p.pos_w % p.pos_h * p.by_h + p.origin_h;
        let qx = place{{ j }} % p.pos_w * p.by_w + p.origin_w;
        let plane = p.out_d * p.out_h * p.out_w;
        let to = split * p.o_s + image{{ j }} * p.o_n + group * {{ rows }}u * plane;
{% for g in range(parts) %}
        {
            let oz = qz + phase{{ g }}_d;
            let oy = qy + phase{{ g }}_h;
            let ox = qx + phase{{ g }}_w;
            if (oz < p.out_d && oy < p.out_h && ox < p.out_w && phase{{ g }}_d < p.by_d) {
                let at = to + (oz * p.out_h + oy) * p.out_w + ox;
{% for r in range(rows) %}
                {
                    let o = at + {{ r }}u * plane;
{% if after %}
                    let v = epilogue(s{{ j }}_{{ g * rows + r }}, group * {{ rows }}u + {{ r }}u, (oz * p.out_h + oy) * p.out_w + ox, image{{ j }}, 0u);
{% else %}
                    let v = s{{ j }}_{{ g * rows + r }}{% if bias %} + {{ read("c", "p.c_o + (group * %du + %du) * p.c_s" % (rows, r)) }}{% endif %};
{% endif %}
                    {{ write("o", "v") }}
                }
{% endfor %}
            }
        }
{% endfor %}
    }
{% endfor %}
{{ again() }}
}
