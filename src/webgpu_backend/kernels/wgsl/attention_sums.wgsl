{# The sums of a tile's rows, brought together from the threads that share them. #}
    // Each thread has summed its own columns.
{% if t.shuffle %}
{% for i in range(t.tm) %}
{% for step in (1, 2, 4) %}
    sum{{ i }} += subgroupShuffleXor(sum{{ i }}, {{ step }}u);
{% endfor %}
{% endfor %}
{% else %}
    workgroupBarrier();
{% for i in range(t.tm) %}
    row_values[((ty + {{ i * TY }}u) * {{ TX }}u + tx) / 4u][tx % 4u] = sum{{ i }};
{% endfor %}
    workgroupBarrier();
{% endif %}
