{% include "attention/head.wgsl" %}
{% set slices = threads // lanes %}
{% set stride = slices * ahead %}
{% set met = [lanes, wide] | max %}
var<workgroup> scores: array<f32, {{ keys }}>;
// The largest scores of {{ wide }} threads next to each other, and the sums of their weights.
var<workgroup> tops: array<f32, {{ threads // wide }}>;
var<workgroup> totals: array<f32, {{ threads // wide }}>;
{% if cached %}
// The query and the key of this token.
var<workgroup> rows: array<vec4<f32>, {{ 2 * most }}>;
{% endif %}
var<workgroup> sums: array<vec4<f32>, {{ threads // met * lanes }}>;

{# What lies past the head's size is nothing, also where the element that is read instead is infinite. #}
{% macro part(k, u) %}{{ widened(k) if whole else "select(vec4<f32>(0.0), %s, c + %du < p.e4)" % (widened(k), u * team) }}{% endmacro %}
{# Of {{ keys_ahead }} keys at a time, elements of each for a thread. #}
{% macro fetch_keys() %}
{% for a in range(keys_ahead) %}
{% for u in range(quads) %}
        k{{ a }}_{{ u }} = k_in[k_at + min(first + {{ a }}u, p.s - 1u) * p.k_r + at{{ u }}];
{% endfor %}
{% endfor %}
{% endmacro %}
{# Values of {{ ahead }} keys are on their way before their weights are known. #}
{% macro fetch(first) %}
{% for u in range(ahead) %}
        v{{ u }} = v_in[v_at + min({{ first }} + {{ u * slices }}u, p.s - 1u) * p.v_r + e];
{% endfor %}
{% endmacro %}
{% if cached %}
fn rounded(v: vec4<f32>) -> vec4<f32> {
    return {{ rounded }};
}

// Four elements x of a row, turned by an angle: the halves of a row are its coordinates, and y is of the other half.
fn turned(x: vec4<f32>, y: vec4<f32>, cosine: vec4<f32>, sine: vec4<f32>) -> vec4<f32> {
    return rounded(rounded(x * cosine) + rounded(y * sine));
}

{% endif %}
// One query of one head: its scores, then four elements of the output for each thread, over every {{ slices }}th key.
@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.sequences) {
        return;
    }
    let batch = group / p.heads;
    let head = group % p.heads;
    let shared_head = head / p.ratio;
{% if cached %}
    // The token's own query, key and value, and where the last two go: nobody reads what is there.
    let fresh = batch * p.fresh_b;
    let fresh_k = p.fresh_k + fresh + shared_head * p.e4;
    let fresh_v = p.fresh_v + fresh + shared_head * p.v4;
    let angles = batch * p.angle_b;
    let named = place_in[p.place_o];
    let place = checked(named.x, named.y, p.s, p.site);
{% else %}
    let q_at = p.q_o + batch * p.q_b + head * p.q_h;
{% endif %}
    let k_at = p.k_o + batch * p.k_b + shared_head * p.k_h;
    let v_at = p.v_o + batch * p.v_b + shared_head * p.v_h;
{% if mask %}
    let mask_at = p.mask_o + batch * p.mask_b + head * p.mask_h;
{% endif %}
    var top = LOWEST;
    // {{ team }} threads have {{ keys_ahead }} keys at a time, and those next to each other read what lies side by side.
    let c = lid % {{ team }}u;
{% for u in range(quads) %}
    let at{{ u }} = min(c + {{ u * team }}u, p.e4 - 1u);
{% endfor %}
    let e = min(lid % {{ lanes }}u, p.v4 - 1u);
{% for a in range(keys_ahead) %}
{% for u in range(quads) %}
    var k{{ a }}_{{ u }}: {{ vector }};
{% endfor %}
{% endfor %}
{% for u in range(ahead) %}
    var v{{ u }}: {{ vector }};
{% endfor %}
{% if cached %}
    // What the first threads turn is on its way before all else.
    let half = p.e4 / 2u;
    let quad = lid % p.e4;
    let row = select(p.fresh_q + fresh + head * p.e4, fresh_k, lid >= p.e4);
{% for name in ("x", "y", "cosine", "sine") %}
    var {{ name }}: {{ vector }};
{% endfor %}
    if (lid < 2u * p.e4) {
        x = fresh_in[row + quad];
        y = fresh_in[row + select(quad - half, quad + half, quad < half)];
        cosine = cos_in[p.cos_o + angles + quad];
        sine = sin_in[p.sin_o + angles + quad];
    }
{% endif %}
    var first = lid / {{ team }}u * {{ keys_ahead }}u;
    {
{{ fetch_keys() }}
{{ fetch("lid / %du" % lanes) }}
    }
{% if cached %}
    if (lid < 2u * p.e4) {
        let other = {{ widened("y") }};
        rows[lid] = turned({{ widened("x") }}, select(other, -other, quad < half), {{ widened("cosine") }}, {{ widened("sine") }});
    }
    workgroupBarrier();
{% endif %}
{% for u in range(quads) %}
    let q{{ u }} = select(vec4<f32>(0.0), {{ "rows[at%d]" % u if cached else widened("q_in[q_at + at%d]" % u) }}, c + {{ u * team }}u < p.e4);
{% endfor %}
{% if cached %}
    var own = {% for u in range(quads) %}{{ " + " if u }}dot(q{{ u }}, select(vec4<f32>(0.0), rows[p.e4 + at{{ u }}], c + {{ u * team }}u < p.e4)){% endfor %};
{% for mask in team_masks %}
    own += subgroupShuffleXor(own, {{ mask }}u);
{% endfor %}
{% endif %}
    for (var base = 0u; base < p.s; base += {{ threads // team * keys_ahead }}u) {
{% for a in range(keys_ahead) %}
        var sum{{ a }} = {% for u in range(quads) %}{{ " + " if u }}dot(q{{ u }}, {{ part("k%d_%d" % (a, u), u) }}){% endfor %};
{% endfor %}
{# With every step a thread keeps half of the sums and gives the others away, until it has one key's or they are whole. #}
{% set left = namespace(n=keys_ahead) %}
{% for mask in team_masks %}
{% if left.n > 1 %}
{% set left.n = left.n // 2 %}
        {
            let upper = (c & {{ mask }}u) != 0u;
{% for a in range(left.n) %}
            sum{{ a }} = select(sum{{ a }}, sum{{ a + left.n }}, upper) + subgroupShuffleXor(select(sum{{ a + left.n }}, sum{{ a }}, upper), {{ mask }}u);
{% endfor %}
        }
{% else %}
        sum0 += subgroupShuffleXor(sum0, {{ mask }}u);
{% endif %}
{% endfor %}
{% for a in range(left.n) %}
        {
{% if left.n > 1 %}
            let key = first + c * {{ left.n }}u + {{ a }}u;
            let mine = key < p.s;
{% else %}
            let key = first + c / {{ team // keys_ahead }}u;
            let mine = key < p.s{{ " && c %% %du == 0u" % (team // keys_ahead) if team > keys_ahead }};
{% endif %}
            let s = score({{ "select(sum%d, own, key == place)" % a if cached else "sum%d" % a }} * p.factor, 0u, key{{ ", mask_at" if mask }});
            if (mine) {
                scores[key] = s;
            }
            top = max(top, s);
        }
{% endfor %}
        first += {{ threads // team * keys_ahead }}u;
        if (base + {{ threads // team * keys_ahead }}u < p.s) {
{{ fetch_keys() }}
        }
    }
{% for mask in masks %}
    top = max(top, subgroupShuffleXor(top, {{ mask }}u));
{% endfor %}
    if (lid % {{ wide }}u == 0u) {
        tops[lid / {{ wide }}u] = top;
    }
    workgroupBarrier();
{% for i in range(threads // wide) %}
    top = max(top, tops[{{ i }}u]);
{% endfor %}
    var total = 0.0;
    for (var key = lid; key < p.s; key += {{ threads }}u) {
        let w = exp2(scores[key] - top);
        scores[key] = w;
        total += w;
    }
{% for mask in masks %}
    total += subgroupShuffleXor(total, {{ mask }}u);
{% endfor %}
    if (lid % {{ wide }}u == 0u) {
        totals[lid / {{ wide }}u] = total;
    }
    workgroupBarrier();
    var acc = vec4<f32>(0.0);
    for (var first = lid / {{ lanes }}u; first < p.s; first += {{ stride }}u) {
{% for u in range(ahead) %}
        {
            // Nothing of a key that is not there: its value may be infinite.
            let key = first + {{ u * slices }}u;
            let inside = key < p.s{{ " && key != place" if cached }};
            let w = select(0.0, scores[min(key, p.s - 1u)], inside);
            acc = fma(vec4<f32>(w), select(vec4<f32>(0.0), {{ widened("v%d" % u) }}, inside), acc);
        }
{% endfor %}
        if (first + {{ stride }}u < p.s) {
{{ fetch("first + %du" % stride) }}
        }
    }
{% if cached %}
    if (lid < {{ lanes }}u) {
        acc = fma(vec4<f32>(scores[place]), {{ widened("fresh_in[fresh_v + e]") }}, acc);
    }
    if (head % p.ratio == 0u && !bad) {
        if (lid < p.e4) {
            let k = rows[p.e4 + lid];
            let at = k_at + place * p.k_r + lid;
            {{ write_key }}
        }
        if (lid < p.v4) {
            v_in[v_at + place * p.v_r + lid] = fresh_in[fresh_v + lid];
        }
    }
{% endif %}
{% for mask in masks if mask >= lanes %}
    acc += subgroupShuffleXor(acc, {{ mask }}u);
{% endfor %}
{% if lanes < wide %}
    if (lid % {{ wide }}u < {{ lanes }}u) {
        sums[lid / {{ wide }}u * {{ lanes }}u + lid % {{ wide }}u] = acc;
    }
{% else %}
    sums[lid] = acc;
{% endif %}
    workgroupBarrier();
    if (lid >= p.v4) {
        return;
    }
{% for i in range(1, threads // met) %}
    acc += sums[lid + {{ i * lanes }}u];
{% endfor %}
    total = 0.0;
{% for i in range(threads // wide) %}
    total += totals[{{ i }}u];
{% endfor %}
    // A row that may attend to nothing is zero, and its weights stay zero in the backward pass.
    {{ "var" if after else "let" }} r = acc * select(1.0 / total, 0.0, total == 0.0);
{% if not cached %}
    if (lid == 0u) {
        stats[group] = select(top + log2(total), -NEVER, total == 0.0);
    }
{% endif %}
{% if after %}
{% for x in "xyzw" %}
    r.{{ x }} = epilogue(r.{{ x }}, 0u, lid * 4u + {{ loop.index0 }}u, batch, head);
{% endfor %}
{% endif %}
    let to = batch * p.out_b + head * p.out_h + lid;
    {{ write4 }}
}
