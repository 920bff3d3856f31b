"""Activations and their gradients."""

import torch

from ... import tensor as T
from ..table import autocast, binary, choose, custom, expression, ternary, unary
from .bounds import BY_MEANING, bounds, ordered
from .elementwise import _scalar_name, runner


def _check_lambda(inputs, scalars):
    dtype, (lambd,) = inputs[0].dtype, scalars
    if dtype.is_floating_point and not 0 <= lambd <= torch.finfo(dtype).max:
        raise RuntimeError(
            f"lambda must be in range [0, {torch.finfo(dtype).max:g}] for input dtype {_scalar_name(dtype)}, but found "
            f"{lambd:g}"
        )


def _check_limits(inputs, scalars):
    if inputs[0].dtype is torch.uint8 and min(scalars) < 0 and not BY_MEANING:
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")


unary("sigmoid", "sigmoid(a)", promote="int_to_float")
binary("sigmoid_backward", "a * conj((1 - b) * b)")
binary("tanh_backward", "a * conj(1 - b * b)")

# Not where(a <= 0, 0, a): one GPU compiler makes max(a, 0) of that, which drops NaN.
unary("relu", "max(a, 0)", admit=ordered())
unary("threshold", "where(a <= threshold, value, a)", scalars=("threshold", "value"), checked=True)
binary("threshold_backward", "where(b <= threshold, 0, a)", scalars=("threshold",))
unary("hardtanh", "where(isnan(a), a, min(max(a, min_val), max_val))", scalars=("min_val", "max_val"), checked=True,
      bounds=bounds(min_val="min", max_val="max"), check=_check_limits, admit=ordered())  # fmt: skip
binary("hardtanh_backward", "where(b <= min_val or b >= max_val, 0, a)", scalars=("min_val", "max_val"))
unary("hardsigmoid", "where(isnan(a), a, min(max(a + 3, 0), 6) / 6)")
binary("hardsigmoid_backward", "where(b > -3 and b < 3, a / 6, 0)")
unary("hardswish", "a * min(max(a + 3, 0), 6) / 6")
binary("hardswish_backward", "where(b <= -3, 0, where(b >= 3, a, a * (b / 3 + 0.5)))")
unary("hardshrink", "where(a >= -lambd and a <= lambd, 0, a)", scalars=("lambd",))
binary("hardshrink_backward", "where(b >= -lambd and b <= lambd, 0, a)", scalars=("lambd",))
unary("softshrink", "where(a > lambd, a - lambd, where(a < -lambd, a + lambd, where(isnan(a), a, 0)))",
      scalars=("lambd",), check=_check_lambda)  # fmt: skip
binary("softshrink_backward", "where(b >= -lambd and b <= lambd, 0, a)", scalars=("lambd",))

unary("silu", "a * sigmoid(a)")
binary("silu_backward", "s = sigmoid(b)\na * conj(s * (1 + b * (1 - s)))")
# tanh(softplus(x)) as a quotient of powers of w = exp(-|x|): no cancellation, and one exponential.
_TANH_SOFTPLUS = (
    "w = exp(-abs({0}))\nu = w * (w + 2)\nv = 1 + 2 * w\nt = where({0} > 0, v / (v + 2 * w * w), u / (u + 2))\n"
)
unary("mish", _TANH_SOFTPLUS.format("a") + "a * t")
binary("mish_backward", _TANH_SOFTPLUS.format("b") + "a * (t + b * sigmoid(b) * (1 - t * t))")
unary(
    "softplus",
    "z = a * beta\nwhere(z > threshold, a, softplus(z) / beta)",
    scalars=("beta", "threshold"),
    autocast="float32",
)
binary("softplus_backward", "z = b * beta\nwhere(z > threshold, a, a * sigmoid(z))", scalars=("beta", "threshold"))

unary("leaky_relu", "where(a > 0, a, a * negative_slope)", scalars=("negative_slope",))
_LEAKY_RELU_BACKWARD = expression("leaky_relu_backward", "where(b > 0, a, a * slope)", 2, scalars=("slope",))


@choose("leaky_relu_backward")
def leaky_relu_backward(grad_output, self, negative_slope, self_is_result):
    if self_is_result and negative_slope < 0:
        raise RuntimeError(
            "In-place leakyReLu backward calculation is triggered with a negative slope which is not supported. This "
            "is caused by calling in-place forward function with a negative slope, please call out-of-place version "
            "instead."
        )
    return _LEAKY_RELU_BACKWARD, (grad_output, self), (negative_slope,)


