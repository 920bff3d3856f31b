{# b is quantised: a piece is 32 codes of each column, sixteen bytes or more of a row, with a scale of their own. Sums are
   taken of the codes as they are, and meet the scale once; an offset meets the sum of a's elements. #}
{% for j in range(l.wide) %}
    let col{{ j }} = min(n + {{ j }}u, p.n - 1u);
    let b{{ j }} = (p.b_o + col{{ j }} * p.b_r) * {{ f.loads }}u;
{% endfor %}
    let last = k_last / 32u;
{% macro fetch(how, count, at) %}
{% for u in range(count) %}
{% for j in range(l.wide) %}
{% for v in range(f.loads) %}
        {{ how % (u, j, v) }} = b_in[b{{ j }} + ({{ at % (u * step) }}) * {{ f.loads }}u + {{ v }}u];
{% endfor %}
{% endfor %}
{% endfor %}
{% endmacro %}
{% macro multiply(count) %}
{% for u in range(count) %}
        {
            let k_here = (k + {{ u * step }}u) * 32u;
{% for i in range(rows) %}
            let x_at{{ i }} = a{{ i }} + k_here / 4u;
{% if f.offsets %}
            var x_sum{{ i }} = 0.0;
{% endif %}
{% endfor %}
{% for r in range(f.runs) %}
            {
{% for i in range(rows) %}
{% for j in range(l.wide) %}
                var t{{ i }}_{{ j }} = 0.0;
{% endfor %}
{% endfor %}
{% for g in range(r * 8 // f.runs, (r + 1) * 8 // f.runs) %}
                {
{% for i in range(rows) %}
                    let x{{ i }} = {{ read4("a", "x_at%d + %du" % (i, g)) }};
{% if f.offsets %}
                    x_sum{{ i }} += (x{{ i }}.x + x{{ i }}.y) + (x{{ i }}.z + x{{ i }}.w);
{% endif %}
{% endfor %}
{% for j in range(l.wide) %}
                    let w{{ j }} = {{ code_of(u, j, g) }};
{% for i in range(rows) %}
{% for c in "xyzw" %}
                    t{{ i }}_{{ j }} += x{{ i }}.{{ c }} * w{{ j }}.{{ c }};
{% endfor %}
{% endfor %}
{% endfor %}
                }
{% endfor %}
{% for j in range(l.wide) %}
                let s{{ j }} = scale_of(col{{ j }}, k_here + {{ r * 32 // f.runs }}u);
{% for i in range(rows) %}
{% if f.offsets %}
                c{{ i }}_{{ j }} += t{{ i }}_{{ j }} * s{{ j }}.x + x_sum{{ i }} * s{{ j }}.y;
{% else %}
                c{{ i }}_{{ j }} += t{{ i }}_{{ j }} * s{{ j }};
{% endif %}
{% endfor %}
{% endfor %}
            }
{% endfor %}
        }
{% endfor %}
{% endmacro %}
    var k = k_first / 32u + kt;
    for (; k + {{ (l.unroll - 1) * step }}u < last; k += {{ l.unroll * step }}u) {
{{ fetch("let y%d_%d_%d", l.unroll, "k + %du") }}
{{ multiply(l.unroll) }}
    }
{% if l.unroll > 1 %}
    for (; k < last; k += {{ step }}u) {
{{ fetch("let y%d_%d_%d", 1, "k + %du") }}
{{ multiply(1) }}
    }
{% endif %}
