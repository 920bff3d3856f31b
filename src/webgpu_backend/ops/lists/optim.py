"""Fused optimizer steps, several parameters to a dispatch, and the gradient scaler's kernels."""

import math
from functools import cache

import torch

from ... import tensor as T
from ...kernels.lists import unscale
from ...kernels.pointwise.elementwise import Spec
from ...plan import caps, launch, windows
from ...plan.lists import Lists
from ...runtime.errors import BindingTooLarge
from ..pointwise.elementwise import Elementwise
from ..shape.copy import dense, device_copy
from ..table import Pointwise, custom


class _Step(Elementwise):
    """Computes in float32 (for parameters of float64 in that) and writes each output in its own dtype. `lists` takes
    several tensors to a dispatch."""

    def __init__(self, entry: Pointwise, written: tuple[int, ...]):
        super().__init__(entry)
        self.lists = Lists(entry.spec, written)

    def _dtypes(self, inputs):
        dtype = torch.float64 if inputs[0].dtype is torch.float64 else torch.float32
        return dtype, dtype

    def _check_cast(self, inputs, outs):
        self._check_devices(inputs)


def _kernel(name: str, source: list[str], inputs: tuple[str, ...], scalars: tuple[str, ...], written) -> _Step:
    """`written`: the inputs that the outputs replace, in order."""
    spec = Spec(name, "\n".join(source), inputs, scalars, (), ("T",) * len(written))
    return _Step(Pointwise(name, spec, "none"), tuple(inputs.index(n) for n in written))


def _gradient(scaled: bool, maximize: bool, decay: bool) -> list[str]:
    """`h`, the gradient as the update sees it; `u`, as it is stored when it was scaled."""
    lines = ["u = g / scale"] if scaled else ["u = g"]
    lines.append("h0 = -u" if maximize else "h0 = u")
    lines.append("h = h0 + weight_decay * w" if decay else "h = h0")
    return lines


def _results(names: dict[str, str], found: bool) -> list[str]:
    """Assigns the outputs; a step in which an infinity was found changes nothing."""
    keep = "where(found == 0, {new}, {old})" if found else "{new}"
    return [f"out{k} = " + keep.format(new=new, old=old) for k, (old, new) in enumerate(names.items())]


def _operands(p, g, lr, grad_scale, found_inf, *states):
    """Inputs and outputs of a step; more buffers than the smallest adapter binds are avoided for the learning rate."""
    inputs, outs = [p, g], [p]
    for state in states:
        inputs.append(state)
        outs.append(state)
    if isinstance(lr, torch.Tensor):
        lr = lr.item() if lr.is_cpu or len(inputs) > 4 else lr
    inputs.append(lr)
    for extra in (grad_scale, found_inf):
        if extra is not None:
            inputs.append(extra)
    if grad_scale is not None:
        outs.append(g)
    return inputs, outs


def _together(run: _Step, lists: list, lr, grad_scale, found_inf, steps, scalars: tuple) -> bool:
    """Whether all parameters could be done with several to a dispatch."""
    if isinstance(lr, torch.Tensor) and lr.is_cpu:
        lr = lr.item()
    columns = [*lists, lr, *[x for x in (grad_scale, found_inf) if x is not None], *steps]
    if lists[0] and run.lists(columns, scalars) is None:
        return False
    for k in run.lists.written:
        torch._C._increment_version(lists[k])  # which torch does for one tensor, and leaves to the kernels of lists
    return True


def _extras(scaled: bool, found: bool) -> tuple[str, ...]:
    return (("scale",) if scaled else ()) + (("found",) if found else ())


@cache
def _adam_kernel(decoupled: bool, amsgrad: bool, maximize: bool, decay: bool, scaled: bool, found: bool) -> _Step:
    source = _gradient(scaled, maximize, decay and not decoupled)
    source += [
        "q = w - lr * weight_decay * w" if decay and decoupled else "q = w",
        "m1 = m + (h - m) * rest1",
        "v1 = v * beta2 + h * h * rest2",
        # 1 - beta ** step: the logarithm is the host's, so nothing is lost to cancellation.
        "c1 = -expm1(step * log_beta1)",
        "c2 = -expm1(step * log_beta2)",
    ]
    names = {"w": "q1", "m": "m1", "v": "v1"}
    if amsgrad:
        source.append("x1 = max(x, v1)")
        names["x"] = "x1"
    source.append(f"q1 = q - lr / c1 * m1 / (sqrt({'x1' if amsgrad else 'v1'}) / sqrt(c2) + eps)")
    states = ("m", "v", "x") if amsgrad else ("m", "v")
    if scaled:
        names["g"] = "u"
    scalars = ("weight_decay", "rest1", "beta2", "rest2", "log_beta1", "log_beta2", "eps")
    inputs = ("w", "g", *states, "lr", *_extras(scaled, found), "step")
    return _kernel("adamw" if decoupled else "adam", source + _results(names, found), inputs, scalars, names)


