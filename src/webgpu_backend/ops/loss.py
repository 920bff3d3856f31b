"""Losses of two tensors: the elementwise loss and its reduction in one kernel, and the gradients."""

import torch

from ..dtypes import Unsupported
from ..kernels.pointwise import Spec as PointwiseSpec
from ..kernels.reduce import Spec
from .elementwise import Elementwise
from .reduction import Reduction
from .table import Pointwise, custom

_NONE, _MEAN = 0, 1
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


class _Loss:
    """`text` is the loss of elements a and b (and weight w), `gradient` what it passes back of a gradient g."""

    def __init__(self, name: str, text: str, gradient: str, scalar: str = "", weighted: bool = False):
        self.name = name
        scalars = (scalar,) if scalar else ()
        names = ("a", "b", "w") if weighted else ("a", "b")
        entry = Pointwise(name, PointwiseSpec(name, text, names, scalars), "default")
        self.each = Elementwise(entry)
        *lines, last = text.split("\n")
        step = "\n".join([*lines, f"acc + ({last})"])
        self.sum = Reduction(Spec(f"{name}_sum", step, "acc + o_acc", inputs=names, scalars=scalars), 0)
        self.mean = Reduction(
            Spec(f"{name}_mean", step, "acc + o_acc", finish="acc / n", inputs=names, scalars=scalars), float("nan")
        )
        back = PointwiseSpec(f"{name}_backward", gradient, ("g", *names), (*scalars, "norm"))
        self.back = Elementwise(Pointwise(f"{name}_backward", back, "default"))

    def forward(self, tensors: tuple, reduction: int, scalars: tuple = ()):
        out = torch.promote_types(tensors[0].dtype, tensors[1].dtype)
        if out not in _FLOATS:
            raise Unsupported(f"webgpu: {self.name} of {out}")
        if reduction == _NONE:
            return self.each.call(tensors, scalars)
        wide = torch.broadcast_tensors(*tensors)
        compute = torch.float64 if out == torch.float64 else torch.float32
        run = self.mean if reduction == _MEAN else self.sum
        return run(wide, None, False, compute, (out,), scalars)[0]

    def backward(self, grad_output, tensors: tuple, reduction: int, scalars: tuple = ()):
        n = tensors[0].numel()
        norm = 1 / n if reduction == _MEAN and n else 1.0
        return self.back.call((grad_output, *tensors), (*scalars, norm))


_MSE = _Loss("mse_loss", "d = a - b\nd * d", "2 * (a - b) * norm * g")
_SMOOTH = _Loss(
    "smooth_l1_loss",
    "z = abs(a - b)\nwhere(z < beta, 0.5 * z * z / beta, z - 0.5 * beta)",
    "x = a - b\nwhere(x <= -beta, -norm * g, where(x >= beta, norm * g, norm * x * g / beta))",
    "beta",
)
_HUBER = _Loss(
    "huber_loss",
    "z = abs(a - b)\nwhere(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta))",
    "x = a - b\nwhere(x < -delta, -norm * g * delta, where(x > delta, norm * g * delta, norm * x * g))",
    "delta",
)
_SOFT_MARGIN = _Loss(
    "soft_margin_loss", "log1p(exp(-b * a))", "z = exp(-b * a)\n-norm * b * g * where(isinf(z), 1, z / (z + 1))"
)
_ENTROPY = "(b - 1) * max(log1p(-a), -100) - b * max(log(a), -100)"
_ENTROPY_BACK = "g * (a - b) / max((1 - a) * a, 1e-12)"
_BINARY = _Loss("binary_cross_entropy", _ENTROPY, f"{_ENTROPY_BACK} * norm")
_BINARY_WEIGHTED = _Loss("binary_cross_entropy_w", f"({_ENTROPY}) * w", f"{_ENTROPY_BACK} * w * norm", weighted=True)


@custom("mse_loss")
def mse_loss(self, target, reduction=_MEAN):
    return _MSE.forward((self, target), reduction)


@custom("mse_loss_backward")
def mse_loss_backward(grad_output, self, target, reduction):
    return _MSE.backward(grad_output, (self, target), reduction)


@custom("smooth_l1_loss")
def smooth_l1_loss(self, target, reduction=_MEAN, beta=1.0):
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return _SMOOTH.forward((self, target), reduction, (beta,))


@custom("smooth_l1_loss_backward")
def smooth_l1_loss_backward(grad_output, self, target, reduction, beta):
    return _SMOOTH.backward(grad_output, (self, target), reduction, (beta,))


@custom("huber_loss")
def huber_loss(self, target, reduction=_MEAN, delta=1.0):
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    return _HUBER.forward((self, target), reduction, (delta,))


@custom("huber_loss_backward")
def huber_loss_backward(grad_output, self, target, reduction, delta):
    return _HUBER.backward(grad_output, (self, target), reduction, (delta,))


@custom("soft_margin_loss")
def soft_margin_loss(self, target, reduction=_MEAN):
    return _SOFT_MARGIN.forward((self, target), reduction)


@custom("soft_margin_loss_backward")
def soft_margin_loss_backward(grad_output, self, target, reduction):
    return _SOFT_MARGIN.backward(grad_output, (self, target), reduction)


@custom("binary_cross_entropy")
def binary_cross_entropy(self, target, weight=None, reduction=_MEAN):
    if weight is None:
        return _BINARY.forward((self, target), reduction)
    return _BINARY_WEIGHTED.forward((self, target, weight), reduction)


@custom("binary_cross_entropy_backward")
def binary_cross_entropy_backward(grad_output, self, target, weight=None, reduction=_MEAN):
    if weight is None:
        return _BINARY.backward(grad_output, (self, target), reduction)
    return _BINARY_WEIGHTED.backward(grad_output, (self, target, weight), reduction)
