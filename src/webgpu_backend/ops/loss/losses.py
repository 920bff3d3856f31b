"""Losses of two tensors: the elementwise loss and its reduction in one kernel, and the gradients."""

import torch

from ...dtypes import Unsupported
from ...kernels.pointwise.elementwise import Spec as PointwiseSpec
from ...kernels.reduce.reduction import Spec
from ..pointwise.elementwise import Elementwise, _scalar_name
from ..reduce.reduction import Reduction
from ..table import Pointwise, autocast, custom

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
        out = torch.result_type(*tensors[:2])
        if not out.is_floating_point:
            raise NotImplementedError(
                f"\"{self.name.removesuffix('_loss')}_cpu\" not implemented for '{_scalar_name(out)}'"
            )
        if out not in _FLOATS:
            raise Unsupported(f"webgpu: {self.name} of {out}")
        if reduction == _NONE:
            return self.each(*tensors, *scalars)
        wide = torch.broadcast_tensors(*tensors)
        compute = torch.float64 if out == torch.float64 else torch.float32
        run = self.mean if reduction == _MEAN else self.sum
        return run(wide, None, False, compute, (out,), scalars)[0]

    def backward(self, grad_output, tensors: tuple, reduction: int, scalars: tuple = ()):
        n = tensors[0].numel()
        norm = 1 / n if reduction == _MEAN and n else 1.0
        return self.back(grad_output, *tensors, *scalars, norm)


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
_ENTROPY = "(b - 1) * max(log1p(-a), -100) - b * max(log(a), -100)"
_ENTROPY_BACK = "g * (a - b) / max((1 - a) * a, 1e-12)"
_BINARY = _Loss("binary_cross_entropy", _ENTROPY, f"{_ENTROPY_BACK} * norm")
_BINARY_WEIGHTED = _Loss("binary_cross_entropy_w", f"({_ENTROPY}) * w", f"{_ENTROPY_BACK} * w * norm", weighted=True)


@custom("mse_loss", autocast="float32")
def mse_loss(self, target, reduction=_MEAN):
    return _MSE.forward((self, target), reduction)


@custom("mse_loss_backward")
def mse_loss_backward(grad_output, self, target, reduction):
    return _MSE.backward(grad_output, (self, target), reduction)


@custom("smooth_l1_loss", autocast="float32")
def smooth_l1_loss(self, target, reduction=_MEAN, beta=1.0):
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return _SMOOTH.forward((self, target), reduction, (beta,))


@custom("smooth_l1_loss_backward")
def smooth_l1_loss_backward(grad_output, self, target, reduction, beta):
    return _SMOOTH.backward(grad_output, (self, target), reduction, (beta,))


@custom("huber_loss", autocast="float32")
def huber_loss(self, target, reduction=_MEAN, delta=1.0):
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    common = torch.result_type(self, target)
    if not torch.can_cast(common, self.dtype):
        wanted, given = _scalar_name(self.dtype), _scalar_name(common)
        raise RuntimeError(f"result type {given} can't be cast to the desired output type {wanted}")
    return _HUBER.forward((self, target), reduction, (delta,)).to(self.dtype)


@custom("huber_loss_backward")
def huber_loss_backward(grad_output, self, target, reduction, delta):
    return _HUBER.backward(grad_output, (self, target), reduction, (delta,))


def _check_entropy(self, target, weight) -> None:
    """Its operands are of one dtype, and weights give neither another one nor another shape."""
    name = _scalar_name(self.dtype)
    if target.dtype != self.dtype:
        raise RuntimeError(f"Found dtype {_scalar_name(target.dtype)} but expected {name}")
    if not self.is_floating_point():
        raise NotImplementedError(f"\"binary_cross_entropy\" not implemented for '{name}'")
    if weight is None:
        return
    shape, result = torch.broadcast_shapes(weight.shape, self.shape), torch.promote_types(weight.dtype, self.dtype)
    if shape != self.shape:
        raise RuntimeError(f"output with shape {list(self.shape)} doesn't match the broadcast shape {list(shape)}")
    if not torch.can_cast(result, self.dtype):
        raise RuntimeError(f"result type {_scalar_name(result)} can't be cast to the desired output type {name}")


@custom("binary_cross_entropy")
def binary_cross_entropy(self, target, weight=None, reduction=_MEAN):
    _check_entropy(self, target, weight)
    if weight is None:
        return _BINARY.forward((self, target), reduction)
    return _BINARY_WEIGHTED.forward((self, target, weight.to(self.dtype)), reduction)


@custom("binary_cross_entropy_backward")
def binary_cross_entropy_backward(grad_output, self, target, weight=None, reduction=_MEAN):
    if weight is None:
        return _BINARY.backward(grad_output, (self, target), reduction)
    return _BINARY_WEIGHTED.backward(grad_output, (self, target, weight.to(self.dtype)), reduction)


# -- margins: made of other operators, since torch's decompositions of them are wrong for some shapes


