// What the first thread says, for branches that all must take: browsers refuse those by what was read from storage.
var<workgroup> told: u32;

fn agreed(t: u32, value: u32) -> u32 {
    if (t == 0u) {
        told = value;
    }
    return workgroupUniformLoad(&told);
}

var<workgroup> told_element: E;

fn agreed_element(t: u32, value: E) -> E {
    if (t == 0u) {
        told_element = value;
    }
    return workgroupUniformLoad(&told_element);
}
