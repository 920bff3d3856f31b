"""Softmax, log_softmax and their gradients: rows reduced and rewritten in one dispatch. nll_loss."""

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.layout import View, numel
from ...kernels.loss import nll
from ...kernels.reduce import softmax
from ...kernels.reduce.reduction import Spec
from ...plan import caps, launch
from ...plan.faults import site
from ...runtime.errors import BindingTooLarge
from ..shape.copy import fill
from ..table import autocast, custom
from .operators import LOGSUMEXP, dtype_name
from .reduction import Reduction, normal_dims

_ONLINE = LOGSUMEXP.spec


def _online(name: str, finish: str, results: tuple[str, ...], map_: str) -> Reduction:
    """The running maximum and the sum of exponentials beneath it, in one reading of the row."""
    return Reduction(
        Spec(name, _ONLINE.step, _ONLINE.combine, _ONLINE.init, _ONLINE.state, finish, tuple((r, "T") for r in results),
             map=map_, maps=(("y", "T"),)), float("nan"))  # fmt: skip


# inf - inf is NaN, and with it the whole row: the running sum has spared itself that. By `isinf` and `isnan`, as
# compilers of Metal take it that nothing is.
_NORM = "most = top\nnorm = where(isinf(top) and top > 0, nan, total)"
_SOFTMAX = "where(isnan(norm), norm, exp(a - most) / norm)"
SOFTMAX = _online("softmax", _NORM, ("most", "norm"), _SOFTMAX)
# A row of NaN has no largest element either, and is no row of -inf.
_SAFE = f"where(isinf(most) and most < 0 and not isnan(norm), 0, {_SOFTMAX})"
SAFE_SOFTMAX = _online("safe_softmax", _NORM, ("most", "norm"), _SAFE)
_LOG_SOFTMAX = "where(isnan(norm), norm, a - most - norm)"
LOG_SOFTMAX = _online("log_softmax", _NORM.replace("total", "log(total)"), ("most", "norm"), _LOG_SOFTMAX)


def _gradient(name: str, step: str, map_: str) -> Reduction:
    return Reduction(
        Spec(name, step, "acc + o_acc", finish="acc", results=(("dot", "T"),), inputs=("a", "b"), map=map_,
             maps=(("y", "T"),)), 0)  # fmt: skip


SOFTMAX_BACKWARD = _gradient("softmax_backward", "acc + a * b", "(a - dot) * b")
LOG_SOFTMAX_BACKWARD = _gradient("log_softmax_backward", "acc + a", "a - exp(b) * dot")


def _rewrite(run: Reduction, inputs: tuple, dim: int, out: torch.dtype):
    x = inputs[0]
    if not x.numel():
        normal_dims(dim, x.dim())
        return T.empty(x.shape, out)
    if not out.is_floating_point:
        raise Unsupported(f"webgpu: {run.spec.name} of {out}")
    compute = torch.float64 if torch.float64 in (x.dtype, out) else torch.float32
    found = _along_rows(run.spec.name, inputs, dim, out)
    if found is not None:
        return found
    return run.rewrite(inputs, normal_dims(dim, x.dim()), compute, (), (out,))[1][0]


def _along_rows(op: str, inputs: tuple, dim: int, out: torch.dtype) -> torch.Tensor | None:
    """By the kernel for rows that lie in memory one after the other, where there is one."""
    x = inputs[0]
    last = normal_dims(dim, x.dim()) == (x.dim() - 1,)
    if op not in softmax.OPS or not last or any(y.shape != x.shape or not y.is_contiguous() for y in inputs):
        return None
    sizes = x.numel() // x.shape[-1], x.shape[-1]
    views = [View(T.dtype_of(y), sizes, (sizes[1], 1), y.storage_offset()) for y in inputs]
    step = softmax.plan(op, views, T.DTYPES[out], caps())
    if step is None:
        return None
    result = T.empty(x.shape, out)
    try:
        launch(step, *inputs, result)
    except BindingTooLarge:
        return None
    return result


