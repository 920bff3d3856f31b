{# Both operands lie along k: a piece is a vector of four or eight elements of it, `unroll` of them under way at once. #}
{% set unit = 8 if b_class == "8" else 4 %}
{# Packed words are widened where they are used: half a vector of eight at a time. #}
{% set halves = ("xy", "zw") if unit == 8 else ("",) %}
{% for j in range(l.wide) %}
    let b{{ j }} = bstart + min(n + {{ j }}u, p.n - 1u) * p.b_r;
{% endfor %}
    let last = k_last / {{ unit }}u;
{% macro fetch(how, count, at) %}
{% for u in range(count) %}
{% for j in range(l.wide) %}
        {{ how % (u, j) }} = b_in[b{{ j }} + {{ at % (u * step) }}];
{% endfor %}
{% endfor %}
{% endmacro %}
{% macro multiply(count) %}
{% for u in range(count) %}
        {
{% for i in range(rows) %}
            let x{{ i }} = a_in[a{{ i }} + k + {{ u * step }}u];
{% endfor %}
{% for half in halves %}
            {
{% for j in range(l.wide) %}
                let w{{ j }} = {{ widened("b", "y%d_%d" % (u, j), half) }};
{% endfor %}
{% for i in range(rows) %}
                {
                    let x = {{ widened("a", "x%d" % i, half) }};
{% for c in "xyzw" %}
{% for j in range(l.wide) %}
                    c{{ i }}_{{ j }} += x.{{ c }} * w{{ j }}.{{ c }};
{% endfor %}
{% endfor %}
                }
{% endfor %}
            }
{% endfor %}
        }
{% endfor %}
{% endmacro %}
    var k = k_first / {{ unit }}u + kt;
{% if l.ahead %}
{{ fetch("var y%d_%d", l.unroll, "min(k + %du, last - 1u)") }}
{% endif %}
    for (; k + {{ (l.unroll - 1) * step }}u < last; k += {{ l.unroll * step }}u) {
{% if l.ahead %}
{# The next pieces are on their way while these are multiplied. #}
        let ahead = k + {{ l.unroll * step }}u;
{{ fetch("let z%d_%d", l.unroll, "min(ahead + %du, last - 1u)") }}
{% else %}
{{ fetch("let y%d_%d", l.unroll, "k + %du") }}
{% endif %}
{{ multiply(l.unroll) }}
{% if l.ahead %}
{% for u in range(l.unroll) %}
{% for j in range(l.wide) %}
        y{{ u }}_{{ j }} = z{{ u }}_{{ j }};
{% endfor %}
{% endfor %}
{% endif %}
    }
{% if l.unroll > 1 %}
    for (; k < last; k += {{ step }}u) {
{{ fetch("let y%d_%d", 1, "k + %du") }}
{{ multiply(1) }}
    }
{% endif %}
