"""Layer, group, batch and rms norm, forward and backward: rows reduced and rewritten, statistics in float32."""

from functools import cache

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.pointwise.elementwise import Spec as PointwiseSpec
from ...kernels.reduce.reduction import Spec
from ..admitted import scalar_name
from ..pointwise.elementwise import Elementwise
from ..shape.copy import image_format, laid
from ..table import Pointwise, autocast, custom
from .operators import MOMENTS
from .reduction import Reduction

_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_HALVES = (torch.float16, torch.bfloat16)
_T = "T"
aten = torch.ops.aten


def _affine(core: str, weight: bool, bias: bool) -> str:
    return core + (" * w" if weight else "") + (" + b" if bias else "")


def _inputs(*parts: tuple[str, bool]) -> tuple[str, ...]:
    return tuple(name for name, there in parts if there)


@cache
def _normalize(weight: bool, bias: bool) -> Reduction:
    """(a - mean) * rstd with an optional weight and bias; the variance is that of the whole population."""
    spec = Spec(
        "normalize", MOMENTS["step"], MOMENTS["combine"], MOMENTS["init"], MOMENTS["state"],
        "centre = mean\ninv = rsqrt(squares / n + eps)\nspread = squares / n",
        (("centre", _T), ("inv", _T), ("spread", _T)),
        _inputs(("a", True), ("w", weight), ("b", bias)), ("eps",),
        _affine("(a - centre) * inv", weight, bias), (("y", _T),),
    )  # fmt: skip
    return Reduction(spec, float("nan"))


@cache
def _normalize_backward(weight: bool) -> Reduction:
    """The gradient of a normalized row; the weight may vary along it."""
    g = "a * w" if weight else "a"
    spec = Spec(
        "normalize_backward",
        f"g = {g}\ntotal1 = total + g\ndot1 = dot + g * (x - mu) * rs",
        "total1 = total + o_total\ndot1 = dot + o_dot",
        (0, 0), (("total", _T), ("dot", _T)),
        "m1 = total / n\nm2 = dot / n", (("m1", _T), ("m2", _T)),
        _inputs(("a", True), ("x", True), ("mu", True), ("rs", True), ("w", weight)), (),
        f"rs * ({g} - m1 - (x - mu) * rs * m2)", (("y", _T),),
    )  # fmt: skip
    return Reduction(spec, 0)


@cache
def _batch_backward(weight: bool) -> Reduction:
    """As above with a weight that is constant along the row, so that its sums are the other gradients too."""
    spec = Spec(
        "batch_norm_backward",
        "total1 = total + a\ndot1 = dot + a * (x - mu) * rs",
        "total1 = total + o_total\ndot1 = dot + o_dot",
        (0, 0), (("total", _T), ("dot", _T)),
        "dots = dot\nsums = total", (("dots", _T), ("sums", _T)),
        _inputs(("a", True), ("x", True), ("mu", True), ("rs", True), ("w", weight)), ("scale",),
        _affine("(a - sums * scale - (x - mu) * rs * dots * scale) * rs", weight, False), (("y", _T),),
    )  # fmt: skip
    return Reduction(spec, 0)


_PARAMETERS = Reduction(
    Spec(
        "norm_parameters", "total1 = total + a\ndot1 = dot + a * (x - mu) * rs",
        "total1 = total + o_total\ndot1 = dot + o_dot", (0, 0), (("total", _T), ("dot", _T)),
        "dots = dot\nsums = total", (("dots", _T), ("sums", _T)), ("a", "x", "mu", "rs"),
    ), 0)  # fmt: skip


@cache
def _rms(weight: bool) -> Reduction:
    spec = Spec(
        "rms_norm", "acc + a * a", "acc + o_acc", finish="rsqrt(acc / n + eps)", results=(("inv", _T),),
        inputs=_inputs(("a", True), ("w", weight)), scalars=("eps",), map=_affine("a * inv", weight, False),
        maps=(("y", _T),),
    )  # fmt: skip
    return Reduction(spec, float("nan"))


@cache
def _rms_backward(weight: bool) -> Reduction:
    g = "a * w" if weight else "a"
    spec = Spec(
        "rms_norm_backward", f"acc + {g} * x * rs", "acc + o_acc", finish="acc / n", results=(("m2", _T),),
        inputs=_inputs(("a", True), ("x", True), ("rs", True), ("w", weight)),
        map=f"rs * ({g} - x * rs * m2)", maps=(("y", _T),),
    )  # fmt: skip
    return Reduction(spec, 0)


_RMS_WEIGHT = Reduction(Spec("rms_norm_weight", "acc + a * x * rs", "acc + o_acc", inputs=("a", "x", "rs")), 0)