def _register(name: str, run: Reduction, backward: Reduction) -> None:
    @custom(f"_{name}")
    def forward(self, dim, half_to_float):
        if half_to_float and self.dtype not in (torch.float16, torch.bfloat16):
            raise RuntimeError(f"conversion is supported for Half type only ({name})")
        if not self.is_floating_point() and self.numel():
            raise NotImplementedError(f"\"{name}_lastdim_kernel_impl\" not implemented for '{dtype_name(self.dtype)}'")
        return _rewrite(run, (self,), dim, torch.float32 if half_to_float else self.dtype)

    @custom(f"_{name}_backward_data")
    def gradient(grad_output, output, dim, input_dtype):
        if grad_output.shape != output.shape:
            raise RuntimeError(
                "Expected tensor for argument #1 'grad' to have same size as tensor for argument #2 'output'; but "
                f"{list(grad_output.shape)} does not equal {list(output.shape)} (while checking arguments for "
                f"{name}_backward)"
            )
        return _rewrite(backward, (grad_output, output), dim, input_dtype)


_register("softmax", SOFTMAX, SOFTMAX_BACKWARD)
_register("log_softmax", LOG_SOFTMAX, LOG_SOFTMAX_BACKWARD)


@custom("_safe_softmax")
def safe_softmax(self, dim, dtype=None):
    return _rewrite(SAFE_SOFTMAX, (self,), dim, dtype or self.dtype)


# -- negative log likelihood


def _sums(name: str, finish: str) -> Reduction:
    """The losses' and the weights' sums, side by side."""
    spec = Spec(
        name,
        "loss1 = loss + a\nweight1 = weight + b",
        "loss1 = loss + o_loss\nweight1 = weight + o_weight",
        (0, 0),
        (("loss", "T"), ("weight", "T")),
        f"{finish}\nall = weight",
        (("out", "T"), ("all", "T")),
        ("a", "b"),
    )
    return Reduction(spec, 0)


_TOTAL = _sums("nll_total", "out = loss")
_AVERAGE = _sums("nll_average", "out = where(weight == 0, nan, loss / where(weight == 0, 1, weight))")
_NONE, _MEAN = 0, 1


def _samples(self, target):
    """(x, target) as [samples, classes, places] and [samples, places]."""
    if self.dim() == 1:
        return self.view(1, -1, 1), target.reshape(1, 1)
    if self.dim() == 2:
        return self.unsqueeze(2), target.unsqueeze(1)
    n, c, *places = self.shape
    return self.reshape(n, c, numel(places)), target.reshape(n, numel(places))


def _checked(self, target, weight) -> None:
    if target.dtype not in (torch.int64, torch.uint8):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {dtype_name(target.dtype)}")
    if weight is not None and weight.dtype != self.dtype and self.is_floating_point():
        raise RuntimeError(f"expected scalar type {dtype_name(self.dtype)} but found {dtype_name(weight.dtype)}")
    if target.device != self.device:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, "
            f"{self.device} and {target.device}!"
        )
    if self.dim() == 4 or target.dim() == 3:
        if target.dim() != 3:
            raise RuntimeError(
                f"only batches of spatial targets supported (3D tensors) but got targets of dimension: {target.dim()}"
            )
        if self.dim() != 4:
            raise RuntimeError(
                f"only batches of spatial inputs supported (4D tensors), but got input of dimension: {self.dim()}"
            )
        if self.shape[0] != target.shape[0] or self.shape[2:] != target.shape[1:]:
            raise RuntimeError(f"size mismatch (got input: {list(self.shape)} , target: {list(target.shape)}")
    else:
        if self.dim() not in (1, 2):
            raise RuntimeError("input tensor should be 1D or 2D")
        if target.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if self.dim() == 1 and target.dim() == 1 and target.shape[0] != 1:
            raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {target.shape[0]}")
        if self.dim() == 2 and (not target.dim() or self.shape[0] != target.shape[0]):
            raise RuntimeError(f"size mismatch (got input: {list(self.shape)}, target: {list(target.shape)})")
    classes = self.shape[0 if self.dim() == 1 else 1]
    if weight is not None and (weight.dim() != 1 or weight.shape[0] != classes):
        raise RuntimeError(
            "weight tensor should be defined either for all "
            f"{classes} classes or no classes but got weight tensor of shape: {list(weight.shape)}"
        )
    if self.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise Unsupported(f"webgpu: nll_loss of {self.dtype}")


