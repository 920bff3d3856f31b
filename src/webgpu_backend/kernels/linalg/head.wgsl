{% include "text/interface.wgsl" %}

alias E = {{ element }};
{% if complex %}
fn mul(x: E, y: E) -> E { return vec2<f32>(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x); }
fn over(x: E, y: E) -> E { return c64_div(x, y); }
fn cj(x: E) -> E { return vec2<f32>(x.x, -x.y); }
fn re(x: E) -> f32 { return x.x; }
fn im(x: E) -> f32 { return x.y; }
fn real(x: f32) -> E { return vec2<f32>(x, 0.0); }
fn square(x: E) -> f32 { return dot(x, x); }
// What LAPACK compares when it looks for a pivot.
fn size(x: E) -> f32 { return abs(x.x) + abs(x.y); }
fn is_zero(x: E) -> bool { return x.x == 0.0 && x.y == 0.0; }
{% else %}
fn mul(x: E, y: E) -> E { return x * y; }
fn over(x: E, y: E) -> E { return x / y; }
fn cj(x: E) -> E { return x; }
fn re(x: E) -> f32 { return x; }
fn im(x: E) -> f32 { return 0.0; }
fn real(x: f32) -> E { return x; }
fn square(x: E) -> f32 { return x * x; }
fn size(x: E) -> f32 { return abs(x); }
fn is_zero(x: E) -> bool { return x == 0.0; }
{% endif %}
fn conj_if(x: E, flag: u32) -> E { return select(x, cj(x), flag != 0u); }
