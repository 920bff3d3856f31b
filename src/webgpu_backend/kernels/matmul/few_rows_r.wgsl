{# b lies along its rows, the columns of the result: a piece is `unroll` neighbouring k, each a vector of columns or, where
   alignment allows no more, columns one by one. #}
{% set xyzw = "xyzw" %}
{% set vectors = b_class in "or" %}
{% if vectors %}
    let b0 = bstart + min(n, p.n - 1u) / {{ l.wide }}u;
{% else %}
{% for j in range(l.wide) %}
    let b{{ j }} = bstart + min(n + {{ j * apart }}u, p.n - 1u) * p.b_r;
{% endfor %}
{% endif %}
{% macro fetch(how, k) %}
{% if vectors %}
        {{ how }} = b_in[b0 + ({{ k }}) * p.b_k];
{% else %}
{% for j in range(l.wide) %}
        let at_{{ how[4:] }}_{{ j }} = b{{ j }} + ({{ k }}) * p.b_k;
        {{ how }}_{{ j }} = {{ read("b", "at_%s_%d" % (how[4:], j)) }};
{% endfor %}
{% endif %}
{% endmacro %}
{% macro multiply(y, at) %}
{% if vectors %}
{% for h in range(l.wide // 4) %}
            let w{{ h }} = {{ widened("b", y, ("xy", "zw")[h] if l.wide == 8 else "") }};
{% endfor %}
{% endif %}
{% for i in range(rows) %}
{% for j in range(l.wide) %}
            c{{ i }}_{{ j }} += {{ at % i }} * {{ "w%d.%s" % (j // 4, xyzw[j % 4]) if vectors else "%s_%d" % (y, j) }};
{% endfor %}
{% endfor %}
{% endmacro %}
    var k = k_first + kt * {{ l.unroll }}u;
{% if l.ahead %}
{% for u in range(l.unroll) %}
{{ fetch("var y%d" % u, "min(k + %du, k_last - 1u)" % u) }}
{% endfor %}
{% endif %}
    for (; k + {{ l.unroll - 1 }}u < k_last; k += {{ l.unroll * step }}u) {
{% if l.ahead %}
{# The next piece is on its way while this one is multiplied. #}
        let ahead = k + {{ l.unroll * step }}u;
{% endif %}
{% for u in range(l.unroll) %}
{{ fetch("let z%d" % u, "min(ahead + %du, k_last - 1u)" % u) if l.ahead else fetch("let y%d" % u, "k + %du" % u) }}
{% endfor %}
{% for g in range(0, l.unroll, 4) %}
        {
{% for i in range(rows) %}
{% if a_class == "k" %}
            let x{{ i }} = {{ read4("a", "a%d + k / 4u + %du" % (i, g // 4)) }};
{% else %}
{% for u in range(g, g + 4) %}
            let at{{ i }}_{{ u }} = a{{ i }} + (k + {{ u }}u) * p.a_k;
{% endfor %}
            let x{{ i }} = vec4<{{ type }}>({% for u in range(g, g + 4) %}{{ read("a", "at%d_%d" % (i, u)) }}{{ ", " if not loop.last }}{% endfor %});
{% endif %}
{% endfor %}
{% for u in range(g, g + 4) %}
            {
{{ multiply("y%d" % u, "x%%d.%s" % xyzw[u - g]) }}
            }
{% endfor %}
        }
{% endfor %}
{% if l.ahead %}
{% for u in range(l.unroll) %}
{% if vectors %}
        y{{ u }} = z{{ u }};
{% else %}
{% for j in range(l.wide) %}
        y{{ u }}_{{ j }} = z{{ u }}_{{ j }};
{% endfor %}
{% endif %}
{% endfor %}
{% endif %}
    }
    // What is left of the last piece: the others' next one lies past the end.
    for (; k < k_last; k++) {
{{ fetch("let e", "k") }}
{% for i in range(rows) %}
{% if a_class == "k" %}
        let x{{ i }} = {{ read4("a", "a%d + k / 4u" % i) }}[k % 4u];
{% else %}
        let at{{ i }} = a{{ i }} + k * p.a_k;
        let x{{ i }} = {{ read("a", "at%d" % i) }};
{% endif %}
{% endfor %}
        {
{{ multiply("e", "x%d") }}
        }
    }
