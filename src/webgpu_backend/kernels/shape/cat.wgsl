struct P {
    n: u32,
    total: u32,
    to: u32,
{% for k in range(count) %}
    start{{ k }}: u32,
    length{{ k }}: u32,
    offset{{ k }}: u32,
{% if strided %}
    n0_{{ k }}: u32,
    s0_{{ k }}: u32,
    n1_{{ k }}: u32,
    s1_{{ k }}: u32,
    s2_{{ k }}: u32,
{% endif %}
{% endfor %}
}
{% for k in range(count) %}
@group(0) @binding({{ k }}) var<storage, read> b_{{ k }}: {{ kind }};
{% endfor %}
@group(0) @binding({{ count }}) var<storage, read_write> b_out: {{ out }};

{% macro choose() %}
{% for lines in inputs %}
{% set k = loop.index0 %}
    {{ "" if loop.first else "else " }}{% if not loop.last %}if (column < p.start{{ k }} + p.length{{ k }}) {% endif %}{
{% if strided %}
        let upper = row / p.n0_{{ k }};
        let line = row % p.n0_{{ k }} * p.s0_{{ k }} + upper % p.n1_{{ k }} * p.s1_{{ k }} + upper / p.n1_{{ k }} * p.s2_{{ k }};
{% else %}
        let line = row * p.length{{ k }};
{% endif %}
        let at = p.offset{{ k }} + line + column - p.start{{ k }};
{% for line in lines %}
        {{ line }}
{% endfor %}
    }
{% endfor %}
{% endmacro %}
{% if not vector %}
fn element(i: u32) -> {{ carrier }} {
    let row = i / p.total;
    let column = i % p.total;
{{ choose() }}
}

{% endif %}
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let thread = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    for (var u = 0u; u < {{ groups }}u; u++) {
        let g = thread * {{ groups }}u + u;
        if (g >= (p.n + 3u) / 4u) {
            return;
        }
{% if vector %}
        let row = (g * 4u) / p.total;
        let column = (g * 4u) % p.total;
{{ choose() }}
{% else %}
{% for lane in range(4) %}
        let v{{ lane }} = element(min(g * 4u + {{ lane }}u, p.n - 1u));
{% endfor %}
{% for line in store %}
        {{ line }}
{% endfor %}
{% endif %}
    }
}
