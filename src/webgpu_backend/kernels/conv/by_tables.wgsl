// A convolution as a matrix product over all images at once. Nothing here knows a window: an element of the image is
// where a position's offset and a tap's offset add up, and it is zero where their bits meet (outside the image).
// Classes of the image: g as said; of a single tap, which all positions meet: q where they are listed, p where they are
// neighbours, v where four are read at once.
{% include "text/interface.wgsl" %}
{% set xyzw = "xyzw" %}
{% set nty, ntx = t.bm // t.tm, t.bn // t.tn %}
{% set threads = nty * ntx %}
{% set wn = 32 // t.warp %}
{# The rows of the left operand that k counts are listed with the taps. #}
{% set listed = scattered and b_class == "g" %}
{% set a_pitch, b_pitch = t.bm // 4 + a_pad, t.bn // 4 + b_pad %}
var<workgroup> a_tile: array<vec4<f32>, {{ t.bk * a_pitch }}>;
var<workgroup> b_tile: array<vec4<f32>, {{ t.bk * b_pitch }}>;

{# Rows of vectors along k: `x` is a or b. In the weights' gradient k walks images and positions. #}
{% macro place_k(x, loads, origin, size) %}
{% for l in range(loads) %}
    let {{ x }}row{{ l }} = (lid + {{ l * threads }}u) / {{ t.bk // 4 }}u;
    let {{ x }}base{{ l }} = {{ x }}start + min({{ origin }} + {{ x }}row{{ l }}, {{ size }} - 1u) * p.{{ x }}_r;
{% endfor %}
{% endmacro %}
{% macro load_k(x, loads) %}
{% for l in range(loads) %}
        {
{% if mode == "weight" %}
            let inside = k0 + four < k_last;
            let at = {{ x }}base{{ l }} + select(0u, four_image * p.{{ x }}_i + four_place / 4u, inside);
{% else %}
            let k = k0 + four;
            let inside = k < k_last;
            let at = {{ x }}base{{ l }} + min(k, p.k - 4u) / 4u;
{% endif %}
            {{ x }}reg{{ l }} = select(vec4<f32>(0.0), {{ read4(x, "at") }}, inside);
        }
{% endfor %}
{% endmacro %}
{% macro keep_k(x, loads, pitch) %}
{% for l in range(loads) %}
{% for c in range(4) %}
        {{ x }}_tile[(four + {{ c }}u) * {{ pitch }}u + {{ x }}row{{ l }} / 4u][{{ x }}row{{ l }} % 4u] = {{ x }}reg{{ l }}.{{ xyzw[c] }};
{% endfor %}
{% endfor %}
{% endmacro %}
{# Vectors along the rows. #}
{% macro place_r(loads) %}
    let arow = lid % {{ t.bm // 4 }}u;
    let ak = lid / {{ t.bm // 4 }}u;
    let abase = astart + min(m0 / 4u + arow, p.m / 4u - 1u);
{% endmacro %}
{% macro load_r(loads) %}
{% for l in range(loads) %}
        {
            let k = k0 + ak + {{ l * threads // (t.bm // 4) }}u;
{% if listed %}
            let row = taps[k].z;
{% else %}
            let row = min(k, p.k - 1u);
{% endif %}
            areg{{ l }} = select(vec4<f32>(0.0), {{ read4("a", "abase + row * p.a_k") }}, k < k_last);
        }
{% endfor %}
{% endmacro %}
{% macro keep_r(loads) %}
{% for l in range(loads) %}
        a_tile[(ak + {{ l * threads // (t.bm // 4) }}u) * {{ a_pitch }}u + arow] = areg{{ l }};
{% endfor %}
{% endmacro %}
{# Single elements of the left operand, neighbours along k. #}
{% macro place_s(loads) %}
    let arow = lid / {{ t.bk }}u;
{% for l in range(loads) %}
    let abase{{ l }} = astart + min(m0 + arow + {{ l * threads // t.bk }}u, p.m - 1u) * p.a_r;
{% endfor %}
{% endmacro %}
{% macro load_s(loads) %}
        {
            let k = k0 + one;
            let inside = k < k_last;
{% if mode == "weight" %}
            let step = select(0u, one_image * p.a_i + one_place, inside);
{% else %}
            let kc = min(k, p.k - 1u);
            let step = {{ "taps[kc].z" if listed else "kc" }} * p.a_k;
{% endif %}
{% for l in range(loads) %}
            let at{{ l }} = abase{{ l }} + step;
            areg{{ l }} = select(0.0, {{ read("a", "at%d" % l) }}, inside);
{% endfor %}
        }
{% endmacro %}
{% macro keep_s(loads) %}
{% for l in range(loads) %}
        a_tile[one * {{ a_pitch }}u + (arow + {{ l * threads // t.bk }}u) / 4u][(arow + {{ l * threads // t.bk }}u) % 4u] = areg{{ l }};
{% endfor %}
{% endmacro %}
{# The image, as columns n (positions) for each k (channel and tap). #}
{% macro place_image(loads) %}
{% if b_class == "v" %}
    let brow = lid % {{ t.bn // 4 }}u;
    let bk = lid / {{ t.bn // 4 }}u;
    let bn = min(n0 + brow * 4u, p.n - 4u);
    let bbase = bstart + (bn / p.places) * p.b_i + (bn % p.places) / 4u;
{% else %}
    let brow = lid % {{ t.bn }}u;
    let bk = lid / {{ t.bn }}u;
    let bn = min(n0 + brow, p.n - 1u);
{% if b_class == "p" %}
    let bbase = bstart + (bn / p.places) * p.b_i + bn % p.places;
{% elif b_class == "q" %}
    let bbase = bstart + (bn / p.places) * p.b_i + places[bn % p.places].x;
{% else %}
    let bplace = places[bn % p.places];
    let bbase = bstart + (bn / p.places) * p.b_i + bplace.x;
{% endif %}
{% endif %}
{% endmacro %}
{% macro load_image(loads) %}
{% for l in range(loads) %}
        {
{% if b_class == "v" %}
            let k = k0 + bk + {{ l * threads // (t.bn // 4) }}u;
            breg{{ l }} = select(vec4<f32>(0.0), {{ read4("b", "bbase + min(k, p.k - 1u) * p.b_k") }}, k < k_last);
{% elif b_class in "pq" %}
            let k = k0 + bk + {{ l * threads // t.bn }}u;
            let at = bbase + min(k, p.k - 1u) * p.b_k;
            breg{{ l }} = select(0.0, {{ read("b", "at") }}, k < k_last);
{% else %}
            let tap = taps[k0 + bk + {{ l * threads // t.bn }}u];
            let inside = (tap.y & bplace.y) == 0u;
            let at = select(0u, bbase + tap.x, inside);
            breg{{ l }} = select(0.0, {{ read("b", "at") }}, inside);
{% endif %}
        }
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
{# The image, as columns n (channel and tap) for each k (positions). #}
{% macro place_taps(loads) %}
    let brow = lid / {{ t.bk }}u;
{% for l in range(loads) %}
{% if b_class in "pq" %}
    let btap{{ l }} = min(n0 + brow + {{ l * threads // t.bk }}u, p.n - 1u) * p.b_r;
{% else %}
    let btap{{ l }} = taps[min(n0 + brow + {{ l * threads // t.bk }}u, p.n - 1u)];
{% endif %}
{% endfor %}
{% endmacro %}
{% macro load_taps(loads) %}
        {
            let inside = k0 + one < k_last;
{% if b_class == "p" %}
            let base = bstart + select(0u, one_image * p.b_i + one_place, inside);
{% else %}
            let place = places[one_place];
            let base = bstart + one_image * p.b_i + place.x;
{% endif %}
{% if b_class == "g" %}
            let bits = select(0xffffffffu, place.y, inside);
{% endif %}
{% for l in range(loads) %}
{% if b_class == "g" %}
            let inside{{ l }} = (btap{{ l }}.y & bits) == 0u;
            let at{{ l }} = select(0u, base + btap{{ l }}.x, inside{{ l }});
            breg{{ l }} = select(0.0, {{ read("b", "at%d" % l) }}, inside{{ l }});
{% else %}
            let at{{ l }} = {{ "select(0u, base + btap%d, inside)" % l if b_class == "q" else "base + btap%d" % l }};
            breg{{ l }} = select(0.0, {{ read("b", "at%d" % l) }}, inside);
{% endif %}
{% endfor %}
        }
{% endmacro %}
{% macro keep_taps(loads) %}
{% for l in range(loads) %}
        b_tile[one * {{ b_pitch }}u + (brow + {{ l * threads // t.bk }}u) / 4u][(brow + {{ l * threads // t.bk }}u) % 4u] = breg{{ l }};
{% endfor %}
{% endmacro %}
{% set a_loads = t.bm * t.bk // threads // (1 if a_class == "s" else 4) %}
{% set b_loads = t.bn * t.bk // threads // (4 if b_class == "v" else 1) %}
{% macro place() %}
{% if a_class == "k" %}{{ place_k("a", a_loads, "m0", "p.m") }}{% elif a_class == "r" %}{{ place_r(a_loads) }}{% else %}{{ place_s(a_loads) }}{% endif %}
{% if mode == "image" %}{{ place_image(b_loads) }}{% elif b_class == "v" %}{{ place_k("b", b_loads, "n0", "p.n") }}{% else %}{{ place_taps(b_loads) }}{% endif %}
{% endmacro %}
{% macro load() %}
{% if a_class == "k" %}{{ load_k("a", a_loads) }}{% elif a_class == "r" %}{{ load_r(a_loads) }}{% else %}{{ load_s(a_loads) }}{% endif %}
{% if mode == "image" %}{{ load_image(b_loads) }}{% elif b_class == "v" %}{{ load_k("b", b_loads) }}{% else %}{{ load_taps(b_loads) }}{% endif %}
{% endmacro %}
{% macro keep() %}
{% if a_class == "k" %}{{ keep_k("a", a_loads, a_pitch) }}{% elif a_class == "r" %}{{ keep_r(a_loads) }}{% else %}{{ keep_s(a_loads) }}{% endif %}
{% if mode == "image" %}{{ keep_image(b_loads) }}{% elif b_class == "v" %}{{ keep_k("b", b_loads, b_pitch) }}{% else %}{{ keep_taps(b_loads) }}{% endif %}
{% endmacro %}
{# One element of the left operand. #}
{% macro left() %}
{% if mode == "weight" %}{{ read4("a", "astart + m * p.a_r + image * p.a_i + k % p.places / 4u") + "[k % 4u]" if a_class == "k" else read("a", "astart + m * p.a_r + image * p.a_i + k % p.places") }}
{% elif a_class == "k" %}{{ read4("a", "astart + m * p.a_r + k / 4u") }}[k % 4u]
{% elif a_class == "r" %}{{ read4("a", "astart + m / 4u + row * p.a_k") }}[m % 4u]
{% else %}{{ read("a", "astart + m * p.a_r + row * p.a_k") }}{% endif %}
{% endmacro %}
{# Where column n lies in the output; what is stored of a sum at row m and column n, or of four neighbours. #}
{% macro lies(n) %}{{ "places[%s %% p.places].z" % n if scattered else "%s %% p.places" % n }}{% endmacro %}
{% macro done(sum, n, k=0) %}epilogue({{ sum }}, block * p.m + m, {{ lies(n) }}{{ " + %du" % k if k }}, {{ n }} / p.places, 0u){% endmacro %}
{% macro done4(sum, n) %}vec4<f32>({% for c in xyzw %}{{ done(sum + "." + c, n, loop.index0) }}{{ ", " if not loop.last }}{% endfor %}){% endmacro %}
{# A place outside the image is a zero, and zero times infinity is NaN: such sums are done again without it. They come
   after the stores, where nothing of the product is kept any more. #}
{% macro again() %}
{% if mode == "weight" %}
    spoilt = select(0u, spoilt, k_last - k_first <= {{ most_again }}u);
{% endif %}
    while (spoilt != 0u) {
        let r = firstTrailingBit(spoilt);
        spoilt &= spoilt - 1u;
        let m = mt + r / {{ t.tn }}u * {{ nty * 4 }}u{{ " + r / %du %% 4u" % (t.tn // 4) }};
        let n_first = nt + r % {{ t.tn // 4 }}u * {{ ntx * 4 }}u;
        if (m >= p.m) {
            continue;
        }
        var v = vec4<f32>(0.0);
        for (var j = 0u; j < 4u; j++) {
            let n = min(n_first + j, p.n - 1u);
            var sum = 0.0;
{% if mode == "image" %}
            let place = places[n % p.places];
            let base = bstart + (n / p.places) * p.b_i + place.x;
{% else %}
            let tap = taps[n];
{% endif %}
            for (var k = k_first; k < k_last && !f32_isnan(sum); k++) {
{% if mode == "image" %}
                let tap = taps[k];
                let row = {{ "tap.z" if listed else "k" }};
{% else %}
                let image = k / p.places;
                let place = places[k % p.places];
                let base = bstart + image * p.b_i + place.x;
{% endif %}
                if ((tap.y & place.y) == 0u) {
                    let at = base + tap.x;
                    sum += {{ left() | trim }} * {{ read("b", "at") }};
                }
            }
            v[j] = sum;
        }
{% if bias %}
        v += {{ read("c", "p.c_o + (block * p.m + m) * p.c_s") }};
{% endif %}
{% if store == "v" %}
        if (n_first < p.n) {
{% if after %}
            v = {{ done4("v", "n_first") }};
{% endif %}
            let o = ostart + {{ "(n_first / p.places) * p.o_i + (n_first % p.places) / 4u" if mode == "image" else "n_first / 4u" }} + m * p.o_m;
            {{ write4("o", ["v.x", "v.y", "v.z", "v.w"]) }}
        }
{% else %}
        for (var j = 0u; j < 4u && n_first + j < p.n; j++) {
            let n = n_first + j;
            let e = {{ done("v[j]", "n") if after else "v[j]" }};
{% if mode == "image" %}
            let o = ostart + (n / p.places) * p.o_i + {{ lies("n") }} + m * p.o_m;
{% else %}
            let o = ostart + n + m * p.o_m;
{% endif %}
            {{ write("o", "e") }}
        }
{% endif %}
    }
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
    // Neighbours read the same part of the image.
    let m0 = (group % p.tiles_m) * {{ t.bm }}u;
    let n0 = (group / p.tiles_m % p.tiles_n) * {{ t.bn }}u;
    let z = group / (p.tiles_m * p.tiles_n);
    let split = z % p.splits;
    let block = z / p.splits;
    let k_first = split * p.chunk;
    let k_last = min(k_first + p.chunk, p.k);
    let astart = p.a_o + block * p.a_g;
    let bstart = p.b_o + block * p.b_g;
{% for i in range(t.tm) %}
{% for h in range(t.tn // 4) %}
    var c{{ i }}_{{ h }} = vec4<f32>(0.0);
{% endfor %}
{% endfor %}
{% for l in range(a_loads) %}
    var areg{{ l }} = {{ "0.0" if a_class == "s" else "vec4<f32>(0.0)" }};
{% endfor %}
{% for l in range(b_loads) %}
    var breg{{ l }} = {{ "vec4<f32>(0.0)" if b_class == "v" else "0.0" }};
{% endfor %}
{% set fours = a_class == "k" or (mode == "weight" and b_class == "v") %}
{% set ones = a_class == "s" or (mode == "weight" and b_class != "v") %}
{% for name, used, lane in (("four", fours, "(lid %% %du) * 4u" % (t.bk // 4)), ("one", ones, "lid %% %du" % t.bk)) if used %}
    let {{ name }} = {{ lane }};
{% if mode == "weight" %}
    var {{ name }}_image = (k_first + {{ name }}) / p.places;
    var {{ name }}_place = (k_first + {{ name }}) % p.places;
{% endif %}
{% endfor %}
{{ place() }}
    let tiles = (k_last - k_first + {{ t.bk - 1 }}u) / {{ t.bk }}u;
    var k0 = k_first;
{{ load() }}
    for (var tile = 0u; tile < tiles; tile++) {
{{ keep() }}
        workgroupBarrier();
        k0 += {{ t.bk }}u;
        if (tile + 1u < tiles) {
{% if mode == "weight" %}
{% for name, used in (("four", fours), ("one", ones)) if used %}
            {{ name }}_place += {{ t.bk }}u;
            while ({{ name }}_place >= p.places) {
                {{ name }}_place -= p.places;
                {{ name }}_image++;
            }
{% endfor %}
{% endif %}
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
{{ again() }}
{% endif %}
}
