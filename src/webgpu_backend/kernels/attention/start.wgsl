{# The start of a workgroup, and the thread's place in its tile. #}
@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let group = wid.x + wid.y * nwg.x;
    if (group >= p.blocks * p.sequences) {
        return;
    }
{% if lanes %}
    // Threads next to each other share a row and those two apart a column: a GPU then reads either in half the time.
    let tx = (lid & 1u) | ((lid >> 1u) & {{ TX - 2 }}u);
    let ty = ((lid >> 1u) & 1u) | ((lid / {{ 2 * TX }}u) << 1u);
{% else %}
    let tx = lid % {{ TX }}u;
    let ty = lid / {{ TX }}u;
{% endif %}
