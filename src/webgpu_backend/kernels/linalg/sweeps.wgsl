{# Jacobi's sweeps from p.first to p.last of their turns; `state` keeps what the next dispatch must know. #}
{% extends "linalg/each_matrix.wgsl" %}
{% block declarations %}
{% include "linalg/team.wgsl" %}
{% include "linalg/jacobi.wgsl" %}

{% block comment %}
{% endblock %}
{% endblock %}
{% block body %}
    let o = p.a_o + b * p.a_b;
{% block before %}
{% endblock %}
    if (t == 0u) {
        finished = state[2u * b];
        atomicStore(&moved, state[2u * b + 1u]);
    }
    for (var sweep = 0u; sweep < p.sweeps; sweep = sweep + 1u) {
        if (workgroupUniformLoad(&finished) != 0u) {
            return;
        }
        for (var turn = p.first; turn < p.last; turn = turn + 1u) {
{% block turn %}
{% endblock %}
            meet();
        }
        if (t == 0u && p.complete != 0u) {
            finished = u32(atomicExchange(&moved, 0u) == 0u);
        }
    }
    if (t == 0u) {
        state[2u * b] = finished;
        state[2u * b + 1u] = atomicLoad(&moved);
    }
{% endblock %}
