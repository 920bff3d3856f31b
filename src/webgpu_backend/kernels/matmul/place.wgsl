{# The tile of a workgroup (m0, n0, z) and the place of a thread in it (ty, tx). #}
{% set lanes = [nty * ntx, 32] | min %}
{% set wn = lanes // t.warp %}
    // Threads that run together take {{ t.warp }} rows by {{ wn }} columns: both their reads of a step stay few and whole.
    let tx = lid / {{ lanes }}u % {{ ntx // wn }}u * {{ wn }}u + lid / 2u % {{ wn }}u;
    // Of four neighbours two share a row and two a column: the loads of either kind go two and two.
    let ty = lid / {{ lanes }}u / {{ ntx // wn }}u * {{ t.warp }}u + lid % {{ lanes }}u / {{ 2 * wn }}u * 2u + lid % 2u;
    // Eight rows of tiles are walked together: neighbours share what the cache holds of both operands.
    let per_batch = p.tiles_m * p.tiles_n;
    let z = group / per_batch;
    let inside = group % per_batch;
    let band = inside / (8u * p.tiles_n);
    let height = min(p.tiles_m - band * 8u, 8u);
    let m0 = (band * 8u + (inside % (8u * p.tiles_n)) % height) * {{ t.bm }}u;
    let n0 = ((inside % (8u * p.tiles_n)) / height) * {{ t.bn }}u;
