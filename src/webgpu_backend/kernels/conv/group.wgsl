{# The tile of a workgroup, its part of k, and where its operands begin. #}
    // Neighbours read the same part of the image.
    let m0 = (group % p.tiles_m) * {{ t.bm }}u;
    let n0 = (group / p.tiles_m % p.tiles_n) * {{ t.bn }}u;
    let z = group / (p.tiles_m * p.tiles_n);
    let split = z % p.splits;
    let block = z / p.splits;
    let k_first = split * p.chunk;
    let k_last = min(k_first + p.chunk, p.k);
    let astart = p.a_o + block * p.a_g;
    let bstart = p.b_o + block * p.b_g;
