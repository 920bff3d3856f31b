// Four columns of one row; what lies outside the output is dropped.
fn store(v0: {{ type }}, v1: {{ type }}, v2: {{ type }}, v3: {{ type }}, m: u32, n: u32, base: u32, ob: u32, ib: u32) {
    if (m >= p.m || n >= p.n) {
        return;
    }
{% for j in range(4) %}
{% if finishes %}
    let r{{ j }} = epilogue(v{{ j }}, m, min(n + {{ j }}u, p.n - 1u), ob, ib);
{% else %}
    let r{{ j }} = v{{ j }};
{% endif %}
{% endfor %}
{% if store == "v" %}
    let at = base + m * p.o_m + n / 4u;
    {{ write4("at", ["r0", "r1", "r2", "r3"]) }}
{% else %}
    let at = base + m * p.o_m + n * p.o_n;
{% for j in range(4) %}
    if (n + {{ j }}u < p.n) {
        let at{{ j }} = at + {{ j }}u * p.o_n;
        {{ write("at%d" % j, "r%d" % j) }}
    }
{% endfor %}
{% endif %}
}