class _Mapped(Elementwise):
    """An elementwise step that computes in float32 whatever its inputs."""

    def _dtypes(self, inputs):
        return _compute(inputs[0].dtype), inputs[0].dtype

    def _check_cast(self, inputs, outs):
        return None


@cache
def _eval(weight: bool, bias: bool) -> _Mapped:
    names = _inputs(("a", True), ("mu", True), ("v", True), ("w", weight), ("b", bias))
    text = _affine("(a - mu) * rsqrt(v + eps)", weight, bias)
    return _Mapped(Pointwise("batch_norm_eval", PointwiseSpec("batch_norm_eval", text, names, ("eps",)), "none"))


@cache
def _eval_backward(weight: bool) -> _Mapped:
    names = _inputs(("a", True), ("v", True), ("w", weight))
    text = _affine("a * rsqrt(v + eps)", weight, False)
    return _Mapped(
        Pointwise("batch_norm_eval", PointwiseSpec("batch_norm_eval_backward", text, names, ("eps",)), "none")
    )


_UPDATE = _Mapped(
    Pointwise(
        "batch_norm_update",
        PointwiseSpec("batch_norm_update", "out0 = a + (c - a) * momentum\nout1 = b + (d * scale - b) * momentum",
                      ("a", "b", "c", "d"), ("momentum", "scale"), (), (_T, _T)), "none"))  # fmt: skip


def _compute(dtype: torch.dtype) -> torch.dtype:
    if dtype not in _FLOATS:
        raise Unsupported(f"webgpu: no normalization of {dtype}")
    return torch.float64 if dtype == torch.float64 else torch.float32


def _check_floats(x, *parameters) -> None:
    for p in _some(*parameters):
        if not p.is_floating_point():
            raise RuntimeError(f"expected scalar type {scalar_name(x.dtype)} but found {scalar_name(p.dtype)}")


def _statistics(x, *parameters) -> torch.dtype:
    """The dtype that the CPU saves statistics in: float32 where parameters are wider than the input."""
    _check_floats(x, *parameters)
    given = _some(*parameters)
    return torch.float32 if x.dtype in _HALVES and any(p.dtype == torch.float32 for p in given) else x.dtype


def _some(*tensors):
    return tuple([t for t in tensors if t is not None])


def _sum_over(run: Reduction, inputs: tuple, dims: tuple[int, ...], compute, out):
    if dims:
        return run(inputs, dims, False, compute, out)
    return run(tuple([x.unsqueeze(0) for x in inputs]), 0, False, compute, out)


# -- layer norm


def _check_layer(input, shape, weight, bias) -> int:
    n = len(shape)
    if n < 1:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            f"normalized_shape = {list(shape)}"
        )
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and tuple(t.shape) != tuple(shape):
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(t.shape)} and "
                f"normalized_shape = {list(shape)}"
            )
    if input.dim() < n or tuple(input.shape[input.dim() - n :]) != tuple(shape):
        stars = ", ".join(["*", *(str(s) for s in shape)])
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [{stars}], but got input of size"
            f"{list(input.shape)}"
        )
    return input.dim() - n


def _layer(input, normalized_shape, weight, bias, eps, kept: tuple):
    """The normalized input, and what is `kept` of the statistics: dtypes of the mean and of the inverse deviation."""
    axis = _check_layer(input, normalized_shape, weight, bias)
    _check_floats(input, weight, bias)
    inputs = (input, *[p.expand(input.shape) for p in _some(weight, bias)])
    run, dims = _normalize(weight is not None, bias is not None), tuple(range(axis, input.dim()))
    stats, (y,) = run.rewrite(inputs, dims, _compute(input.dtype), kept, (input.dtype,), (eps,))
    return (y, *stats)


@custom("native_layer_norm", autocast="float32")
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    _compute(input.dtype)
    return _layer(input, normalized_shape, weight, bias, eps, (_statistics(input, weight, bias),) * 2)


def _differentiable_layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return aten.native_layer_norm.default(input, normalized_shape, weight, bias, eps)[0]


@custom("layer_norm", gradient=_differentiable_layer_norm, autocast="float32")
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    """Where no gradient follows, nothing is kept for one."""
    return _layer(input, normalized_shape, weight, bias, eps, ())[0]


@custom("native_layer_norm_backward")
def native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    axis = input.dim() - len(normalized_shape)
    shape, compute = input.shape, _compute(input.dtype)
    mu, rs = mean.expand(shape), rstd.expand(shape)
    dx = dw = db = None
    if output_mask[0]:
        inputs = (grad_out, input, mu, rs, *[p.expand(shape) for p in _some(weight)])
        run = _normalize_backward(weight is not None)
        dx = run.rewrite(inputs, tuple(range(axis, len(shape))), compute, (), (input.dtype,))[1][0]
    if output_mask[1] or output_mask[2]:
        kept = (weight if weight is not None else bias if bias is not None else input).dtype
        dw, db = _sum_over(_PARAMETERS, (grad_out, input, mu, rs), tuple(range(axis)), compute, (kept, kept))
    return dx, dw if output_mask[1] else None, db if output_mask[2] else None


