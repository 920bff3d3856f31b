    // Which tensor of the list this workgroup has, its first workgroup, and how much there is.
    var slot = 0u;
    var start = 0u;
    var count = p.count0;
{% for k in range(1, loads | length) %}
    if (wg >= p.stop{{ k - 1 }}) {
        slot = {{ k }}u;
        start = p.stop{{ k - 1 }};
        count = p.count{{ k }};
    }
{% endfor %}