def _log(beta: float) -> float:
    return math.log(beta) if beta > 0 else -math.inf


def _adam(decoupled: bool):
    def step(
        self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *, lr, beta1, beta2, weight_decay, eps,
        amsgrad, maximize, grad_scale=None, found_inf=None,
    ):  # fmt: skip
        run = _adam_kernel(
            decoupled, amsgrad, maximize, weight_decay != 0, grad_scale is not None, found_inf is not None
        )
        scalars = (weight_decay, 1 - beta1, beta2, 1 - beta2, _log(beta1), _log(beta2), eps)
        moments = [exp_avgs, exp_avg_sqs] + ([max_exp_avg_sqs] if amsgrad else [])
        if _together(run, [self, grads, *moments], lr, grad_scale, found_inf, [state_steps], scalars):
            return
        for k, p in enumerate(self):
            if not p.numel():
                continue
            states = [exp_avgs[k], exp_avg_sqs[k]] + ([max_exp_avg_sqs[k]] if amsgrad else [])
            inputs, outs = _operands(p, grads[k], lr, grad_scale, found_inf, *states)
            run.into((*inputs, state_steps[k], *scalars), tuple(outs), inplace=True)

    return step


custom("_fused_adam_", "_fused_adam_.tensor_lr", planned=False)(_adam(False))
custom("_fused_adamw_", "_fused_adamw_.tensor_lr", planned=False)(_adam(True))


def adam_step(
    params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *, amsgrad, beta1, beta2, lr, weight_decay, eps,
    maximize, decoupled_weight_decay, has_complex, differentiable, **_rest,
) -> bool:  # fmt: skip
    """A step of torch.optim's Adam or AdamW by the fused kernel, its step counts on the CPU or, where the device is
    torch's default, here. False, and nothing done, where torch's own sequence of operators must take it."""
    plain = lr.__class__ is float and beta1.__class__ is float and beta2.__class__ is float
    if has_complex or differentiable or not plain:
        return False
    here = state_steps[0].device == params[0].device and state_steps[0].dtype is torch.float32
    if not all([s.device == params[0].device if here else s.is_cpu for s in state_steps]):
        return False
    counts = torch._foreach_add(state_steps, 1.0) if here else [s.item() + 1 for s in state_steps]
    run = _adam_kernel(decoupled_weight_decay, amsgrad, maximize, weight_decay != 0, False, False)
    scalars = (weight_decay, 1 - beta1, beta2, 1 - beta2, _log(beta1), _log(beta2), eps)
    moments = [exp_avgs, exp_avg_sqs] + ([max_exp_avg_sqs] if amsgrad else [])
    if not here and min(counts) == max(counts):
        counts = counts[0]
    if not _together(run, [params, grads, *moments], lr, None, None, [counts], scalars):
        return False
    if here:
        torch._foreach_copy_(state_steps, counts)
    else:
        torch._foreach_add_(state_steps, torch.tensor(1.0, device="cpu"), alpha=1.0)
    return True


@cache
def _sgd_kernel(momentum: bool, first: bool, nesterov: bool, maximize: bool, scaled: bool, found: bool) -> _Step:
    source = _gradient(scaled, maximize, True)
    names = {"w": "q"}
    if momentum:
        source.append("b1 = h" if first else "b1 = momentum * b + (1 - dampening) * h")
        source.append("d = h + momentum * b1" if nesterov else "d = b1")
        names["b"] = "b1"
    else:
        source.append("d = h")
    source.append("q = w - lr * d")
    if scaled:
        names["g"] = "u"
    inputs = ("w", "g", *(("b",) if momentum else ()), "lr", *_extras(scaled, found))
    scalars = ("weight_decay", "momentum", "dampening")
    return _kernel("sgd", source + _results(names, found), inputs, scalars, names)


@custom("_fused_sgd_", "_fused_sgd_.tensor_lr", planned=False)
def fused_sgd_(
    self, grads, momentum_buffer_list, *, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step,
    grad_scale=None, found_inf=None,
):  # fmt: skip
    moving = bool(momentum_buffer_list)
    run = _sgd_kernel(moving, is_first_step, nesterov, maximize, grad_scale is not None, found_inf is not None)
    scalars = (weight_decay, momentum, dampening)
    lists = [self, grads, *([momentum_buffer_list] if moving else [])]
    if _together(run, lists, lr, grad_scale, found_inf, [], scalars):
        return
    for k, p in enumerate(self):
        if not p.numel():
            continue
        states = [momentum_buffer_list[k]] if moving else []
        inputs, outs = _operands(p, grads[k], lr, grad_scale, found_inf, *states)
        run.into((*inputs, *scalars), tuple(outs), inplace=True)


