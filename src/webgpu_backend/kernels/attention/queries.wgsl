{# Which queries a workgroup of a forward pass has, and where they and what they meet begin. #}
{% if causal %}
    // The last queries have the most keys, and start first.
    let first = (p.blocks - 1u - group / p.sequences) * {{ t.rows }}u;
{% else %}
    let first = group / p.sequences * {{ t.rows }}u;
{% endif %}
    let sequence = group % p.sequences;
    let batch = sequence / p.heads;
    let head = sequence % p.heads;
    let shared_head = head / p.ratio;
    let q_at = p.q_o + batch * p.q_b + head * p.q_h;
    let k_at = p.k_o + batch * p.k_b + shared_head * p.k_h;
    let v_at = p.v_o + batch * p.v_b + shared_head * p.v_h;
    let row_at = (batch * p.heads + head) * p.l;
    let out_at = batch * p.out_b + head * p.out_h;
{% if mask %}
    let mask_at = p.mask_o + batch * p.mask_b + head * p.mask_h;
{% endif %}