@custom("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(self, target, weight, reduction, ignore_index):
    _checked(self, target, weight)
    x, t = _samples(self, target)
    whole = reduction != _NONE and self.dim() > 1
    shape = tuple(target.shape) if self.dim() > 1 else ()
    losses = T.empty(shape, torch.float32 if whole else self.dtype)
    weights = T.empty(shape, torch.float32) if reduction != _NONE else None
    if losses.numel():
        weight = None if weight is None else weight.contiguous()
        plan = nll.plan_forward(
            T.view_of(x),
            T.view_of(t),
            None if weight is None else T.view_of(weight),
            T.DTYPES[losses.dtype],
            weights is not None,
            ignore_index,
            site("nll_loss_forward", 1, False),
            caps(),
        )
        tensors = [x, t] + ([] if weight is None else [weight]) + [losses] + ([] if weights is None else [weights])
        try:
            launch(plan, *tensors)
        except BindingTooLarge:
            _gathered(x, t, weight, ignore_index, losses, weights)
    if reduction == _NONE:
        return losses, torch.zeros((), dtype=self.dtype, device=self.device)
    if not whole:
        average = losses / weights.to(self.dtype) if reduction == _MEAN else losses
        return average, weights.to(self.dtype)
    if not losses.numel():
        nothing = torch.zeros((), dtype=self.dtype, device=self.device)
        return torch.full_like(nothing, float("nan") if reduction == _MEAN else 0.0), nothing
    run = _AVERAGE if reduction == _MEAN else _TOTAL
    return run((losses, weights), None, False, torch.float32, (self.dtype, self.dtype))


@custom("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    _checked(self, target, weight)
    x, t = _samples(self, target)
    out = T.empty(self.shape, self.dtype)
    if not out.numel():
        return out
    if reduction == _NONE and self.dim() > 1:
        if grad_output.shape != target.shape:
            raise RuntimeError(
                f"Expected a tensor of dimension {target.dim()} and tensor.size[0] == {target.shape[0]} but got: "
                f"dimension {grad_output.dim()} and tensor.size[0] = {grad_output.shape[0] if grad_output.dim() else 0}"
            )
        grad = grad_output.reshape(t.shape)
    else:
        grad = grad_output.expand(t.shape)
    weight = None if weight is None else weight.contiguous()
    mean = reduction == _MEAN
    plan = nll.plan_backward(
        tuple(x.shape),
        T.view_of(grad),
        T.view_of(t),
        None if weight is None else T.view_of(weight),
        T.view_of(total_weight) if mean else None,
        T.DTYPES[self.dtype],
        ignore_index,
        caps(),
    )
    tensors = [grad, t] + ([] if weight is None else [weight]) + ([total_weight] if mean else []) + [out]
    fill(out, 0)
    try:
        launch(plan, *tensors)
    except BindingTooLarge:
        _scattered(grad, t, weight, ignore_index, total_weight if mean else None, out.view(x.shape))
    return out


def _shares(target, weight, ignore_index):
    """Classes that are there to be read, and what each sample's loss is multiplied by."""
    counts = target != ignore_index
    classes = target.to(torch.int64).masked_fill(~counts, 0)
    share = counts.to(torch.float32)
    return classes, share if weight is None else share * weight.to(torch.float32)[classes]


def _gathered(x, target, weight, ignore_index, losses, weights) -> None:
    """The losses of an input larger than one binding: reading by index knows how to split."""
    classes, share = _shares(target, weight, ignore_index)
    picked = x.gather(1, classes.unsqueeze(1)).squeeze(1).to(torch.float32)
    losses.copy_(torch.where(share == 0, 0, -picked * share).view(losses.shape))
    if weights is not None:
        weights.copy_(share.view(weights.shape))


def _scattered(grad, target, weight, ignore_index, total, out) -> None:
    classes, share = _shares(target, weight, ignore_index)
    value = -grad.to(torch.float32) * share
    out.scatter_(1, classes.unsqueeze(1), (value if total is None else value / total).to(out.dtype).unsqueeze(1))


autocast("float32_result", "softmax.int", "log_softmax.int")
