// One workgroup for each matrix: its threads meet between steps, and what one wrote to storage the others then read.
const TEAM = {{ workgroup }}u;
var<workgroup> part: array<f32, TEAM>;

fn meet() {
    storageBarrier();
    workgroupBarrier();
}

fn team_sum(t: u32, value: f32) -> f32 {
    part[t] = value;
    workgroupBarrier();
    for (var s = TEAM / 2u; s > 0u; s = s / 2u) {
        if (t < s) {
            part[t] = part[t] + part[t + s];
        }
        workgroupBarrier();
    }
    return workgroupUniformLoad(&part[0]);
}

fn team_max(t: u32, value: f32) -> f32 {
    part[t] = value;
    workgroupBarrier();
    for (var s = TEAM / 2u; s > 0u; s = s / 2u) {
        if (t < s) {
            part[t] = max(part[t], part[t + s]);
        }
        workgroupBarrier();
    }
    return workgroupUniformLoad(&part[0]);
}
