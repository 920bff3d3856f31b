{# Along k one by one, where alignment or strides allow no more: a piece is one k, `unroll` of them under way at once. #}
{% for j in range(l.wide) %}
    let b{{ j }} = bstart + min(n + {{ j }}u, p.n - 1u) * p.b_r;
{% endfor %}
{% macro piece(count) %}
{% for u in range(count) %}
{% for j in range(l.wide) %}
        let bt{{ u }}_{{ j }} = b{{ j }} + (k + {{ u * step }}u) * p.b_k;
        let y{{ u }}_{{ j }} = {{ read("b", "bt%d_%d" % (u, j)) }};
{% endfor %}
{% endfor %}
{% for u in range(count) %}
{% for i in range(rows) %}
        {
            let at = a{{ i }} + (k + {{ u * step }}u) * p.a_k;
            let x = {{ read("a", "at") }};
{% for j in range(l.wide) %}
            c{{ i }}_{{ j }} += x * y{{ u }}_{{ j }};
{% endfor %}
        }
{% endfor %}
{% endfor %}
{% endmacro %}
    var k = k_first + kt;
    for (; k + {{ (l.unroll - 1) * step }}u < k_last; k += {{ l.unroll * step }}u) {
{{ piece(l.unroll) }}
    }
    for (; k < k_last; k += {{ step }}u) {
{{ piece(1) }}
    }