# -- rms norm


def _rms_normalized(input, normalized_shape, weight, eps, kept: tuple):
    axis = _check_layer(input, normalized_shape, weight, None)
    if weight is not None and not weight.is_floating_point():
        raise Unsupported(f"webgpu: no rms_norm with weights of {weight.dtype}")
    compute = _compute(input.dtype)
    eps = torch.finfo(compute).eps if eps is None else eps
    inputs = (input, *[p.expand(input.shape) for p in _some(weight)])
    dims = tuple(range(axis, input.dim()))
    stats, (y,) = _rms(weight is not None).rewrite(inputs, dims, compute, kept, (input.dtype,), (eps,))
    return (y, *stats)


@custom("_fused_rms_norm")
def fused_rms_norm(input, normalized_shape, weight, eps):
    return _rms_normalized(input, normalized_shape, weight, eps, (_compute(input.dtype),))


@custom("_fused_rms_norm_backward")
def fused_rms_norm_backward(grad_out, input, normalized_shape, rstd, weight, output_mask):
    axis = input.dim() - len(normalized_shape)
    shape, compute = input.shape, _compute(input.dtype)
    rs = rstd.expand(shape)
    dx = dw = None
    if output_mask[0]:
        inputs = (grad_out, input, rs, *[p.expand(shape) for p in _some(weight)])
        run = _rms_backward(weight is not None)
        dx = run.rewrite(inputs, tuple(range(axis, len(shape))), compute, (), (input.dtype,))[1][0]
    if output_mask[1] and weight is not None:
        dw = _sum_over(_RMS_WEIGHT, (grad_out, input, rs), tuple(range(axis)), compute, (weight.dtype,))[0]
    return dx, dw


def _differentiable_rms_norm(input, normalized_shape, weight=None, eps=None):
    if input.dtype not in _FLOATS:
        raise Unsupported(f"webgpu: no rms_norm of {input.dtype}")
    return aten._fused_rms_norm.default(input, normalized_shape, weight, eps)[0]


@custom("rms_norm", gradient=_differentiable_rms_norm, autocast="float32")
def rms_norm(input, normalized_shape, weight=None, eps=None):
    return _rms_normalized(input, normalized_shape, weight, eps, ())[0]


# -- group norm


def _grouped(x, n, c, group):
    """[samples, groups, channels, places]"""
    return x.reshape(n, group, c // group, -1)


def _per_channel(p, group, shape):
    return p.reshape(1, group, -1, 1).expand(shape)


@custom("native_group_norm")
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    compute, saved = _compute(input.dtype), _statistics(input, weight, bias)
    if not input.numel():
        stats = torch.zeros((N, group), dtype=saved, device=input.device)
        return torch.empty_like(input), stats, torch.full_like(stats, float("nan"))
    x = _grouped(input, N, C, group)
    inputs = (x, *[_per_channel(p, group, x.shape) for p in _some(weight, bias)])
    run = _normalize(weight is not None, bias is not None)
    stats, (y,) = run.rewrite(inputs, (2, 3), compute, (saved, saved), (input.dtype,), (eps,))
    y = laid(y.view(input.shape), image_format(input))
    return y, stats[0].view(N, group), stats[1].view(N, group)


@custom("native_group_norm_backward")
def native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask):
    compute = _compute(input.dtype)
    if not input.numel():
        empty = [torch.zeros_like(input)] + [torch.zeros(C, dtype=input.dtype, device=input.device) for _ in range(2)]
        return tuple(t if wanted else None for t, wanted in zip(empty, output_mask))
    g, x = _grouped(grad_out, N, C, group), _grouped(input, N, C, group)
    mu, rs = (s.view(N, group, 1, 1).expand(x.shape) for s in (mean, rstd))
    dx = dw = db = None
    if output_mask[0]:
        inputs = (g, x, mu, rs, *[_per_channel(p, group, x.shape) for p in _some(weight)])
        run = _normalize_backward(weight is not None)
        dx = run.rewrite(inputs, (2, 3), compute, (), (input.dtype,))[1][0].view(input.shape)
        dx = laid(dx, image_format(input))
    if output_mask[1] or output_mask[2]:
        kept = input.dtype if weight is None else weight.dtype
        dw, db = _PARAMETERS((g, x, mu, rs), (0, 3), False, compute, (kept, kept))
        dw, db = dw.view(C), db.view(C)
    return dx, dw if output_mask[1] else None, db if output_mask[2] else None


