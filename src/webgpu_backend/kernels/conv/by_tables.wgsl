// A convolution as a matrix product over all images at once. Nothing here knows a window: an element of the image is
// where a position's offset and a tap's offset add up, and it is zero where their bits meet (outside the image).
// Classes of the image: g as said; of a single tap, which all positions meet: q where they are listed, p where they are
// neighbours, v where four are read at once.
{% include "text/interface.wgsl" %}
{% set xyzw = "xyzw" %}
{% set nty, ntx = t.bm // t.tm, t.bn // t.tn %}
{% set threads = nty * ntx %}
{% set wn = 32 // t.warp %}
{% from "conv/loads.wgsl" import a_loads, b_loads, place, load, registers, walk, walk_on with context %}
{% from "conv/again.wgsl" import lies, done, done4, again with context %}
{% set a_pitch, b_pitch = t.bm // 4 + a_pad, t.bn // 4 + b_pad %}
var<workgroup> a_tile: array<vec4<f32>, {{ t.bk * a_pitch }}>;
var<workgroup> b_tile: array<vec4<f32>, {{ t.bk * b_pitch }}>;

{% macro keep_k(x, loads, pitch) %}
{% for l in range(loads) %}
{% for c in range(4) %}
        {{ x }}_tile[(four + {{ c }}u) * {{ pitch }}u + {{ x }}row{{ l }} / 4u][{{ x }}row{{ l }} % 4u] = {{ x }}reg{{ l }}.{{ xyzw[c] }};
{% endfor %}
{% endfor %}
{% endmacro %}
{% macro keep_r(loads) %}
{% for l in range(loads) %}
        a_tile[(ak + {{ l * threads // (t.bm // 4) }}u) * {{ a_pitch }}u + arow] = areg{{ l }};
{% endfor %}
{% endmacro %}
{% macro keep_s(loads) %}
{% for l in range(loads) %}
        a_tile[one * {{ a_pitch }}u + (arow + {{ l * threads // t.bk }}u) / 4u][(arow + {{ l * threads // t.bk }}u) % 4u] = areg{{ l }};
{% endfor %}
{% endmacro %}
{% macro keep_image(loads) %}
{% for l in range(loads) %}
{% if b_class == "v" %}
        b_tile[(bk + {{ l * threads // (t.bn // 4) }}u) * {{ b_pitch }}u + brow] = breg{{ l }};
{% else %}
        b_tile[(bk + {{ l * threads // t.bn }}u) * {{ b_pitch }}u + brow / 4u][brow % 4u] = breg{{ l }};
{% endif %}
{% endfor %}
{% endmacro %}
{% macro keep_taps(loads) %}
{% for l in range(loads) %}
        b_tile[one * {{ b_pitch }}u + (brow + {{ l * threads // t.bk }}u) / 4u][(brow + {{ l * threads // t.bk }}u) % 4u] = breg{{ l }};
{% endfor %}
{% endmacro %}
{% macro keep() %}
{% if a_class == "k" %}{{ keep_k("a", a_loads, a_pitch) }}{% elif a_class == "r" %}{{ keep_r(a_loads) }}{% else %}{{ keep_s(a_loads) }}{% endif %}
{% if mode == "image" %}{{ keep_image(b_loads) }}{% elif b_class == "v" %}{{ keep_k("b", b_loads, b_pitch) }}{% else %}{{ keep_taps(b_loads) }}{% endif %}
{% endmacro %}

@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
    // Threads that run together take {{ t.warp }} rows by {{ wn }} columns: both their reads of a step stay few and whole.
    let ty = lid / 32u / {{ ntx // wn }}u * {{ t.warp }}u + lid % 32u / {{ wn }}u;
    let tx = lid / 32u % {{ ntx // wn }}u * {{ wn }}u + lid % {{ wn }}u;
{% include "conv/group.wgsl" %}
{% for i in range(t.tm) %}
{% for h in range(t.tn // 4) %}
    var c{{ i }}_{{ h }} = vec4<f32>(0.0);
{% endfor %}
{% endfor %}
{{ registers() }}
{{ walk() }}
{{ place() }}
    let tiles = (k_last - k_first + {{ t.bk - 1 }}u) / {{ t.bk }}u;
    var k0 = k_first;
{{ load() }}
    for (var tile = 0u; tile < tiles; tile++) {
{{ keep() }}
        workgroupBarrier();
        k0 += {{ t.bk }}u;
        if (tile + 1u < tiles) {
{{ walk_on() }}
{{ load() }}
        }
{% for kk in range(t.bk) %}
        {
{% for g in range(t.tm // 4) %}
            let a{{ g }} = a_tile[{{ kk * a_pitch + g * nty }}u + ty];
{% endfor %}
{% for h in range(t.tn // 4) %}
            let b{{ h }} = b_tile[{{ kk * b_pitch + h * ntx }}u + tx];
{% endfor %}
{% for i in range(t.tm) %}
{% for h in range(t.tn // 4) %}
            c{{ i }}_{{ h }} += a{{ i // 4 }}.{{ xyzw[i % 4] }} * b{{ h }};
{% endfor %}
{% endfor %}
        }
{% endfor %}
        workgroupBarrier();
    }
    let ostart = p.o_o + block * p.o_g + split * p.o_s;
    let mt = m0 + ty * 4u;
    let nt = n0 + tx * 4u;
{% if b_class == "g" %}
    var spoilt = 0u;
{% for i in range(t.tm) %}
{% for h in range(t.tn // 4) %}
    spoilt |= select(0u, {{ 2 ** (i * (t.tn // 4) + h) }}u, f32_isnan(c{{ i }}_{{ h }}.x + c{{ i }}_{{ h }}.y + c{{ i }}_{{ h }}.z + c{{ i }}_{{ h }}.w));
{% endfor %}
{% endfor %}
{% endif %}
{% for h in range(t.tn // 4) %}
{% if store == "v" %}
    {
        let n = nt + {{ h * ntx * 4 }}u;
        if (n < p.n) {
{% if mode == "image" %}
            let at = ostart + (n / p.places) * p.o_i + (n % p.places) / 4u;
{% else %}
            let at = ostart + n / 4u;
{% endif %}
{% for i in range(t.tm) %}
            {
                let m = mt + {{ (i // 4) * nty * 4 + i % 4 }}u;
                if (m < p.m) {
                    let v = {{ done4("c%d_%d" % (i, h), "n") if after else "c%d_%d" % (i, h) }}{% if bias %} + {{ read("c", "p.c_o + (block * p.m + m) * p.c_s") }}{% endif %};
                    let o = at + m * p.o_m;
                    {{ write4("o", ["v.x", "v.y", "v.z", "v.w"]) }}
                }
            }
{% endfor %}
        }
    }
{% else %}
{% for j in range(4) %}
    {
        let n = nt + {{ h * ntx * 4 + j }}u;
        if (n < p.n) {
{% if mode == "image" %}
            let at = ostart + (n / p.places) * p.o_i + {{ lies("n") }};
{% else %}
            let at = ostart + n;
{% endif %}
{% for i in range(t.tm) %}
            {
                let m = mt + {{ (i // 4) * nty * 4 + i % 4 }}u;
                if (m < p.m) {
                    let v = {{ done("c%d_%d.%s" % (i, h, xyzw[j]), "n") if after else "c%d_%d.%s" % (i, h, xyzw[j]) }}{% if bias %} + {{ read("c", "p.c_o + (block * p.m + m) * p.c_s") }}{% endif %};
                    let o = at + m * p.o_m;
                    {{ write("o", "v") }}
                }
            }
{% endfor %}
        }
    }
{% endfor %}
{% endif %}
{% endfor %}
{% if b_class == "g" %}
{% set row = "mt + r / %du * %du + r / %du %% 4u" % (t.tn, nty * 4, t.tn // 4) %}
{{ again(row, "nt + r %% %du * %du" % (t.tn // 4, ntx * 4)) }}
{% endif %}
}