_ELU_SCALARS = ("alpha", "scale", "input_scale")
unary("elu", "where(a <= 0, expm1(a * input_scale) * (alpha * scale), a * scale)", scalars=_ELU_SCALARS)
_ELU_BACKWARD = expression(
    "elu_backward",
    "where(b <= 0, a * input_scale * (alpha * scale) * exp(b * input_scale), a * scale)",
    2,
    scalars=_ELU_SCALARS,
)
_ELU_BACKWARD_RESULT = expression(
    "elu_backward_result", "where(b <= 0, a * input_scale * (b + alpha * scale), a * scale)", 2, scalars=_ELU_SCALARS
)


@choose("elu_backward")
def elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    if is_result and alpha < 0:
        raise RuntimeError(
            "In-place elu backward calculation is triggered with a negative slope which is not supported. This is "
            "caused by calling in-place forward function with a negative slope, please call out-of-place version "
            "instead."
        )
    entry = _ELU_BACKWARD_RESULT if is_result else _ELU_BACKWARD
    return entry, (grad_output, self_or_result), (alpha, scale, input_scale)


_GELU = {"none": expression("gelu", "gelu(a)"), "tanh": expression("gelu_tanh", "gelu_tanh(a)")}
_GELU_BACKWARD = {
    "none": expression("gelu_backward", "a * gelu_slope(b)", 2),
    "tanh": expression(
        "gelu_tanh_backward",
        "t = tanh(0.7978845608028654 * (b + 0.044715 * b * b * b))\n"
        "d = 0.7978845608028654 * (1 + 0.134145 * b * b)\n"
        "a * (0.5 * (1 + t) + 0.5 * b * (1 - t * t) * d)",
        2,
    ),
}


# A third of the instructions: in float32 these kernels wait for memory, with half the bytes they wait for arithmetic.
_GELU_HALF = expression("gelu_half", "gelu_half(a)")
_GELU_BACKWARD_HALF = expression("gelu_half_backward", "a * gelu_half_slope(b)", 2)
_HALVES = (torch.float16, torch.bfloat16)


def _approximation(entries, approximate):
    if approximate not in entries:
        raise RuntimeError("approximate argument must be either none or tanh.")
    return entries[approximate]


@choose("gelu")
def gelu(self, approximate="none"):
    if approximate == "none" and self.dtype in _HALVES:
        return _GELU_HALF, (self,), ()
    return _approximation(_GELU, approximate), (self,), ()


@choose("gelu_backward")
def gelu_backward(grad_output, self, approximate="none"):
    if approximate == "none" and self.dtype in _HALVES and grad_output.dtype == self.dtype:
        return _GELU_BACKWARD_HALF, (grad_output, self), ()
    return _approximation(_GELU_BACKWARD, approximate), (grad_output, self), ()


_LOG_SIGMOID = expression("log_sigmoid", "min(a, 0) - log1p(exp(-abs(a)))")
_LOG_SIGMOID_BACKWARD = expression("log_sigmoid_backward", "a * sigmoid(-b)", 2)


@custom("log_sigmoid_forward")
def log_sigmoid_forward(self):
    """The buffer is for the CPU's backward alone. torch's rule for batches takes it for one of the input's shape: here
    it is one element, expanded."""
    return runner(_LOG_SIGMOID)(self), T.empty((), self.dtype).expand(self.shape)


@choose("log_sigmoid_backward")
def log_sigmoid_backward(grad_output, self, buffer):
    return _LOG_SIGMOID_BACKWARD, (grad_output, self), ()


# parametrised slopes
binary("_prelu_kernel", "where(a > 0, a, b * a)")
ternary(
    "_prelu_kernel_backward",
    "out0 = where(b > 0, a, c * a)\nout1 = where(b > 0, 0, b * a)",
    outputs=("T", "T"),
)

# gated
_GLU = expression("glu", "a * sigmoid(b)", 2)
_GLU_VALUE_BACKWARD = expression("glu_value_backward", "a * sigmoid(b)", 2)
_GLU_GATE_BACKWARD = expression("glu_gate_backward", "s = sigmoid(c)\na * b * s * (1 - s)", 3)


def _halves(tensor, dim):
    if not tensor.dim():
        raise RuntimeError("glu does not support 0-dimensional tensors")
    if not -tensor.dim() <= dim < tensor.dim():
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-tensor.dim()}, {tensor.dim() - 1}], but got {dim})"
        )
    size = tensor.size(dim)
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim % tensor.dim()} is size {size}")
    return tensor.narrow(dim, 0, size // 2), tensor.narrow(dim, size // 2, size // 2)


@custom("glu")
def glu(self, dim=-1):
    return runner(_GLU)(*_halves(self, dim))


@custom("glu_backward")
def glu_backward(grad_output, self, dim):
    value, gate = _halves(self, dim)
    result = T.empty(self.shape, self.dtype)
    for_value, for_gate = _halves(result, dim)
    runner(_GLU_VALUE_BACKWARD).into((grad_output, gate), (for_value,))
    runner(_GLU_GATE_BACKWARD).into((grad_output, value, gate), (for_gate,))
    return result


autocast("lower", "prelu")
