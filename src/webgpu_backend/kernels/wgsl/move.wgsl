struct P {
{% for field in fields %}
    {{ field }},
{% endfor %}
}
@group(0) @binding(0) var<storage, read> b_src: {{ source }};
@group(0) @binding(1) var<storage, read_write> b_out: {{ out }};

var<private> inside: bool = true;
// Columns to the right of the diagonal.
var<private> distance: i32 = 0;

fn address(element: u32) -> u32 {
    var r = element;
{% for line in address %}
    {{ line }}
{% endfor %}
}

@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let thread = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    for (var u = 0u; u < {{ groups }}u; u++) {
        let g = thread * {{ groups }}u + u;
        if (g >= (p.n + 3u) / 4u) {
            return;
        }
{% for line in main %}
        {{ line }}
{% endfor %}
    }
}
