{# `total`, the sum of row i. #}
        var all = vec4<f32>(0.0);
{% for g in range(TX // 4) %}
        all += row_values[(ty + {{ i * TY }}u) * {{ TX // 4 }}u + {{ g }}u];
{% endfor %}
        let total = (all.x + all.y) + (all.z + all.w);
