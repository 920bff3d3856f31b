// `lengths` has, for each sequence: steps, labels, and where its labels begin.
{% include "text/interface.wgsl" %}

fn infinity() -> f32 {
    return f32_inf();
}

// What is subtracted before exponentials. Beside a finite number: compilers of Metal take it that nothing is infinite,
// and one of NVIDIA's finds no infinity in the bits of a largest f64.
fn base_of(top: f32) -> f32 {
    return select(top, 0.0, top < {{ lowest }});
}

// log(exp(a) + exp(b)), where both may be minus infinity.
fn join(a: f32, b: f32) -> f32 {
    let top = max(a, b);
    let safe = base_of(top);
    return safe + f32_log(f32_exp(a - safe) + f32_exp(b - safe));
}

// The class of a state: a blank before, between and after the labels. No label leads outside of the row of classes.
fn class_of(b: u32, s: u32) -> u32 {
    if (s % 2u == 0u) {
        return p.blank;
    }
    return min(u32(labels[lengths[2u * p.batch + b] + s / 2u]), p.classes - 1u);
}

{% if kind in ("alpha", "beta") %}
// One sequence a workgroup, its states spread over the threads, one time step after the other.
@compute @workgroup_size({{ workgroup }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let number = group.x + group.y * nwg.x;
    let b = min(number, p.batch - 1u);
    let own = number < p.batch;
    let length = lengths[b];
    let count = 2u * lengths[p.batch + b] + 1u;
    let base = b * p.steps * p.states;
    for (var k = p.first; k < p.last; k++) {
{% if kind == "alpha" %}
        let t = k;
        let before = base + (max(t, 1u) - 1u) * p.states;
        let start = t == 0u;
{% else %}
        let t = p.steps - 1u - k;
        let before = base + min(t + 1u, p.steps - 1u) * p.states;
        let start = t + 1u == length;
{% endif %}
        for (var s = lane; own && s < p.states; s += {{ workgroup }}u) {
            var value = -infinity();
            if (t < length && s < count) {
                let c = class_of(b, s);
{% if kind == "alpha" %}
                let opens = s < 2u;
                let two = s >= 1u;
                let three = s >= 2u && class_of(b, max(s, 2u) - 2u) != c;
                let next = before + max(s, 1u) - 1u;
                let over = before + max(s, 2u) - 2u;
{% else %}
                let opens = s + 2u >= count;
                let two = s + 1u < count;
                let three = s + 2u < count && class_of(b, min(s + 2u, count - 1u)) != c;
                let next = before + min(s + 1u, count - 1u);
                let over = before + min(s + 2u, count - 1u);
{% endif %}
                if (start) {
                    value = select(-infinity(), 0.0, opens);
                } else {
                    let a1 = out[before + s];
                    let a2 = select(-infinity(), out[next], two);
                    let a3 = select(-infinity(), out[over], three);
                    let top = max(a1, max(a2, a3));
                    let safe = base_of(top);
                    value = safe + f32_log(f32_exp(a1 - safe) + f32_exp(a2 - safe) + f32_exp(a3 - safe));
                }
                value += x[(t * p.batch + b) * p.classes + c];
            }
            out[base + t * p.states + s] = value;
        }
        storageBarrier();
    }
}
{% else %}
@compute @workgroup_size({{ workgroup }})
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {
    let i = gid.x + gid.y * nwg.x * {{ workgroup }}u;
    if (i >= p.n) {
        return;
    }
{% if kind == "loss" %}
    // x holds alpha here: the last step's last two states.
    let count = 2u * lengths[p.batch + i] + 1u;
    if (lengths[i] == 0u) {
        out[i] = select(infinity(), -0.0, count == 1u);
        return;
    }
    let row = (i * p.steps + lengths[i] - 1u) * p.states + count - 1u;
    out[i] = -join(x[row], select(-infinity(), x[max(row, 1u) - 1u], count > 1u));
{% elif kind == "gather" %}
    // One step of one sequence: alpha + beta of the states of each class, summed. Rows of out begin as minus infinity.
    let t = i / p.batch;
    let b = i % p.batch;
    if (t >= lengths[b]) {
        return;
    }
    let row = i * p.classes;
    let from_ = (b * p.steps + t) * p.states;
    let count = 2u * lengths[p.batch + b] + 1u;
    var blanks = out[row + p.blank];
    for (var s = 0u; s < count; s++) {
        let value = alpha[from_ + s] + beta[from_ + s];
        let c = class_of(b, s);
        if (c == p.blank) {
            blanks = join(blanks, value);
        } else {
            out[row + c] = join(out[row + c], value);
        }
    }
    out[row + p.blank] = blanks;
{% else %}
    let b = i / p.classes % p.batch;
    let t = i / (p.classes * p.batch);
    let whole = loss[b];
    if (t >= lengths[b] || (p.zero_infinity == 1u && f32_isinf(whole) && !f32_signbit(whole))) {
        out[i] = 0.0;
    } else {
        out[i] = (f32_exp(x[i]) - f32_exp(out[i] + whole - x[i])) * grad[b];
    }
{% endif %}
}
{% endif %}
