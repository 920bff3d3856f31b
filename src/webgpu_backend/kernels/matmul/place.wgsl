{# The tile of a workgroup (m0, n0, z) and the place of a thread in it (ty, tx). #}
{% set lanes = [nty * ntx, 32] | min %}
{% set wn = lanes // t.warp %}
    // Threads that run together take {{ t.warp }} rows by {{ wn }} columns: both their reads of a step stay few and whole.
    let tx = lid / {{ lanes }}u % {{ ntx // wn }}u * {{ wn }}u + lid / 2u % {{ wn }}u;
    // Of four neighbours two share a row and two a column: the loads of either kind go two and two.
    let ty = lid / {{ lanes }}u / {{ ntx // wn }}u * {{ t.warp }}u + lid % {{ lanes }}u / {{ 2 * wn }}u * 2u + lid % 2u;
{% include "matmul/group.wgsl" %}