# -- batch norm


def _over(p, x):
    """A value per channel, against the input."""
    return p.view(1, -1, *[1] * (x.dim() - 2)).expand(x.shape)


def _other_dims(x) -> tuple[int, ...]:
    return (0, *range(2, x.dim()))


@custom("native_batch_norm", "_native_batch_norm_legit", writes=("running_mean", "running_var"))
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    compute = _compute(input.dtype)
    given = _some(weight, bias)
    input = input.contiguous(memory_format=image_format(input))  # as the result shall lie
    if not training:
        run = _eval(weight is not None, bias is not None)
        tensors = (input, *[_over(p, input) for p in (running_mean, running_var, *given)])
        nothing = T.empty((0,), _statistics(input, weight, bias, running_mean, running_var))
        return run(*tensors, eps), nothing, T.empty((0,), nothing.dtype)
    saved = _statistics(input, weight, bias, running_mean, running_var)
    dims = _other_dims(input)
    inputs = (input, *[_over(p, input) for p in given])
    run = _normalize(weight is not None, bias is not None)
    update = running_mean is not None and running_var is not None
    kinds = (saved, saved, torch.float32 if saved in _HALVES else saved)[: 3 if update else 2]
    stats, (y,) = run.rewrite(inputs, dims, compute, kinds, (input.dtype,), (eps,))
    channels = input.shape[1]
    stats = [s.view(channels) for s in stats]
    if update and input.numel():
        n = input.numel() // channels
        _UPDATE.into(
            (running_mean, running_var, stats[0], stats[2], momentum, n / max(n - 1, 1)), (running_mean, running_var)
        )
    return laid(y, image_format(input)), stats[0], stats[1]


def _differentiable_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    _check_channels(input, weight, bias, running_mean, running_var)
    args = (input, weight, bias, running_mean, running_var, training, momentum, eps)
    return aten.native_batch_norm.default(*args)[0]


def _check_channels(input, *parameters) -> None:
    if input.dim() < 2 or any(p.numel() != input.shape[1] for p in _some(*parameters)):
        raise Unsupported("webgpu: torch's composite words this error")


@custom("batch_norm", writes=("running_mean", "running_var"), gradient=_differentiable_batch_norm)
def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    _check_channels(input, weight, bias, running_mean, running_var)
    return native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@custom("_native_batch_norm_legit.no_stats")
def native_batch_norm_no_stats(input, weight, bias, training, momentum, eps):
    return native_batch_norm(input, weight, bias, None, None, training, momentum, eps)


@custom("_native_batch_norm_legit_no_training")
def native_batch_norm_no_training(input, weight, bias, running_mean, running_var, momentum, eps):
    return native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)


@custom("_batch_norm_with_update", writes=("running_mean", "running_var"))
def batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps):
    made = native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return (*made, T.empty((0,), torch.uint8))


@custom("_batch_norm_no_update")
def batch_norm_no_update(input, weight, bias, running_mean, running_var, momentum, eps):
    made = native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)
    return (*made, T.empty((0,), torch.uint8))


@custom("native_batch_norm_backward")
def native_batch_norm_backward(
    grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
):
    compute = _compute(input.dtype)
    kept = input.dtype if weight is None else weight.dtype
    dims = _other_dims(input)
    if train:
        inputs = (grad_out, input, *[_over(p, input) for p in _some(save_mean, save_invstd, weight)])
        scale = input.shape[1] / max(input.numel(), 1)
        run = _batch_backward(weight is not None)
        if output_mask[0]:
            (dw, db), (dx,) = run.rewrite(inputs, dims, compute, (kept, kept), (input.dtype,), (scale,))
            dw, db = dw.view(-1), db.view(-1)
        else:
            dx = None
            dw, db = _PARAMETERS(inputs[:4], dims, False, compute, (kept, kept))
    else:
        dx = dw = db = None
        if output_mask[0]:
            tensors = (grad_out, *[_over(p, input) for p in _some(running_var, weight)])
            dx = _eval_backward(weight is not None)(*tensors, eps)
        if output_mask[1] or output_mask[2]:
            inv = torch.rsqrt(running_var + eps)
            inputs = (grad_out, input, _over(running_mean, input), _over(inv, input))
            dw, db = _PARAMETERS(inputs, dims, False, compute, (kept, kept))
    if output_mask[0]:
        dx = laid(dx, image_format(input))
    return dx, dw if output_mask[1] else None, db if output_mask[2] else None


@custom("batch_norm_backward")
def batch_norm_backward(
    grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask, reserve
):
    return native_batch_norm_backward(
        grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask
    )


autocast("float32", "group_norm")
