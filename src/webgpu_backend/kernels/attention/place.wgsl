{# The thread's place in a tile. #}
{% if lanes %}
    // Threads next to each other share a row and those two apart a column: a GPU then reads either in half the time.
    let tx = (lid & 1u) | ((lid >> 1u) & {{ TX - 2 }}u);
    let ty = ((lid >> 1u) & 1u) | (lid / {{ 2 * TX }}u << 1u);
{% else %}
    let tx = lid % {{ TX }}u;
    let ty = lid / {{ TX }}u;
{% endif %}
