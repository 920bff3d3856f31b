{# Group g of what `element` computes. #}
{% for lane in range(4) %}
        let v{{ lane }} = element(min(g * 4u + {{ lane }}u, p.n - 1u));
{% endfor %}
{% for line in store %}
        {{ line }}
{% endfor %}
