{# The tile of a workgroup: m0, n0, z. #}
    // Eight rows of tiles are walked together: neighbours share what the cache holds of both operands.
    let per_batch = p.tiles_m * p.tiles_n;
    let z = group / per_batch;
    let inside = group % per_batch;
    let band = inside / (8u * p.tiles_n);
    let height = min(p.tiles_m - band * 8u, 8u);
    let m0 = (band * 8u + (inside % (8u * p.tiles_n)) % height) * {{ t.bm }}u;
    let n0 = ((inside % (8u * p.tiles_n)) / height) * {{ t.bn }}u;
