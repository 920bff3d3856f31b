{# As along k with vectors of eight; the rows of a are widened once for all threads, a stage of pieces in workgroup memory. #}
{% set loads = rows * step // l.threads %}
{% for j in range(l.wide) %}
    let b{{ j }} = bstart + min(n + {{ j }}u, p.n - 1u) * p.b_r;
{% endfor %}
{% for q in range(loads) %}
    let row{{ q }} = astart + min((lid + {{ q * l.threads }}u) / {{ step }}u, p.m - 1u) * p.a_r;
{% endfor %}
    let last = k_last / 8u;
{% macro fetch(y, x, k0) %}
{% for j in range(l.wide) %}
        {{ y }}{{ j }} = b_in[b{{ j }} + min({{ k0 }} + kt, last - 1u)];
{% endfor %}
{% for q in range(loads) %}
        {{ x }}{{ q }} = a_in[row{{ q }} + min({{ k0 }} + (lid + {{ q * l.threads }}u) % {{ step }}u, last - 1u)];
{% endfor %}
{% endmacro %}
    var k0 = k_first / 8u;
{{ fetch("var y", "var v", "k0") }}
    for (; k0 < last; k0 += {{ step }}u) {
{% for q in range(loads) %}
        {
            let at = lid + {{ q * l.threads }}u;
            let to = at / {{ step }}u * {{ 2 * step }}u + at % {{ step }}u;
            stage[to] = {{ widened("a", "v%d" % q, "xy") }};
            stage[to + {{ step }}u] = {{ widened("a", "v%d" % q, "zw") }};
        }
{% endfor %}
        workgroupBarrier();
{# The next stage is on its way while this one is multiplied. #}
{{ fetch("let z", "let u", "k0 + %du" % step) }}
        if (k0 + kt < last) {
{% for half in ("xy", "zw") %}
{% set first = loop.index0 * step %}
            {
{% for j in range(l.wide) %}
                let w{{ j }} = {{ widened("b", "y%d" % j, half) }};
{% endfor %}
{% for i in range(rows) %}
                {
                    let x = stage[{{ 2 * i * step + first }}u + kt];
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
{% for j in range(l.wide) %}
        y{{ j }} = z{{ j }};
{% endfor %}
{% for q in range(loads) %}
        v{{ q }} = u{{ q }};
{% endfor %}
        workgroupBarrier();
    }
