{# Rows of activations in digits of eight bits, in workgroup memory: {{ held }} pieces of each row at a time. #}
var<workgroup> digits: array<vec4<u32>, {{ rows * digits * 2 * held }}>;
// What the numbers of a piece are times.
var<workgroup> levels: array<f32, {{ rows * held }}>;
{% if summed_up %}
// The sums of the numbers of its halves.
var<workgroup> halves: array<f32, {{ rows * 2 * held }}>;
{% endif %}

// Half of the 32 elements from `at` on, in fours, becomes whole numbers, the largest of all {{ limit }}; the neighbouring
// thread has the other half. Where an infinity is among them, it is one and the others are zero, times infinity; and
// all is times NaN where there is one.
fn quantise(at: u32, row: u32, piece: u32, half: u32, wanted: bool{{ ", r: f32, k: u32" if before }}) {
{% for g in range(4) %}
    var v{{ g }} = {{ read4("a", "at + half * 4u + %du" % g) }};
{% if before %}
{% if norm %}
    let w{{ g }} = {{ read4("w", "p.w_o + k + half * 4u + %du" % g) }};
{% endif %}
    v{{ g }} = vec4<f32>({% for c in "xyzw" %}before(v{{ g }}.{{ c }}, r{{ ", w%d.%s" % (g, c) if norm }}){{ ", " if not loop.last }}{% endfor %});
{% endif %}
    let top{{ g }} = bitcast<vec4<u32>>(v{{ g }}) & vec4<u32>(0x7fffffffu);
{% endfor %}
    let top = max(max(top0, top1), max(top2, top3));
    var most = max(max(top.x, top.y), max(max(top.z, top.w), 1u));
    most = max(most, subgroupShuffleXor(most, 1u));
    if (!wanted) {
        return;
    }
    let size = max(bitcast<f32>(min(most, 0x7f7fffffu)), 1.0e-30);
    var level = size * {{ 1.0 / limit }};
    var inverse = {{ limit }}.0 / size;
    if (most >= 0x7f800000u) {
{% for g in range(4) %}
        v{{ g }} = select(vec4<f32>(0.0), select(vec4<f32>(-1.0), vec4<f32>(1.0), v{{ g }} > vec4<f32>(0.0)), (bitcast<vec4<u32>>(v{{ g }}) & vec4<u32>(0x7fffffffu)) >= vec4<u32>(0x7f800000u));
{% endfor %}
        level = bitcast<f32>(most);
        inverse = 1.0;
    }
{# In a float of 2^23 and a half, whole numbers stand in the lowest bits. With two digits 128 more is added: the lower digit
   is then eight bits with the highest turned over, and the upper one the next eight. #}
{% for g in range(4) %}
    let q{{ g }} = bitcast<vec4<u32>>(fma(v{{ g }}, vec4<f32>(inverse), vec4<f32>({{ 12582912 + (128 if digits == 2 else 0) }}.0)));
{% endfor %}
{% for g in range(2) %}
{# Words of the even and of the odd elements of eight, or of the first and of the last four: so are the codes. #}
{% set a, b = "q%d" % (2 * g), "q%d" % (2 * g + 1) %}
{% if f.words == 8 %}
    let p{{ g }} = (vec2<u32>({{ a }}.x, {{ b }}.x) & vec2<u32>(0xffffu)) | (vec2<u32>({{ a }}.z, {{ b }}.z) << vec2<u32>(16u));
    let r{{ g }} = (vec2<u32>({{ a }}.y, {{ b }}.y) & vec2<u32>(0xffffu)) | (vec2<u32>({{ a }}.w, {{ b }}.w) << vec2<u32>(16u));
{% else %}
    let p{{ g }} = ({{ a }}.xy & vec2<u32>(0xffffu)) | ({{ b }}.xy << vec2<u32>(16u));
    let r{{ g }} = ({{ a }}.zw & vec2<u32>(0xffffu)) | ({{ b }}.zw << vec2<u32>(16u));
{% endif %}
    let d0_{{ g }} = ((p{{ g }} & vec2<u32>(0xff00ffu)) | ((r{{ g }} & vec2<u32>(0xff00ffu)) << vec2<u32>(8u))){{ " ^ vec2<u32>(0x80808080u)" if digits == 2 }};
{% if digits == 2 %}
    let d1_{{ g }} = ((p{{ g }} >> vec2<u32>(8u)) & vec2<u32>(0xff00ffu)) | (r{{ g }} & vec2<u32>(0xff00ff00u));
{% endif %}
{% endfor %}
{% for d in range(digits) %}
    digits[(row * {{ digits * 2 }}u + {{ d * 2 }}u + half) * {{ held }}u + piece] = vec4<u32>(d{{ d }}_0, d{{ d }}_1);
{% endfor %}
{% if summed_up %}
    var sum = 0;
{% for d in range(digits - 1, -1, -1) %}
    sum = sum * 256{% for g in range(2) %} + dot4I8Packed(d{{ d }}_{{ g }}.x, 0x01010101u) + dot4I8Packed(d{{ d }}_{{ g }}.y, 0x01010101u){% endfor %};
{% endfor %}
    halves[(row * 2u + half) * {{ held }}u + piece] = f32(sum);
{% endif %}
    if (half == 0u) {
        levels[row * {{ held }}u + piece] = level;
    }
}
