{% include "text/interface.wgsl" %}

@compute @workgroup_size(1)
fn main() {
    out[0] = p.key_x;
    out[1] = p.key_y;
    out[2] = p.at_x;
    out[3] = p.at_y;
}
