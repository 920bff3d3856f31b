{# The sums of a tile's rows, brought together from the threads that share them. #}
    // Each thread has summed its own columns.
    workgroupBarrier();
{% for i in range(t.tm) %}
    row_values[((ty + {{ i * TY }}u) * {{ TX }}u + tx) / 4u][tx % 4u] = sum{{ i }};
{% endfor %}
    workgroupBarrier();
