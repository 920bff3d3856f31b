{% include "text/interface.wgsl" %}
{% include "matmul/store.wgsl" %}
{% include "quantized/codes.wgsl" %}
{% include "quantized/digits.wgsl" %}
{# Few rows of a times many of b, which is quantised in whole numbers. So are rows of a here, by the workgroup itself: 32
   elements become numbers of {{ 15 if digits == 2 else 7 }} bits and a sign, times a level of their own, in digits of eight
   bits. What is left are products of bytes, four at a time, whose sums are exact; they meet the scale, the offset and the
   level once a piece. Threads lie as in the kernel of few rows. A workgroup that holds all of a's rows takes one tile of
   columns after the other; else rows are made digits again, part by part. #}
{% set columns = l.along_n * l.wide %}
{% set quads = columns // 4 %}
{% set step = l.along_k * l.teams %}
var<workgroup> sums: array<f32, {{ parts * at_once * columns }}>;

{% macro fetch(how, count, at) %}
{% for u in range(count) %}
        {
            let at = min({{ at }} + {{ u * step }}u, last - 1u);
{% for j in range(l.wide) %}
{% for v in range(f.loads) %}
            {{ how }}{{ u }}_{{ j }}_{{ v }} = b_in[b{{ j }} + at * {{ f.loads }}u + {{ v }}u];
{% endfor %}
            {{ how }}s{{ u }}_{{ j }} = scale_held(col{{ j }}, at * 32u);
{% endfor %}
        }
{% endfor %}
{% endmacro %}
{% macro declare(how) %}
{% for u in range(l.unroll) %}
{% for j in range(l.wide) %}
{% for v in range(f.loads) %}
    var {{ how }}{{ u }}_{{ j }}_{{ v }}: vec{{ f.vector }}<u32>;
{% endfor %}
    var {{ how }}s{{ u }}_{{ j }}: {{ {"plain": "f32", "zeros": "vec2<f32>", "k4": "vec4<u32>", "k6": "vec2<u32>"}[f.scales] }};
{% endfor %}
{% endfor %}
{% endmacro %}
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
    let split = group / p.tiles_n;
    let first = split * p.chunk / 32u;
    let last = min((split + 1u) * p.chunk, p.k) / 32u;
    let parted = last - first > {{ held }}u;
    let ob = 0u;
    let ib = 0u;
    let base = p.o_o + split * p.o_s;
    let nt = lid / {{ l.along_k }}u % {{ l.along_n }}u;
    let team = lid / {{ l.along_k * l.along_n }}u;
    let kt = lid % {{ l.along_k }}u + team * {{ l.along_k }}u;
    let tile_first = group % p.tiles_n;
{% macro place(n) %}
{% for j in range(l.wide) %}
        col{{ j }} = min({{ n }} + nt * {{ near }}u + {{ j }}u, p.n - 1u);
        b{{ j }} = (p.b_o + col{{ j }} * p.b_r) * {{ f.loads }}u;
{% endfor %}
{{ fetch("y", l.unroll, "first + kt") }}
{% endmacro %}
{% for j in range(l.wide) %}
    var col{{ j }}: u32;
    var b{{ j }}: u32;
{% endfor %}
{{ declare("y") }}
{% if l.ahead %}
{{ declare("z") }}
{% endif %}
{{ place("tile_first * %du" % columns) }}
    for (var tile = tile_first; tile * {{ columns }}u < p.n; tile += p.tiles_n) {
        let n0 = tile * {{ columns }}u;
{% for j in range(l.wide) %}
{% for i in range(rows) %}
        var c{{ i }}_{{ j }} = 0.0;
{% endfor %}
{% endfor %}
        for (var start = first; start < last; start += {{ held }}u) {
            let here = min({{ held }}u, last - start);
            if (parted || tile == tile_first) {
                for (var q = lid; q < here * {{ 2 * rows }}u; q += {{ l.threads }}u) {
                    let row = q / (2u * here);
                    let piece = q / 2u - row * here;
                    quantise(p.a_o + min(row, p.m - 1u) * p.a_r + (start + piece) * 8u, row, piece, q & 1u);
                }
                workgroupBarrier();
            }
            for (var k = kt; k < here; k += {{ l.unroll * step }}u) {
                let next = start + k + {{ l.unroll * step }}u;
{% if l.ahead %}
                if (next < last) {
{{ fetch("z", l.unroll, "next") }}
                }
{% endif %}
{% for u in range(l.unroll) %}
                {% if u %}if (k + {{ u * step }}u < here) {% endif %}{
                    let piece = k + {{ u * step }}u;
                    let k_here = (start + piece) * 32u;
{% for j in range(l.wide) %}
{% for r in range(f.runs) %}
                    let s{{ j }}_{{ r }} = scale_in(ys{{ u }}_{{ j }}, k_here + {{ r * 16 }}u);
{% endfor %}
{% for w in range(8) %}
                    let w{{ j }}_{{ w }} = {{ bytes_of(u, j, w) }};
{% endfor %}
{% endfor %}
{% for i in range(rows) %}
                    {
                        let level = levels[{{ i * held }}u + piece];
{% if summed_up %}
{% for half in range(2) %}
                        let half{{ half }} = halves[{{ (2 * i + half) * held }}u + piece];
{% endfor %}
{% if f.runs == 1 %}
                        let sum0 = half0 + half1;
{% endif %}
{% endif %}
{% for d in range(digits) %}
{% for half in range(2) %}
                        let x{{ d }}_{{ half }} = digits[{{ ((i * digits + d) * 2 + half) * held }}u + piece];
{% endfor %}
{% endfor %}
{% for j in range(l.wide) %}
{% for r in range(f.runs) %}
{% for d in range(digits) %}
                        let t{{ j }}_{{ r }}_{{ d }} = {% for w in range(r * 8 // f.runs, (r + 1) * 8 // f.runs) %}{{ " + " if not loop.first }}dot4I8Packed(x{{ d }}_{{ w // 4 }}.{{ "xyzw"[w % 4] }}, w{{ j }}_{{ w }}){% endfor %};
{% endfor %}
                        let t{{ j }}_{{ r }} = f32({{ "(t%d_%d_1 << 8u) + t%d_%d_0" % (j, r, j, r) if digits == 2 else "t%d_%d_0" % (j, r) }}){{ " - %d.0 * %s%d" % (f.low, "half" if f.runs == 2 else "sum", r) if f.low }};
{% endfor %}
{% if f.offsets %}
                        c{{ i }}_{{ j }} += (t{{ j }}_0 * s{{ j }}_0.x + sum0 * s{{ j }}_0.y) * level;
{% else %}
                        c{{ i }}_{{ j }} += ({% for r in range(f.runs) %}{{ " + " if r }}t{{ j }}_{{ r }} * s{{ j }}_{{ r }}{% endfor %}) * level;
{% endif %}
{% endfor %}
                    }
{% endfor %}
                }
{% endfor %}
{% if l.ahead %}
{% for u in range(l.unroll) %}
{% for j in range(l.wide) %}
{% for v in range(f.loads) %}
                y{{ u }}_{{ j }}_{{ v }} = z{{ u }}_{{ j }}_{{ v }};
{% endfor %}
                ys{{ u }}_{{ j }} = zs{{ u }}_{{ j }};
{% endfor %}
{% endfor %}
{% else %}
                if (next < last) {
{{ fetch("y", l.unroll, "next") }}
                }
{% endif %}
            }
            if (parted) {
                workgroupBarrier();
            }
        }
        // The next tile is on its way while sums of this one are added up.
        let n_next = (tile + p.tiles_n) * {{ columns }}u;
        if (n_next < p.n) {
{{ place("n_next") }}
        }
{% include "matmul/few_rows_sums.wgsl" %}
        workgroupBarrier();
    }
}
