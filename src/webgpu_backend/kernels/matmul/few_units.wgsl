{% include "text/interface.wgsl" %}
{% include "matmul/store.wgsl" %}
{% include "quantized/codes.wgsl" %}
{% if scales %}
{% include "matmul/powers.wgsl" %}
{% endif %}
{# Few rows of a times the rows of b, which is quantised, by matrix units. A subgroup has `size` rows of b, a `crew` a tile of them; of
   `teams` for the same rows each takes `near` pieces of k, then the next that nobody has. It makes f16 of its codes in workgroup memory,
   beside the rows of a there: the first operand of the units is b, so that rows of a that are not there are columns nobody reads. #}
{% set span = l.near * 32 %}
{% set wide = span // 4 + pad %}
{% set mine = size * l.near // lanes %}
{% set quads = rows * span // 4 %}
{% set takers = lanes * l.crews %}
{% set shares = (quads + takers - 1) // takers %}
{% set square = size * size // 4 %}
var<workgroup> b_tile: array<vec4<f16>, {{ l.crews * l.teams * size * wide }}>;
var<workgroup> a_tile: array<vec4<f16>, {{ ((l.teams - 1) * rows + size) * wide }}>;
var<workgroup> sums: array<vec4<f32>, {{ l.crews * l.teams * square }}>;

{# Codes and elements of a from this step's pieces on; what lies past the end is read again, and not used. #}
{% macro fetch(step) %}
        {
            let first = ({{ step }} * {{ l.teams }}u + team) * {{ l.near }}u;
{% for u in range(mine) %}
            {
                let at = min(first + piece{{ u }}, pieces - 1u);
{% for v in range(f.loads) %}
                y{{ u }}_0_{{ v }} = b_in[(base{{ u }} + at) * {{ f.loads }}u + {{ v }}u];
{% endfor %}
                ys{{ u }} = scale_held(col{{ u }}, at * 32u);
            }
{% endfor %}
{% for u in range(shares) %}
            x{{ u }} = {{ read4("a", "xbase%d + min(first * 8u + xquad%d, pieces * 8u - 1u)" % (u, u)) }};
{% endfor %}
        }
{% endmacro %}
{# From registers to where the units find them. #}
{% macro keep(step) %}
        {
            let first = ({{ step }} * {{ l.teams }}u + team) * {{ l.near }}u;
{% for u in range(mine) %}
            {
                let inside = first + piece{{ u }} < pieces;
                let k = min(first + piece{{ u }}, pieces - 1u) * 32u;
                let to = unit * {{ size * wide }}u + row{{ u }} * {{ wide }}u + piece{{ u }} * 8u;
{% for r in range(f.runs) %}
                let s{{ r }} = scale_in(ys{{ u }}, k + {{ r * 16 }}u);
{% endfor %}
{% for quad in range(8) %}
{% set s = "s%d" % (quad * f.runs // 8) %}
                b_tile[to + {{ quad }}u] = select(vec4<f16>(), vec4<f16>({{ code_of(u, 0, quad) }} * {{ s }}{{ ".x + %s.y" % s if f.offsets }}), inside);
{% endfor %}
            }
{% endfor %}
{% for u in range(shares) %}
            {% if quads % takers %}if (mate + {{ u * takers }}u < {{ quads }}u) {% endif %}{
{% if scales %}
                let y = x{{ u }} * xscale{{ u }};
                let x = vec4<f16>(vec4<f32>({% for c in "xyzw" %}shrink(x{{ u }}.{{ c }}, y.{{ c }}){{ ", " if not loop.last }}{% endfor %}));
{% else %}
                let x = {{ "x%d" % u if half else "vec4<f16>(x%d)" % u }};
{% endif %}
                a_tile[(team * {{ rows }}u + xrow{{ u }}) * {{ wide }}u + xquad{{ u }}] = select(vec4<f16>(), x, first * 8u + xquad{{ u }} < pieces * 8u);
            }
{% endfor %}
        }
{% endmacro %}
@compute @workgroup_size({{ takers * l.teams }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.total) {
        return;
    }
    let lane = lid % {{ lanes }}u;
    let unit = lid / {{ lanes }}u;
    let team = unit / {{ l.crews }}u;
    let mate = lid % {{ takers }}u;
    let n0 = group * {{ l.crews * size }}u;
    let pieces = p.k / 32u;
{% for u in range(mine) %}
    let piece{{ u }} = (lane + {{ u * lanes }}u) % {{ l.near }}u;
    let row{{ u }} = (lane + {{ u * lanes }}u) / {{ l.near }}u;
    let col{{ u }} = min(n0 + unit % {{ l.crews }}u * {{ size }}u + row{{ u }}, p.n - 1u);
    let base{{ u }} = p.b_o + col{{ u }} * p.b_r;
{% for v in range(f.loads) %}
    var y{{ u }}_0_{{ v }}: vec{{ f.vector }}<u32>;
{% endfor %}
    var ys{{ u }}: {{ {"plain": "f32", "zeros": "vec2<f32>", "k4": "vec4<u32>", "k6": "vec2<u32>"}[f.scales] }};
{% endfor %}
{% for u in range(shares) %}
    let xrow{{ u }} = (mate + {{ u * takers }}u) / {{ span // 4 }}u;
    let xquad{{ u }} = (mate + {{ u * takers }}u) % {{ span // 4 }}u;
    let xbase{{ u }} = p.a_o + min(xrow{{ u }}, p.m - 1u) * p.a_r;
{% if scales %}
    let xscale{{ u }} = power(ea_in[min(xrow{{ u }}, p.m - 1u)]);
{% endif %}
    var x{{ u }}: vec4<{{ "f16" if half else "f32" }}>;
{% endfor %}
    var c = coop_mat{{ size }}x{{ size }}<f32, C>();
{{ fetch("0u") }}
    for (var step = 0u; step * {{ l.near * l.teams }}u < pieces; step++) {
{{ keep("step") }}
        workgroupBarrier();
        // The next codes are on their way while these are multiplied.
{{ fetch("(step + 1u)") }}
{% for k in range(0, span, size) %}
        {
            let b = coopLoadT<coop_mat{{ size }}x{{ size }}<f16, A>>(&b_tile[unit * {{ size * wide }}u + {{ k // 4 }}u], {{ wide }}u);
            let a = coopLoad<coop_mat{{ size }}x{{ size }}<f16, B>>(&a_tile[team * {{ rows * wide }}u + {{ k // 4 }}u], {{ wide }}u);
            c = coopMultiplyAdd(b, a, c);
        }
{% endfor %}
        workgroupBarrier();
    }
    coopStore(c, &sums[unit * {{ square }}u], {{ size // 4 }}u);
    workgroupBarrier();
    for (var q = lid; q < {{ l.crews * rows * size // 4 }}u; q += {{ takers * l.teams }}u) {
        let crew = q / {{ rows * size // 4 }}u;
        let rest = q % {{ rows * size // 4 }}u;
        let m = rest / {{ size // 4 }}u;
        var v = vec4<f32>(0.0);
        for (var t = crew; t < {{ l.crews * l.teams }}u; t += {{ l.crews }}u) {
            v += sums[t * {{ square }}u + rest];
        }
{% if scales %}
        let e = ea_in[min(m, p.m - 1u)];
        v = vec4<f32>({% for c in "xyzw" %}unscale(v.{{ c }}, e){{ ", " if not loop.last }}{% endfor %});
{% endif %}
        store(v.x, v.y, v.z, v.w, m, n0 + crew * {{ size }}u + rest % {{ size // 4 }}u * 4u, p.o_o, 0u, 0u);
    }
}