def sgd_step(
    params, grads, momentum_buffer_list, *, weight_decay, momentum, lr, dampening, nesterov, maximize, has_sparse_grad,
    **_rest,
) -> bool:  # fmt: skip
    """As adam_step, for SGD; its first step with momentum is torch's, which makes the buffers."""
    moving = momentum != 0
    if has_sparse_grad or lr.__class__ is not float or (moving and any([b is None for b in momentum_buffer_list])):
        return False
    run = _sgd_kernel(moving, False, nesterov, maximize, False, False)
    lists = [params, grads, *([momentum_buffer_list] if moving else [])]
    return _together(run, lists, lr, None, None, [], (weight_decay, momentum, dampening))


@cache
def _adagrad_kernel(maximize: bool, scaled: bool, found: bool) -> _Step:
    source = _gradient(scaled, maximize, True)
    source += ["s1 = s + h * h", "rate = lr / (1 + (step - 1) * lr_decay)", "q = w - rate * h / (sqrt(s1) + eps)"]
    names = {"w": "q", "s": "s1"} | ({"g": "u"} if scaled else {})
    inputs = ("w", "g", "s", "lr", *_extras(scaled, found), "step")
    return _kernel("adagrad", source + _results(names, found), inputs, ("weight_decay", "lr_decay", "eps"), names)


@custom("_fused_adagrad_", "_fused_adagrad_.tensor_lr", planned=False)
def fused_adagrad_(
    self, grads, state_sums, state_steps, *, lr, lr_decay, weight_decay, eps, maximize, grad_scale=None, found_inf=None
):
    run = _adagrad_kernel(maximize, grad_scale is not None, found_inf is not None)
    scalars = (weight_decay, lr_decay, eps)
    if _together(run, [self, grads, state_sums], lr, grad_scale, found_inf, [state_steps], scalars):
        return
    for k, p in enumerate(self):
        if not p.numel():
            continue
        inputs, outs = _operands(p, grads[k], lr, grad_scale, found_inf, state_sums[k])
        run.into((*inputs, state_steps[k], *scalars), tuple(outs), inplace=True)


# -- the gradient scaler


@custom("_amp_foreach_non_finite_check_and_unscale_", planned=False)
def unscale_(self, found_inf, inv_scale):
    for name, scalar in (("inv_scale", inv_scale), ("found_inf", found_inf)):
        if scalar.numel() != 1 or scalar.dtype != torch.float32:
            raise RuntimeError(f"{name} must be a float tensor with 1 element.")
    for grad in self:
        if not grad.numel():
            continue
        whole = (
            dense(grad)
            and grad.storage_offset() % 4 == 0
            and (grad.numel() % 4 == 0 or T.owns_tail(grad))
            and not grad.is_neg()
        )
        target = grad if whole else grad.clone(memory_format=torch.contiguous_format)
        scalars = found_inf.storage_offset(), inv_scale.storage_offset()
        first, n = target.storage_offset(), target.numel()
        try:
            launch(unscale.plan(T.dtype_of(target), n, first, *scalars, caps()), inv_scale, target, found_inf)
        except BindingTooLarge:
            for window, low, high in windows(target):
                at, end = max(low, first), min(high, first + n)
                if at < end:
                    step = unscale.plan(T.dtype_of(target), end - at, at - low, *scalars, caps())
                    launch(step, inv_scale, window, found_inf)
        if not whole:
            device_copy(target, grad)


_UPDATE = _Step(Pointwise("amp_update_scale", Spec(
    "amp_update_scale",
    "grown = a * growth\n"
    "next = int(b) + 1\n"
    "full = next == int(interval)\n"
    "kept = where(full, where(isfinite(grown), grown, a), a)\n"
    "out0 = where(c == 0, kept, a * backoff)\n"
    "out1 = where(c == 0, where(full, 0, next), 0)",
    ("a", "b", "c"), ("growth", "backoff", "interval"), (("b", "i32"), ("interval", "i32")), ("T", "i32"),
), "none"), (0, 1))  # fmt: skip


@custom("_amp_update_scale_")
def update_scale_(self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval):
    scalars = (scale_growth_factor, scale_backoff_factor, growth_interval)
    _UPDATE.into((self, growth_tracker, found_inf, *scalars), (self, growth_tracker), inplace=True)
    return self