def _rows(self):
    """[samples, classes]"""
    if self.dim() > 2 or (self.dim() and not self.shape[-1]):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(self.shape)}"
        )
    return self.reshape(-1, self.shape[-1]) if self.dim() else self.reshape(1, 1)


def _check_classes(x, self, target, weight) -> None:
    """What multi_margin_loss asks of its class numbers and weights."""
    if target.dim() > 1 or target.numel() != x.shape[0]:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch "
            f"size). Expected target size [{x.shape[0]}], but got {list(target.shape)}. Input has shape "
            f"{list(self.shape)}."
        )
    if weight is not None and (weight.dim() > 1 or weight.numel() != x.shape[1]):
        raise RuntimeError(f"inconsistent weight size, expected {x.shape[1]} but got {list(weight.shape)}")
    if target.dtype is not torch.int64:
        raise RuntimeError(f"expected scalar type Long but found {_scalar_name(target.dtype)}")


def _labels(x, self, target):
    """The lists of labels of multilabel_margin_loss, as [samples, classes]."""
    same = target.shape == self.shape if self.dim() > 1 else target.dim() < 2 and target.numel() == x.numel()
    if not same:
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(self.shape)}")
    if target.dtype is not torch.int64:
        raise RuntimeError(f"expected scalar type Long but found {_scalar_name(target.dtype)}")
    return target.reshape(x.shape)


def _reduced(losses, reduction: int, self):
    if reduction == _NONE:
        return losses if self.dim() > 1 else losses.view(())
    return losses.mean() if reduction == _MEAN else losses.sum()


def _each(grad_output, reduction: int, samples: int):
    """The gradient that each sample's loss has, as a column."""
    grad = grad_output if grad_output.dim() == 0 else grad_output.reshape(-1, 1)
    return grad / samples if reduction == _MEAN else grad


def _excess(x, wanted, margin):
    """How far each class is within the margin of the wanted one, and which class that is."""
    own = torch.arange(x.shape[1], device=x.device) == wanted
    over = margin - x.gather(1, wanted) + x
    return torch.where((over > 0) & ~own, over, 0), own  # NaN counts nothing, as on the CPU


@custom("multi_margin_loss", autocast="float32")
def multi_margin_loss(self, target, p=1, margin=1, weight=None, reduction=_MEAN):
    if p not in (1, 2):
        raise RuntimeError("only p == 1 and p == 2 supported")
    x, wanted = _rows(self), target.reshape(-1, 1)
    _check_classes(x, self, target, weight)
    over, _ = _excess(x, wanted, margin)
    loss = over if p == 1 else over * over
    loss = loss if weight is None else loss * weight[wanted]
    return _reduced(loss.sum(1) / x.shape[1], reduction, self)


@custom("multi_margin_loss_backward")
def multi_margin_loss_backward(grad_output, self, target, p, margin, weight=None, reduction=_MEAN):
    x, wanted = _rows(self), target.reshape(-1, 1)
    over, own = _excess(x, wanted, margin)
    share = (over > 0).to(x.dtype) if p == 1 else 2 * over
    share = share if weight is None else share * weight[wanted]
    share = share * (_each(grad_output, reduction, x.shape[0]) / x.shape[1])
    return torch.where(own, -share.sum(1, keepdim=True), share).view(self.shape)


def _listed(labels):
    """Which labels count (a negative one ends the list), and the classes they name."""
    listed = (labels < 0).cumsum(1) == 0
    return listed, torch.where(listed, labels, 0)


@custom("multilabel_margin_loss_forward")
def multilabel_margin_loss_forward(self, target, reduction):
    x = _rows(self)
    listed, at = _listed(_labels(x, self, target))
    named = torch.zeros_like(x).scatter_add(1, at, listed.to(x.dtype)).clamp_max(1)
    over = 1 - x.gather(1, at).unsqueeze(2) + x.unsqueeze(1)
    counts = (over > 0) & listed.unsqueeze(2) & (named == 0).unsqueeze(1)  # NaN does not, as on the CPU
    losses = torch.where(counts, over, 0).sum((1, 2)) / x.shape[1]
    return _reduced(losses, reduction, self), named.view(target.shape)


@custom("multilabel_margin_loss_backward")
def multilabel_margin_loss_backward(grad_output, self, target, reduction, is_target):
    x = _rows(self)
    listed, at = _listed(target.reshape(x.shape))
    over = 1 - x.gather(1, at).unsqueeze(2) + x.unsqueeze(1)
    pairs = ((over > 0) & listed.unsqueeze(2) & (is_target.reshape(x.shape) == 0).unsqueeze(1)).to(x.dtype)
    grad = pairs.sum(1).scatter_add(1, at, -pairs.sum(2))
    return (grad * (_each(grad_output, reduction, x.shape[0]) / x.shape[1])).view(self.shape)


autocast(
    "float32",
    "cosine_similarity", "poisson_nll_loss", "cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss",
    "kl_div", "l1_loss", "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss", "triplet_margin_loss",
    "binary_cross_entropy_with_logits",
)  # fmt: skip
