{# What kernels that read an image through tables do with their sums: where these lie in the output, what is done to them, and
   how one that came out as NaN is summed again. #}
{% set xyzw = "xyzw" %}
{% set listed = scattered and b_class == "g" %}
{# One element of the left operand. #}
{% macro left() %}
{% if mode == "weight" %}{{ exact4("a", "astart + m * p.a_r + image * p.a_i + k % p.places / 4u") + "[k % 4u]" if a_class == "k" else exact("a", "astart + m * p.a_r + image * p.a_i + k % p.places") }}
{% elif a_class == "k" %}{{ exact4("a", "astart + m * p.a_r + k / 4u") }}[k % 4u]
{% elif a_class == "r" %}{{ exact4("a", "astart + m / 4u + row * p.a_k") }}[m % 4u]
{% else %}{{ exact("a", "astart + m * p.a_r + row * p.a_k") }}{% endif %}
{% endmacro %}
{# Where column n lies in the output; what is stored of a sum at row m and column n, or of four neighbours. #}
{% macro lies(n) %}{{ "places[%s %% p.places].z" % n if scattered else "%s %% p.places" % n }}{% endmacro %}
{% macro done(sum, n, k=0) %}epilogue({{ sum }}, block * p.m + m, {{ lies(n) }}{{ " + %du" % k if k }}, {{ n }} / p.places, 0u){% endmacro %}
{% macro done4(sum, n) %}vec4<f32>({% for c in xyzw %}{{ done(sum + "." + c, n, loop.index0) }}{{ ", " if not loop.last }}{% endfor %}){% endmacro %}
{# A place outside the image is a zero, and zero times infinity is NaN: such sums are done again without it. They come
   after the stores, where nothing of the product is kept any more. #}
{# Row and first column of what bit r of `spoilt` stands for are m_at and n_at. #}
{% macro again(m_at, n_at) %}
{% if mode == "weight" %}
    spoilt = select(0u, spoilt, k_last - k_first <= {{ most_again }}u);
{% endif %}
    while (spoilt != 0u) {
        let r = firstTrailingBit(spoilt);
        spoilt &= spoilt - 1u;
        let m = {{ m_at }};
        let n_first = {{ n_at }};
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
                    sum += {{ left() | trim }} * {{ exact("b", "at") }};
                }
            }
            v[j] = sum;
        }
{% if bias %}
        v += {{ exact("c", "p.c_o + (block * p.m + m) * p.c_s") }};
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

