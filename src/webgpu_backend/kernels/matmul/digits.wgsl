{% include "text/interface.wgsl" %}
{% include "quantized/codes.wgsl" %}
{% include "quantized/digits.wgsl" %}
{# Few rows of a times many of b, which is quantised in whole numbers. So are rows of a here, by the workgroup itself: 32
   elements become numbers of {{ 15 if digits == 2 else 7 }} bits and a sign, times a level of their own, in digits of eight
   bits. What is left are products of bytes, four at a time, whose sums are exact; they meet the scale, the offset and the
   level once a piece. Threads lie as in the kernel of few rows. A workgroup that holds all of a's rows takes one tile of
   columns after the other; else rows are made digits again, part by part.
   Of several weights each tile has columns of one (`joined`), or a thread the same columns of each. #}
{% set columns = l.along_n * l.wide %}
{% set own = columns // paired %}
{% set side = l.wide // paired %}
{% set quads = own // 4 %}
{% set step = l.along_k * l.teams %}
{% set chosen = joined and count > 1 %}
var<workgroup> sums: array<f32, {{ l.teams * rows * columns }}>;
{% if before %}
// Sums of the squares of a row, of each subgroup.
var<workgroup> squares: array<f32, {{ rows * l.threads // lanes }}>;
{% endif %}

// Four columns of one row, from column n of weight number `which` on; what lies outside the output is dropped.
fn finish({% for i in range(paired) %}v{{ i }}: vec4<f32>, {% endfor %}m: u32, n: u32, width: u32, which: u32, first: u32) {
    if (m >= p.m || n >= width) {
        return;
    }
{% for j in range(4) %}
    let r{{ j }} = after({% for i in range(paired) %}v{{ i }}.{{ "xyzw"[j] }}, {% endfor %}m, min(n + {{ j }}u, width - 1u), which);
{% endfor %}
{% if store == "v" %}
    let at = p.o_o + m * p.o_m + (first + n) / 4u;
    {{ write4("at", ["r0", "r1", "r2", "r3"]) }}
{% else %}
    let at = p.o_o + m * p.o_m + first + n;
{% for j in range(4) %}
    if (n + {{ j }}u < width) {
        let at{{ j }} = at + {{ j }}u;
        {{ write("at%d" % j, "r%d" % j) }}
    }
{% endfor %}
{% endif %}
}

{% macro load(how, u, j, i) %}
{% for v in range(f.loads) %}
            {{ how }}{{ u }}_{{ j }}_{{ v }} = b{{ i }}_in[b{{ j }} + at * {{ f.loads }}u + {{ v }}u];
{% endfor %}
            {{ how }}s{{ u }}_{{ j }} = scale_held{{ i }}(col{{ j }}, at * 32u);
{% endmacro %}
{% macro fetch(how, at) %}
{% for u in range(l.unroll) %}
        {
            let at = min({{ at }} + {{ u * step }}u, last - 1u);
{% if chosen %}
{% for i in range(count) %}
            {{ "else " if i }}{{ "if (which == %du) " % i if i + 1 < count }}{
{% for j in range(l.wide) %}
{{ load(how, u, j, i) }}
{% endfor %}
            }
{% endfor %}
{% else %}
{% for j in range(l.wide) %}
{{ load(how, u, j, j // side) }}
{% endfor %}
{% endif %}
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
{# Where the columns of a tile are, whose first weights are then on their way. #}
{% macro place(tile) %}
{% if chosen %}
        which = 0u;
        column = {{ tile }} * {{ own }}u;
        width = p.n0;
        piece0 = p.b_o0;
        first = 0u;
{% for i in range(1, count) %}
        if ({{ tile }} >= p.tile{{ i }}) {
            which = {{ i }}u;
            column = ({{ tile }} - p.tile{{ i }}) * {{ own }}u;
            width = p.n{{ i }};
            piece0 = p.b_o{{ i }};
            first = p.first{{ i }};
        }
{% endfor %}
{% else %}
        column = {{ tile }} * {{ own }}u;
{% endif %}
{% for j in range(l.wide) %}
        col{{ j }} = min(column + nt * {{ side }}u + {{ j % side }}u, {{ "width" if chosen else "p.n0" }} - 1u);
        b{{ j }} = ({{ "piece0" if chosen else "p.b_o%d" % (j // side) }} + col{{ j }} * last) * {{ f.loads }}u;
{% endfor %}
{{ fetch("y", "kt") }}
{% endmacro %}
@compute @workgroup_size({{ l.threads }})
fn main(
    @builtin(local_invocation_index) lid: u32,
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>,
) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.groups) {
        return;
    }
    let last = p.k / 32u;
    let parted = last > {{ held }}u;
    let nt = lid / {{ l.along_k }}u % {{ l.along_n }}u;
    let team = lid / {{ l.along_k * l.along_n }}u;
    let kt = lid % {{ l.along_k }}u + team * {{ l.along_k }}u;
    var column: u32;
{% if chosen %}
    var which: u32;
    var width: u32;
    var piece0: u32;
    var first: u32;
{% endif %}
{% for j in range(l.wide) %}
    var col{{ j }}: u32;
    var b{{ j }}: u32;
{% endfor %}
{{ declare("y") }}
{% if l.ahead %}
{{ declare("z") }}
{% endif %}
{{ place("group") }}
{% if before %}
{% for i in range(rows) %}
    {
        var square = 0.0;
        for (var q = lid; q < p.k / 4u; q += {{ l.threads }}u) {
            let v = {{ read4("a", "p.a_o + min(%du, p.m - 1u) * p.a_r + q" % i) }};
            square += dot(v, v);
        }
{% for mask in masks %}
        square += subgroupShuffleXor(square, {{ mask }}u);
{% endfor %}
        if (lid % {{ lanes }}u == 0u) {
            squares[{{ i * l.threads // lanes }}u + lid / {{ lanes }}u] = square;
        }
    }
{% endfor %}
    workgroupBarrier();
{% endif %}
    for (var tile = group; tile < p.tiles; tile += p.groups) {
        let column_here = column;
{% if chosen %}
        let which_here = which;
        let width_here = width;
        let first_here = first;
{% endif %}
{% for j in range(l.wide) %}
{% for i in range(rows) %}
        var c{{ i }}_{{ j }} = 0.0;
{% endfor %}
{% endfor %}
        for (var start = 0u; start < last; start += {{ held }}u) {
            let here = min({{ held }}u, last - start);
            if (parted || tile == group) {
                let all = here * {{ 2 * rows }}u;
                for (var from_ = 0u; from_ < all; from_ += {{ l.threads }}u) {
                    let q = min(from_ + lid, all - 1u);
                    let row = q / (2u * here);
                    let piece = q / 2u - row * here;
                    let k4 = (start + piece) * 8u;
{% if before %}
                    var square = 0.0;
                    for (var i = 0u; i < {{ l.threads // lanes }}u; i++) {
                        square += squares[row * {{ l.threads // lanes }}u + i];
                    }
                    let r = 1.0 / sqrt(square / f32(p.k) + p.eps);
{% endif %}
                    quantise(p.a_o + min(row, p.m - 1u) * p.a_r + k4, row, piece, q & 1u, from_ + lid < all{{ ", r, k4" if before }});
                }
                workgroupBarrier();
            }
            for (var k = kt; k < here; k += {{ l.unroll * step }}u) {
                let next = start + k + {{ l.unroll * step }}u;
{% if l.ahead %}
                if (next < last) {
{{ fetch("z", "next") }}
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
{{ fetch("y", "next") }}
                }
{% endif %}
            }
            if (parted) {
                workgroupBarrier();
            }
        }
        // The next tile is on its way while sums of this one are added up.
        let next_tile = tile + p.groups;
        if (next_tile < p.tiles) {
{{ place("next_tile") }}
        }
{% for line in folding %}
        {{ line }}
{% endfor %}
{% for value in folded %}
        if ((lid & {{ spare }}u) == 0u) {
            let at = place + {{ loop.index0 }}u;
            sums[team * {{ rows * columns }}u + at / {{ l.wide }}u * {{ columns }}u + nt * {{ l.wide }}u + at % {{ l.wide }}u] = {{ value }};
        }
{% endfor %}
        workgroupBarrier();
        for (var q = lid; q < {{ rows * quads }}u; q += {{ l.threads }}u) {
            let row = q / {{ quads }}u;
            let quad = q - row * {{ quads }}u;
{% for i in range(paired) %}
            var v{{ i }} = vec4<f32>(0.0);
{% endfor %}
            for (var i = row * {{ columns }}u + quad * {{ 4 * paired }}u; i < {{ l.teams * rows * columns }}u; i += {{ rows * columns }}u) {
{% for i in range(paired) %}
                v{{ i }} += vec4<f32>({% for e in range(4) %}sums[i + {{ e // side * l.wide + i * side + e % side }}u]{{ ", " if not loop.last }}{% endfor %});
{% endfor %}
            }
            finish({% for i in range(paired) %}v{{ i }}, {% endfor %}row, column_here + quad * 4u, {{ "width_here, which_here, first_here" if chosen else "p.n0, 0u, 0u" }});
        }
        workgroupBarrier();
    }
}
