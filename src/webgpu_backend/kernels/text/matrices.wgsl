{# Products by matrix units. Both operands lie in workgroup memory, in tiles of `t.bm` and `t.bn` rows: `along` k, a row behind the
   other, or k by k along the rows; either way lines have `pad` vectors more. Each subgroup of `lanes` lanes has t.wm rows and t.wn
   columns of the sums, in square matrices of `size`, and hands `hand` columns of these on at once. #}
{% set tall = {"a": t.bm, "b": t.bn} %}
{% set wide, lines = {}, {} %}
{% for x in "ab" %}
{% set _ = wide.update({x: (t.bk if along[x] else tall[x]) // 4 + pad}) %}
{% set _ = lines.update({x: tall[x] if along[x] else t.bk}) %}
{% endfor %}
{% set across = hand // 4 %}
{% macro declare() %}
{% for x in "ab" %}
var<workgroup> {{ x }}_tile: array<vec4<f16>, {{ t.stages * lines[x] * wide[x] }}>;
{% endfor %}
var<workgroup> sums: array<vec4<f32>, {{ threads // lanes * size * across }}>;
{% endmacro %}
{# Where the tile that is written, or read, begins, where there are two of each. #}
{% macro slot(x) %}{{ "stage * %du + " % (lines[x] * wide[x]) if t.stages > 1 }}{% endmacro %}
{# The place of a subgroup in the tile, and its sums. #}
{% macro begin() %}
    let lane = lid % {{ lanes }}u;
    let unit = lid / {{ lanes }}u;
    let um = unit % {{ t.bm // t.wm }}u * {{ t.wm }}u;
    let un = unit / {{ t.bm // t.wm }}u * {{ t.wn }}u;
{% for i in range(t.wm // size) %}
{% for j in range(t.wn // size) %}
    var c{{ i }}_{{ j }} = coop_mat{{ size }}x{{ size }}<f32, C>();
{% endfor %}
{% endfor %}
{% endmacro %}
{# A matrix of a tile, from its row `first` and from k on. Of `a` rows are lines where it lies along k, of `b` columns are. #}
{% macro matrix(x, first, k) %}
{% set name = "coopLoadT" if along[x] == (x == "a") else "coopLoad" %}
{% set at = "(%s) * %du + %du" % (first, wide[x], k // 4) if along[x] else "%du + (%s) / 4u" % (k * wide[x], first) %}
{{ name }}<coop_mat{{ size }}x{{ size }}<f16, {{ x | upper }}>>(&{{ x }}_tile[{{ slot(x) }}{{ at }}], {{ wide[x] }}u)
{%- endmacro %}
{% macro multiply() %}
{% for kk in range(0, t.bk, size) %}
        {
{% for i in range(t.wm // size) %}
            let a{{ i }} = {{ matrix("a", "um + %du" % (i * size), kk) | trim }};
{% endfor %}
{% for j in range(t.wn // size) %}
            let b{{ j }} = {{ matrix("b", "un + %du" % (j * size), kk) | trim }};
{% for i in range(t.wm // size) %}
            c{{ i }}_{{ j }} = coopMultiplyAdd(a{{ i }}, b{{ j }}, c{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
        }
{% endfor %}
{% endmacro %}
{# Steps over k: `next` brings the tile from `ahead` (which is `done` and one tile more) into registers, `keep` puts it in its place. #}
{% macro steps(length, next, keep) %}
{% if t.stages > 1 %}
    var stage = 0u;
{{ keep() }}
    workgroupBarrier();
{% endif %}
    for (var done = 0u; done < {{ length }}; done += {{ t.bk }}u) {
{% if t.stages > 1 %}
{{ next() }}
{{ multiply() }}
        stage = 1u - stage;
{{ keep() }}
{% else %}
{{ keep() }}
        workgroupBarrier();
{{ next() }}
{{ multiply() }}
{% endif %}
        workgroupBarrier();
    }
{% endmacro %}
{# Sums leave the matrices by way of workgroup memory, some columns of a row of matrices at a time. What is done with four that are
   neighbours, v in row m from column n on of the tile's, is the caller's; it is told which of its fours this is. #}
{% macro hand_on() %}
    let mine = unit * {{ size * across }}u;
{% set fours = size * across // lanes %}
{% for i in range(t.wm // size) %}
{% for first in range(0, t.wn, hand) %}
{% set chunk, last = loop.index0, loop.last %}
{% for j in range(first // size, (first + hand) // size) %}
    coopStoreT(c{{ i }}_{{ j }}, &sums[mine + {{ (j * size - first) // 4 }}u], {{ across }}u);
{% endfor %}
    workgroupBarrier();
{% for l in range(fours) %}
    {
        let e = lane + {{ l * lanes }}u;
        let v = sums[mine + e];
        let m = m0 + um + {{ i * size }}u + e / {{ across }}u;
        let n = n0 + un + {{ first }}u + e % {{ across }}u * 4u;
{{ caller((i * (t.wn // hand) + chunk) * fours + l) }}
    }
{% endfor %}
{% if not (last and i + 1 == t.wm // size) %}
    workgroupBarrier();
{% endif %}
{% endfor %}
{% endfor %}
{% endmacro %}
{# Row and first column of the four with number `r`, as above. #}
{% set fours = size * across // lanes %}
{% macro row_of(r) %}m0 + um + {{ r }} / {{ fours * (t.wn // hand) }}u * {{ size }}u + (lane + {{ r }} % {{ fours }}u * {{ lanes }}u) / {{ across }}u{% endmacro %}
{% macro column_of(r) %}n0 + un + {{ r }} / {{ fours }}u % {{ t.wn // hand }}u * {{ hand }}u + (lane + {{ r }} % {{ fours }}u * {{ lanes }}u) % {{ across }}u * 4u{% endmacro %}
