{% include "text/interface.wgsl" %}
{% include "matmul/store.wgsl" %}
{% if b_class == "q" %}
{% include "quantized/codes.wgsl" %}
{% endif %}
{# Few rows of a times many of b. Threads lie as [teams][along_n][along_k]; each has all rows and `wide` columns, and every
   (teams * along_k)-th piece of k. The file of its way says what a piece is and how b is read. Columns of a thread that are
   read one by one lie `apart`, so that those of neighbours are neighbours. #}
{% set columns = l.along_n * l.wide %}
{% set quads = columns // 4 %}
{% set step = l.along_k * l.teams %}
var<workgroup> sums: array<{{ type }}, {{ parts * at_once * columns }}>;

@compute @workgroup_size({{ l.threads }})
fn main(
    @builtin(local_invocation_index) lid: u32,
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>,
) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
    let n0 = (group % p.tiles_n) * {{ columns }}u;
    let z = group / p.tiles_n;
    let split = z % p.splits;
    let ob = (z / p.splits) / p.inner;
    let ib = (z / p.splits) % p.inner;
    let k_first = split * p.chunk;
    let k_last = min(k_first + p.chunk, p.k);
    let astart = p.a_o + ob * p.a_b + ib * p.a_i;
    let bstart = p.b_o + ob * p.b_b + ib * p.b_i;
    let nt = lid / {{ l.along_k }}u % {{ l.along_n }}u;
    let team = lid / {{ l.along_k * l.along_n }}u;
    let kt = lid % {{ l.along_k }}u + team * {{ l.along_k }}u;
    let n = n0 + nt * {{ near }}u;
{% for i in range(rows) %}
    let a{{ i }} = astart + min({{ i }}u, p.m - 1u) * p.a_r;
{% for j in range(l.wide) %}
    var c{{ i }}_{{ j }} = {{ zero }};
{% endfor %}
{% endfor %}
{% include "matmul/few_rows_" ~ way ~ ".wgsl" %}
    let base = p.o_o + ob * p.o_b + ib * p.o_i + split * p.o_s;
{% include "matmul/few_rows_sums.wgsl" %}
}
