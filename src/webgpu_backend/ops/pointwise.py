"""Elementwise operators, one line each. Expressions are Python syntax over a, b, c and the schema's scalar names."""

from .table import binary, ternary, unary

F = "int_to_float"
B = "always_bool"

# arithmetic
binary("add", "a + b * alpha", scalars=("alpha",))
binary("sub", "a - b * alpha", scalars=("alpha",))
binary("rsub", "b - a * alpha", scalars=("alpha",))
binary("mul", "a * b")
binary("div", "a / b", promote=F)
binary("remainder", "a % b")
binary("fmod", "fmod(a, b)")
binary("floor_divide", "a // b")
binary("pow", "a ** b")
binary("atan2", "atan2(a, b)", promote=F)
binary("maximum", "max(a, b)")
binary("minimum", "min(a, b)")
binary("fmax", "fmax(a, b)")
binary("fmin", "fmin(a, b)")
binary("hypot", "hypot(a, b)")
binary("copysign", "copysign(a, b)", promote=F)
binary("nextafter", "nextafter(a, b)")
binary("logaddexp", "logaddexp(a, b)")
binary("logaddexp2", "logaddexp2(a, b)")
binary("xlogy", "xlogy(a, b)", promote=F)
binary("heaviside", "where(a == 0, b, where(a < 0, 0, 1))")
binary("gcd", "gcd(a, b)")
binary("lcm", "lcm(a, b)")

# comparison
binary("eq", "a == b", promote=B)
binary("ne", "a != b", promote=B)
binary("lt", "a < b", promote=B)
binary("le", "a <= b", promote=B)
binary("gt", "a > b", promote=B)
binary("ge", "a >= b", promote=B)
binary("logical_and", "bool(a) and bool(b)", promote=B)
binary("logical_or", "bool(a) or bool(b)", promote=B)
binary("logical_xor", "bool(a) != bool(b)", promote=B)
unary("logical_not", "not bool(a)", promote=B)

# bits
binary("bitwise_and", "a & b")
binary("bitwise_or", "a | b")
binary("bitwise_xor", "a ^ b")
binary("bitwise_left_shift", "a << b")
binary("bitwise_right_shift", "a >> b")
binary("__lshift__", "a << b")
binary("__rshift__", "a >> b")
unary("bitwise_not", "~a")

# signs and rounding
unary("neg", "-a")
unary("abs", "abs(a)", promote="complex_to_float")
unary("sign", "sign(a)")
unary("sgn", "sgn(a)")
unary("signbit", "signbit(a)", promote=B)
unary("floor", "floor(a)")
unary("ceil", "ceil(a)")
unary("trunc", "trunc(a)")
unary("round", "round(a)")
unary("frac", "frac(a)")
unary("isnan", "isnan(a)", promote=B)
unary("reciprocal", "1 / a", promote=F)

# exponentials and logarithms
unary("exp", "exp(a)", promote=F)
unary("exp2", "exp2(a)", promote=F)
unary("expm1", "expm1(a)", promote=F)
unary("log", "log(a)", promote=F)
unary("log2", "log2(a)", promote=F)
unary("log10", "log10(a)", promote=F)
unary("log1p", "log1p(a)", promote=F)
unary("sqrt", "sqrt(a)", promote=F)
unary("rsqrt", "rsqrt(a)", promote=F)

# trigonometry
for _name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"):
    unary(_name, f"{_name}(a)", promote=F)

# special functions
for _name in ("erf", "erfc", "erfinv", "lgamma", "digamma", "sinc", "sigmoid", "i0"):
    unary(_name, f"{_name}(a)", promote=F)

# activations and their gradients
unary("relu", "where(a <= 0, 0, a)")
unary("silu", "a * sigmoid(a)")
unary("mish", "a * tanh(where(a > 20, a, log1p(exp(a))))")
unary("hardsigmoid", "where(isnan(a), a, min(max(a + 3, 0), 6) / 6)")
unary("hardswish", "a * min(max(a + 3, 0), 6) / 6")
unary("leaky_relu", "where(a > 0, a, a * negative_slope)", scalars=("negative_slope",))
unary("elu", "where(a <= 0, expm1(a * input_scale) * alpha * scale, a * scale)",
      scalars=("alpha", "scale", "input_scale"))  # fmt: skip
unary("softplus", "where(a * beta > threshold, a, log1p(exp(a * beta)) / beta)", scalars=("beta", "threshold"))
unary("threshold", "where(a <= threshold, value, a)", scalars=("threshold", "value"))
unary("hardtanh", "where(isnan(a), a, min(max(a, min_val), max_val))", scalars=("min_val", "max_val"))
unary("softshrink", "where(a > lambd, a - lambd, where(a < -lambd, a + lambd, a * 0))", scalars=("lambd",))
unary("hardshrink", "where(a > lambd, a, where(a < -lambd, a, where(isnan(a), a, 0)))", scalars=("lambd",))
unary("logit", "logit(a, eps)", scalars=("eps",), promote=F)
binary("threshold_backward", "where(b <= threshold, 0, a)", scalars=("threshold",))
binary("sigmoid_backward", "a * (1 - b) * b")
binary("tanh_backward", "a * (1 - b * b)")
binary("silu_backward", "s = sigmoid(b)\na * s * (1 + b * (1 - s))")
binary("softplus_backward", "z = exp(b * beta)\nwhere(b * beta > threshold, a, a * z / (z + 1))",
       scalars=("beta", "threshold"))  # fmt: skip
binary("leaky_relu_backward", "where(b > 0, a, a * negative_slope)", scalars=("negative_slope",))
binary("hardtanh_backward", "where(b <= min_val, 0, where(b >= max_val, 0, a))", scalars=("min_val", "max_val"))
binary("hardsigmoid_backward", "where(b > -3, where(b < 3, a / 6, 0), 0)")
binary("hardswish_backward", "where(b < -3, 0, where(b <= 3, a * (b / 3 + 0.5), a))")

# selection and mixing
ternary("where", "where(a, b, c)", types={"a": "bool"})
ternary("addcmul", "a + b * c * value", scalars=("value",))
ternary("addcdiv", "a + b / c * value", scalars=("value",))
ternary("lerp", "where(abs(c) < 0.5, a + c * (b - a), b - (b - a) * (1 - c))")
