{# How threads read a tile of both operands into registers, `kind` each, with `zero` for what lies outside: shared by the kernels
   that read an image through tables. Classes of the image are as in by_tables.wgsl. #}
{% set xyzw = "xyzw" %}
{# The rows of the left operand that k counts are listed with the taps. #}
{% set listed = scattered and b_class == "g" %}
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
            {{ x }}reg{{ l }} = select(vec4<{{ kind }}>(), {{ read4(x, "at") }}, inside);
        }
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
            areg{{ l }} = select(vec4<{{ kind }}>(), {{ read4("a", "abase + row * p.a_k") }}, k < k_last);
        }
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
            areg{{ l }} = select({{ zero }}, {{ read("a", "at%d" % l) }}, inside);
{% endfor %}
        }
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
            breg{{ l }} = select(vec4<{{ kind }}>(), {{ read4("b", "bbase + min(k, p.k - 1u) * p.b_k") }}, k < k_last);
{% elif b_class in "pq" %}
            let k = k0 + bk + {{ l * threads // t.bn }}u;
            let at = bbase + min(k, p.k - 1u) * p.b_k;
            breg{{ l }} = select({{ zero }}, {{ read("b", "at") }}, k < k_last);
{% else %}
            let tap = taps[k0 + bk + {{ l * threads // t.bn }}u];
            let inside = (tap.y & bplace.y) == 0u;
            let at = select(0u, bbase + tap.x, inside);
            breg{{ l }} = select({{ zero }}, {{ read("b", "at") }}, inside);
{% endif %}
        }
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
            breg{{ l }} = select({{ zero }}, {{ read("b", "at%d" % l) }}, inside{{ l }});
{% else %}
            let at{{ l }} = {{ "select(0u, base + btap%d, inside)" % l if b_class == "q" else "base + btap%d" % l }};
            breg{{ l }} = select({{ zero }}, {{ read("b", "at%d" % l) }}, inside);
{% endif %}
{% endfor %}
        }
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
{# Registers; and where a thread's elements along k lie, which walk over images and positions in the weights' gradient. #}
{% macro registers() %}
{% for l in range(a_loads) %}
    var areg{{ l }} = {{ zero if a_class == "s" else "vec4<%s>()" % kind }};
{% endfor %}
{% for l in range(b_loads) %}
    var breg{{ l }} = {{ "vec4<%s>()" % kind if b_class == "v" else zero }};
{% endfor %}
{% endmacro %}
{% set fours = a_class == "k" or (mode == "weight" and b_class == "v") %}
{% set ones = a_class == "s" or (mode == "weight" and b_class != "v") %}
{% macro walk() %}
{% for name, used, lane in (("four", fours, "(lid %% %du) * 4u" % (t.bk // 4)), ("one", ones, "lid %% %du" % t.bk)) if used %}
    let {{ name }} = {{ lane }};
{% if mode == "weight" %}
    var {{ name }}_image = (k_first + {{ name }}) / p.places;
    var {{ name }}_place = (k_first + {{ name }}) % p.places;
{% endif %}
{% endfor %}
{% endmacro %}
{% macro walk_on() %}
{% if mode == "weight" %}
{% for name, used in (("four", fours), ("one", ones)) if used %}
            {{ name }}_place += {{ t.bk }}u;
            while ({{ name }}_place >= p.places) {
                {{ name }}_place -= p.places;
                {{ name }}_image++;
            }
{% endfor %}
{% endif %}
{% endmacro %}
