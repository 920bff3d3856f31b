{# Adds up the sums of all threads of a column, and stores four columns of a row at a time. #}
{% for line in folding %}
    {{ line }}
{% endfor %}
{% for first in range(0, rows, at_once) %}
{% if first %}
    workgroupBarrier();
{% endif %}
{% if folding %}
{% for value in folded %}
    if ((lid & {{ spare }}u) == 0u) {
        let at = place + {{ loop.index0 }}u;
        sums[team * {{ rows * columns }}u + at / {{ l.wide }}u * {{ columns }}u + nt * {{ near }}u + at % {{ l.wide }}u * {{ apart }}u] = {{ value }};
    }
{% endfor %}
{% else %}
{% for i in range(first, first + at_once) %}
{% for j in range(l.wide) %}
    sums[kt * {{ at_once * columns }}u + {{ (i - first) * columns + j * apart }}u + nt * {{ near }}u] = c{{ i }}_{{ j }};
{% endfor %}
{% endfor %}
{% endif %}
    workgroupBarrier();
    for (var q = lid; q < {{ at_once * quads }}u; q += {{ l.threads }}u) {
        var v = vec4<{{ type }}>({{ zero }});
        for (var i = q * 4u; i < {{ parts * at_once * columns }}u; i += {{ at_once * columns }}u) {
            v += vec4<{{ type }}>(sums[i], sums[i + 1u], sums[i + 2u], sums[i + 3u]);
        }
        store(v.x, v.y, v.z, v.w, {{ first }}u + q / {{ quads }}u, n0 + q % {{ quads }}u * 4u, base, ob, ib);
    }
{% endfor %}
