{# The largest of `part` and its `place` come to be the first. #}
    workgroupBarrier();
    for (var s = TEAM / 2u; s > 0u; s = s / 2u) {
        if (t < s) {
            let other = part[t + s];
            // The first of equals, as LAPACK has it.
            if (other > part[t] || (other == part[t] && place[t + s] < place[t])) {
                part[t] = other;
                place[t] = place[t + s];
            }
        }
        workgroupBarrier();
    }
