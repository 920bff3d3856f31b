{# What the kernels with sums in f16 share. A unit is eight halves: of a row, or four of each of two rows, interleaved. #}
{% set TX, TY = t.cols // t.tn, t.rows // t.tm %}
{% set threads = TX * TY %}
{% set su = t.slice // 8 %}
{% set per = t.slice // 4 // TX %}
{% set tile_row, weight_row, twin_row = su, t.cols // 8, t.slice // 4 %}
{# Where column c of row `row + more` of n columns is: threads that read one column of several rows meet different banks.
   Written so that what does not depend on c can be computed once. #}
{% macro place(c, row, n, more=0) %}
{% set mask = [n, 8] | min - 1 %}
{% if more % (mask + 1) %}({{ row }} + {{ more }}u) * {{ n }}u + (({{ c }}) ^ (({{ row }} + {{ more }}u) & {{ mask }}u)){% else %}(({{ row }} * {{ n }}u + ({{ row }} & {{ mask }}u)) ^ ({{ c }})) + {{ more * n }}u{% endif %}
{% endmacro %}
{% macro tiles() %}
// A slice of the owned rows; the weights take its place when their turn comes.
var<workgroup> x_tile: array<mat2x4<f16>, {{ t.rows * [tile_row, weight_row] | max }}>;
// A slice of the rows walked over; then pairs of these rows.
var<workgroup> y_tile: array<mat2x4<f16>, {{ t.cols * su }}>;
{% endmacro %}
{% macro pair(u, e) %}{{ u }}[{{ e // 2 }}].{{ ("xy", "zw")[e % 2] }}{% endmacro %}
{# A slice of rows, from unit e0; what lies past the head's size is zero. #}
{% macro stage(to, x, rows, row0, limit, e0, dim4, factor) %}
{% for l in range((rows * su + threads - 1) // threads) %}
            {
                let id = lid + {{ l * threads }}u;
                let row = id / {{ su }}u;
                let e = id % {{ su }}u;
                let at = ({{ e0 }} + e) * 2u;
                let base = {{ x }}_at + min({{ row0 }} + row, {{ limit }} - 1u) * p.{{ x }}_r;
{% if whole[dim4] %}
                {{ "if (row < %du) " % rows if rows * su % threads }}{
                    {{ to }}[{{ place("e", "row", su) }}] = mat2x4<f16>({{ narrow4(x, "base + at", factor) }}, {{ narrow4(x, "base + at + 1u", factor) }});
                }
{% else %}
                let lo = {{ narrow4(x, "base + min(at, %s - 1u)" % dim4, factor) }};
                let hi = {{ narrow4(x, "base + min(at + 1u, %s - 1u)" % dim4, factor) }};
                {{ "if (row < %du) " % rows if rows * su % threads }}{
                    {{ to }}[{{ place("e", "row", su) }}] = mat2x4<f16>(select(vec4<f16>(), lo, at < {{ dim4 }}), select(vec4<f16>(), hi, at + 1u < {{ dim4 }}));
                }
{% endif %}
            }
{% endfor %}
{% endmacro %}
{# Row pairs of a slice, for sums over rows: rows c + 2 TX j and TX further. #}
{% macro put_twins(x, row0, limit, part, dim4, factor) %}
{% for l in range((t.cols // 2 * twin_row + threads - 1) // threads) %}
        {
            let id = lid + {{ l * threads }}u;
            let e = {{ "" if whole[dim4] else "min" }}({{ part * twin_row }}u + id % {{ twin_row }}u{{ "" if whole[dim4] else ", %s - 1u" % dim4 }});
            let twin = id / {{ twin_row }}u;
            let row = {{ row0 }} + twin % {{ TX }}u + twin / {{ TX }}u * {{ 2 * TX }}u;
            let a = {{ narrow4(x, "%s_at + min(row, %s - 1u) * p.%s_r + e" % (x, limit, x), factor) }};
            let b = {{ narrow4(x, "%s_at + min(row + %du, %s - 1u) * p.%s_r + e" % (x, TX, limit, x), factor) }};
            {{ "if (id < %du) " % (t.cols // 2 * twin_row) if (l + 1) * threads > t.cols // 2 * twin_row }}{
                y_tile[id] = mat2x4<f16>(vec4<f16>(a.x, b.x, a.y, b.y), vec4<f16>(a.z, b.z, a.w, b.w));
            }
        }
{% endfor %}
{% endmacro %}
{# acc{i}_{j} += products over the slice, summed in f16. On a causal diagonal, those that are masked are left out. #}
{% macro dots(acc, dim4, diagonal=false) %}
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
                var h{{ i }}_{{ j }} = vec2<f16>();
{% endfor %}
{% endfor %}
{% set steps = t.unroll if whole[dim4] else 1 %}
                {{ "" if steps == su else "for (var c0 = 0u; c0 < %s; c0 += %du) " % ("%du" % su if whole[dim4] else "units", steps) }}{
{% for step in range(steps) %}
                {
                    {{ "const c = %du" % step if steps == su else "let c = c0 + %du" % step }};
{% for i in range(t.tm) %}
                    let a{{ i }} = x_tile[{{ place("c", "ty", su, i * TY) }}];
{% endfor %}
{% for j in range(t.tn) %}
                    let b{{ j }} = y_tile[{{ place("c", "tx", su, j * TX) }}];
{% for e in range(4) %}
{% for i in range(t.tm) if not diagonal or j * TX < (i + 1) * TY %}
                    h{{ i }}_{{ j }} = fma({{ pair("a%d" % i, e) }}, {{ pair("b%d" % j, e) }}, h{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
{% endfor %}
                }
{% endfor %}
                }
{% for i in range(t.tm) %}
{% for j in range(t.tn) %}
                {{ acc }}{{ i }}_{{ j }} += f32(h{{ i }}_{{ j }}.x) + f32(h{{ i }}_{{ j }}.y);
{% endfor %}
{% endfor %}
{% endmacro %}
{# The same in f32. #}
{% macro exact_dots(acc) %}
                for (var c = 0u; c < units * 2u; c++) {
{% for i in range(t.tm) %}
                    let a{{ i }} = vec4<f32>(x_tile[{{ place("c / 2u", "ty", su, i * TY) }}][c % 2u]);
{% endfor %}
{% for j in range(t.tn) %}
                    let b{{ j }} = vec4<f32>(y_tile[{{ place("c / 2u", "tx", su, j * TX) }}][c % 2u]);
{% for e in "xyzw" %}
{% for i in range(t.tm) %}
                    {{ acc }}{{ i }}_{{ j }} = fma(a{{ i }}.{{ e }}, b{{ j }}.{{ e }}, {{ acc }}{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
{% endfor %}
                }
{% endmacro %}
{# The thread's weights, pairs of halves w{i}_{j}, next to each other; whoever reads them knows which columns they are. #}
{% macro keep(w) %}
{% for i in range(t.tm) %}
        x_tile[{{ place("tx", "ty", weight_row, i * TY) }}] = mat2x4<f16>(vec4<f16>({{ w }}{{ i }}_0, {{ w }}{{ i }}_2), vec4<f16>({{ w }}{{ i }}_4, {{ w }}{{ i }}_6));
{% endfor %}
{% endmacro %}
{# acc{i}_{c}, times `fade` first, += weights times one slice of the rows walked over, times `factor`. Without acc:
   sums over the owned rows instead, added to dq. #}
{% macro mix(acc, part, fade, factor, diagonal=false) %}
        {
{% for i in range(t.tm) %}
{% for u in range(per * 4) %}
            var a{{ i }}_{{ u }} = vec2<f16>();
{% endfor %}
{% endfor %}
{% set steps = [t.unroll, TX] | min %}
            {{ "" if steps == TX else "for (var c0 = 0u; c0 < %du; c0 += %du) " % (TX, steps) }}{
{% for step in range(steps) %}
            {
                {{ "const c = %du" % step if steps == TX else "let c = c0 + %du" % step }};
{% for i in range(t.tm) %}
                let w{{ i }} = x_tile[{{ place("c", "ty", weight_row, i * TY) }}];
{% endfor %}
{% for j in range(4) %}
{% for u in range(per) %}
                {
                    let v = y_tile[(c + {{ j * TX }}u) * {{ twin_row }}u + {{ "tx" if acc else "(tx ^ %s)" % ("%du" % (step % 4) if steps % 4 == 0 else "(c & 3u)") }} + {{ u * TX }}u];
{% for e in range(4) %}
{% for i in range(t.tm) if not diagonal or 2 * j * TX < (i + 1) * TY %}
                    a{{ i }}_{{ 4 * u + e }} = fma({{ pair("w%d" % i, j) }}, {{ pair("v", e) }}, a{{ i }}_{{ 4 * u + e }});
{% endfor %}
{% endfor %}
                }
{% endfor %}
{% endfor %}
            }
{% endfor %}
            }
{% for i in range(t.tm) %}
{% for u in range(per) %}
{% set o = "%s%d_%d" % (acc, i, part * per + u) %}
{% if acc %}
            {{ o }} = {{ o }}{{ " * %s%d" % (fade, i) if fade }} + vec4<f32>({% for e in range(4) %}f32(a{{ i }}_{{ 4 * u + e }}.x) + f32(a{{ i }}_{{ 4 * u + e }}.y){{ ", " if e < 3 }}{% endfor %}){{ " * " ~ factor if factor }};
{% else %}
            if (other + ty + {{ i * TY }}u < p.l) {
                let at = (row_at + other + ty + {{ i * TY }}u) * p.e4 * 4u + tx;
{% for e in range(4) %}
{% set col = part * t.slice + (4 * u + e) * TX %}
                {{ "" if whole["p.e4"] else "if (tx + %du < p.e4 * 4u) " % col }}{
                    atomicAdd(&dq[at + {{ col }}u], (f32(a{{ i }}_{{ 4 * u + e }}.x) + f32(a{{ i }}_{{ 4 * u + e }}.y)) * {{ factor }});
                }
{% endfor %}
            }
{% endif %}
{% endfor %}
{% endfor %}
        }
{% endmacro %}
{# The same for sums over the owned rows: weights of a row walked over, two neighbours' side by side, and row pairs of
   x, whose columns lie TX apart so that those of neighbouring threads are neighbours in dq. #}
{% macro keep_across(w) %}
{% for j in range(t.tn) %}
        x_tile[{{ place("ty / 2u", "tx", weight_row, j * TX) }}][ty % 2u] = vec4<f16>({% for i in range(4) %}{{ w }}{{ i }}_{{ j // 2 * 2 }}.{{ "xy"[j % 2] }}{{ ", " if i < 3 }}{% endfor %});
{% endfor %}
{% endmacro %}
{% macro put_across(x, row0, limit, part, dim4, factor) %}
{% set sides = TX // 4 %}
        {
            let side = lid % {{ sides }}u;
            let u = lid / {{ sides }}u % {{ per }}u;
            let twin = lid / {{ sides * per }}u;
            let row = {{ row0 }} + twin % {{ TX }}u * 2u + twin / {{ 2 * TX }}u + twin / {{ TX }}u % 2u * {{ 2 * TY }}u;
            let at_a = {{ x }}_at + min(row, {{ limit }} - 1u) * p.{{ x }}_r;
            let at_b = {{ x }}_at + min(row + {{ TY }}u, {{ limit }} - 1u) * p.{{ x }}_r;
{% for m in range(4) %}
            let e{{ m }} = {{ "" if whole[dim4] else "min" }}({{ part * twin_row + sides * m }}u + side + u * {{ TX }}u{{ "" if whole[dim4] else ", %s - 1u" % dim4 }});
            let a{{ m }} = {{ narrow4(x, "at_a + e%d" % m, factor) }};
            let b{{ m }} = {{ narrow4(x, "at_b + e%d" % m, factor) }};
{% endfor %}
{% for l in "xyzw" %}
            y_tile[twin * {{ twin_row }}u + u * {{ TX }}u + side * 4u + ({{ loop.index0 }}u ^ (twin & 3u))] = mat2x4<f16>(vec4<f16>(a0.{{ l }}, b0.{{ l }}, a1.{{ l }}, b1.{{ l }}), vec4<f16>(a2.{{ l }}, b2.{{ l }}, a3.{{ l }}, b3.{{ l }}));
{% endfor %}
        }
{% endmacro %}
{% macro zero(acc, wide) %}
{% for i in range(t.tm) %}
{% for c in range(wide) %}
    var {{ acc }}{{ i }}_{{ c }} = vec4<f32>(0.0);
{% endfor %}
{% endfor %}
{% endmacro %}
{% macro unit_scale(exponents) %}
// The power of two that takes x to [0.5, 1); 1 where there is none.
fn unit_scale(x: f32) -> f32 {
    let e = clamp(bitcast<u32>(x) >> 23u, {{ exponents }});
    return select(bitcast<f32>((253u - e) << 23u), 1.0, x > 3.0e38);
}
{% endmacro %}
