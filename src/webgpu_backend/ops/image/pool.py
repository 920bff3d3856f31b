"""Pooling: max, average, adaptive and fractional, in one to three dimensions, with gradients."""

from functools import partial

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.image import pool
from ...kernels.layout import numel
from ...plan import caps
from ..by_index import meta_results, run
from ..oversize import by_batch, by_batches
from ..table import custom
from . import pool_checks as checks

aten = torch.ops.aten
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def _three(values, dims: int, missing: int) -> list[int]:
    """A per-dimension argument for all three dimensions: one number stands for every one."""
    values = list(values)
    values = values * dims if len(values) == 1 else values
    return [missing] * (3 - dims) + values


def _window(dims: int, kernel, stride, padding, dilation) -> list[int]:
    stride = stride if len(stride) else kernel
    return [
        *_three(kernel, dims, 1), *_three(stride, dims, 1), *_three(padding, dims, 0), *_three(dilation, dims, 1),
    ]  # fmt: skip


def _channels_last(sizes, strides, dims: int) -> bool:
    """Channels are the innermost dimension of a batched shape. One volume has as many as a batch of images."""
    if len(sizes) != dims + 2 or len(sizes) not in _FORMATS or numel(sizes) == 0 or sizes[1] == 1:
        return False
    return torch.empty_strided(sizes, strides, device="meta").is_contiguous(memory_format=_FORMATS[len(sizes)])


def _spatial(shape, dims: int) -> list[int]:
    return [1] * (3 - dims) + list(shape[-dims:])


def _channels(shape, dims: int) -> int:
    return shape[-dims - 1]


def _strides(x: torch.Tensor, dims: int) -> list[int]:
    """Batch, channel and three spatial strides."""
    strides = list(x.stride())
    batch = strides[0] if x.dim() == dims + 2 else 0
    return [batch, strides[-dims - 1], *([0] * (3 - dims)), *strides[-dims:]]


def _check_trips(trips: int, dtype: torch.dtype) -> bool:
    """Whether a thread should take a single element. Raises where even one is too much for a software driver."""
    if caps().kind != "cpu" or 4 * trips < pool.TRIPS:
        return False
    if trips >= pool.TRIPS or T.DTYPES[dtype].packed:
        raise Unsupported("webgpu: a pooling window of this size is beyond the driver's loop limit")
    return True


def _forward(kind: str, window: str, op, x: torch.Tensor, dims: int, arguments: tuple, geometry: list[int],
             extra: tuple = (), include_pad: bool = True, more: tuple = ()):  # fmt: skip
    """`geometry`: the window's twelve numbers; `extra`: what follows the strides in the parameters; `more`: tensors
    that the kernel reads beside x."""
    if x.dtype not in T.DTYPES:
        raise Unsupported(f"webgpu: pooling has no kernel for {x.dtype}")
    metas = meta_results(op, x, *arguments)[: 1 if kind == "largest" else None]
    sizes = metas[0].sizes
    outs = _spatial(sizes, dims)
    inner = _spatial(x.shape, dims)
    trips = 1
    for k, o, s in zip(geometry[:3], outs, inner):  # what of a window lies outside is not visited
        trips *= min(k, max(s, 1)) if window != "adaptive" else s // max(o, 1) + 2
    many = _check_trips(trips, x.dtype)
    last = _channels_last(sizes, metas[0].strides, dims)
    if not last and numel(sizes):
        metas = tuple(T.meta(m.sizes, None, m.dtype) for m in metas)
    kernel = pool.kernel(kind, window, T.dtype_of(x), last, include_pad, many, dims, caps())
    values = (_channels(x.shape, dims), *inner, *outs, *geometry, *_strides(x, dims), *extra)
    made = tuple([T.new(m) for m in metas])
    if made[0].numel():
        run(kernel, (x, *more), made, *values)
    return made if len(made) > 1 else made[0]


def _one_volume(x: torch.Tensor, dims: int) -> bool:
    """Whether it has no batch, and its channels lie innermost: the CPU keeps that."""
    return dims == 3 and x.dim() == 4 and _channels_last((1, *x.shape), (x.numel(), *x.stride()), 3)


def _in_a_batch(x: torch.Tensor) -> torch.Tensor:
    """With the stride that a batch of such volumes has, by which torch tells formats apart."""
    return x.as_strided((1, *x.shape), (x.numel(), *x.stride()))


def _max_pool(op, dims: int, x, *window, kind: str = "max"):
    if _one_volume(x, dims):
        made = _max_pool(op, dims, _in_a_batch(x), *window, kind=kind)
        return tuple([t.squeeze(0) for t in made]) if isinstance(made, tuple) else made.squeeze(0)
    arguments = (*[_tuple(w) for w in window[:4]], window[4])
    checks.dtype(f"max_pool{dims}d", x, *_INTEGERS)
    if x.dim() < dims + 1:  # before torch's code in Python asks for the channels
        raise RuntimeError(f"non-empty {dims + 1}D or {dims + 2}D (batch mode) tensor expected for input")
    return _forward(kind, "fixed", op, x, dims, arguments, _window(dims, *arguments[:4]))


def _tuple(x) -> tuple:
    return tuple(x) if isinstance(x, (list, tuple)) else (x,)


@custom("max_pool2d_with_indices", oversize=by_batch)
def max_pool2d_with_indices(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    op = aten.max_pool2d_with_indices.default
    return _max_pool(op, 2, self, kernel_size, stride, padding, dilation, ceil_mode)


@custom("max_pool3d_with_indices", oversize=by_batch)
def max_pool3d_with_indices(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    op = aten.max_pool3d_with_indices.default
    return _max_pool(op, 3, self, kernel_size, stride, padding, dilation, ceil_mode)


def _with_indices(op, *args):
    return op(*args)[0]


@custom("max_pool2d", gradient=partial(_with_indices, aten.max_pool2d_with_indices.default), oversize=by_batch)
def max_pool2d(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    """Without the places of the maxima, which only a gradient reads and which take twice the memory."""
    op = aten.max_pool2d_with_indices.default
    return _max_pool(op, 2, self, kernel_size, stride, padding, dilation, ceil_mode, kind="largest")


@custom("max_pool3d", gradient=partial(_with_indices, aten.max_pool3d_with_indices.default), oversize=by_batch)
def max_pool3d(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    op = aten.max_pool3d_with_indices.default
    return _max_pool(op, 3, self, kernel_size, stride, padding, dilation, ceil_mode, kind="largest")


def _backward(
    kind: str, window: str, dims: int, grad, x, geometry: list[int], extra=(), include_pad=True, indices=None
):
    """The gradient of `x`, gathered from the windows over each element."""
    if grad.dtype not in T.DTYPES:
        raise Unsupported(f"webgpu: pooling has no kernel for {grad.dtype}")
    inner, outs = _spatial(x.shape, dims), _spatial(grad.shape, dims)
    trips = 1
    for d in range(3):
        reach = (geometry[d] - 1) * geometry[9 + d] + 1
        windows = -(-reach // geometry[3 + d]) + 1 if window == "fixed" else outs[d] // max(inner[d], 1) + 2
        trips *= min(windows, max(outs[d], 1))
    last = _channels_last(x.shape, x.stride(), dims)
    result = T.empty(x.shape, grad.dtype, x.stride() if last else None)
    if not result.numel():
        return result
    if not grad.numel():
        return result.zero_()
    many = _check_trips(trips, grad.dtype)
    kernel = pool.kernel(kind, window, T.dtype_of(grad), last, include_pad, many, dims, caps())
    reads = (grad.contiguous(),) + (() if indices is None else (indices.contiguous(),))
    run(kernel, reads, (result,), _channels(x.shape, dims), *inner, *outs, *geometry, *extra)
    return result


def _max_back(op, dims: int, grad, x, kernel_size, stride, padding, dilation, ceil_mode, indices):
    if _one_volume(x, dims) and grad.dim() == indices.dim() == 4:
        whole = [_in_a_batch(t) for t in (grad, x, indices)]
        found = _max_back(op, dims, *whole[:2], kernel_size, stride, padding, dilation, ceil_mode, whole[2])
        return found.squeeze(0)
    window = [_tuple(w) for w in (kernel_size, stride, padding, dilation)]
    pooled = meta_results(op, x, *window, ceil_mode)[0].sizes
    checks.windows_back(dims, grad, x, pooled[-dims:], indices)
    return _backward("max_backward", "fixed", dims, grad, x, _window(dims, *window), indices=indices)


@custom("max_pool2d_with_indices_backward", oversize=by_batches)
def max_pool2d_backward(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
    op = aten.max_pool2d_with_indices.default
    return _max_back(op, 2, grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices)


@custom("max_pool3d_with_indices_backward", oversize=by_batches)
def max_pool3d_backward(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
    op = aten.max_pool3d_with_indices.default
    return _max_back(op, 3, grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices)


def _avg_pool(op, dims, x, kernel_size, stride, padding, ceil_mode, include_pad, divisor):
    arguments = (tuple(kernel_size), tuple(stride), tuple(padding), ceil_mode, include_pad, divisor)
    geometry = _window(dims, *arguments[:3], (1,))
    checks.dtype("avg_pool2d" if dims == 2 else "avg_pool3d_out_frame", x, torch.int64)
    return _forward("avg", "fixed", op, x, dims, arguments, geometry, (divisor or 0,), include_pad)


@custom("avg_pool2d", oversize=by_batch)
def avg_pool2d(self, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    return _avg_pool(aten.avg_pool2d.default, 2, self, _tuple(kernel_size), _tuple(stride), _tuple(padding),
                     ceil_mode, count_include_pad, divisor_override)  # fmt: skip


@custom("avg_pool3d", oversize=by_batch)
def avg_pool3d(self, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    return _avg_pool(aten.avg_pool3d.default, 3, self, _tuple(kernel_size), _tuple(stride), _tuple(padding),
                     ceil_mode, count_include_pad, divisor_override)  # fmt: skip


def _avg_back(op, dims: int, grad, x, kernel_size, stride, padding, ceil_mode, include_pad, divisor):
    window = [_tuple(w) for w in (kernel_size, stride, padding)]
    checks.divisor(divisor)
    pooled = meta_results(op, x, *window, ceil_mode, include_pad, divisor)[0].sizes
    checks.windows_back(dims, grad, x, pooled[-dims:])
    geometry = _window(dims, *window, (1,))
    return _backward("avg_backward", "fixed", dims, grad, x, geometry, (divisor or 0,), include_pad)


@custom("avg_pool2d_backward", oversize=by_batches)
def avg_pool2d_backward(
    grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
):
    op, pad = aten.avg_pool2d.default, count_include_pad
    return _avg_back(op, 2, grad_output, self, kernel_size, stride, padding, ceil_mode, pad, divisor_override)


@custom("avg_pool3d_backward", oversize=by_batches)
def avg_pool3d_backward(
    grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
):
    op, pad = aten.avg_pool3d.default, count_include_pad
    return _avg_back(op, 3, grad_output, self, kernel_size, stride, padding, ceil_mode, pad, divisor_override)


_UNIT = [1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1]


def _adaptive(kind: str, op, dims: int, x, output_size):
    checks.dtype(f"adaptive_{kind}_pool{dims}d{'_cpu' if dims == 3 else ''}", x)
    return _forward(kind, "adaptive", op, x, dims, (output_size,), _UNIT, (0,) if kind == "avg" else ())


@custom("_adaptive_avg_pool2d", oversize=by_batch)
def adaptive_avg_pool2d(self, output_size):
    return _adaptive("avg", aten._adaptive_avg_pool2d.default, 2, self, tuple(output_size))


@custom("_adaptive_avg_pool3d", oversize=by_batch)
def adaptive_avg_pool3d(self, output_size):
    return _adaptive("avg", aten._adaptive_avg_pool3d.default, 3, self, tuple(output_size))


@custom("adaptive_max_pool2d", oversize=by_batch)
def adaptive_max_pool2d(self, output_size):
    return _adaptive("max", aten.adaptive_max_pool2d.default, 2, self, tuple(output_size))


@custom("adaptive_max_pool3d", oversize=by_batch)
def adaptive_max_pool3d(self, output_size):
    return _adaptive("max", aten.adaptive_max_pool3d.default, 3, self, tuple(output_size))


@custom("_adaptive_avg_pool2d_backward", oversize=by_batches)
def adaptive_avg_pool2d_backward(grad_output, self):
    checks.adaptive_avg_back(2, grad_output, self)
    return _backward("avg_backward", "adaptive", 2, grad_output, self, _UNIT, (0,))


@custom("_adaptive_avg_pool3d_backward", oversize=by_batches)
def adaptive_avg_pool3d_backward(grad_output, self):
    checks.adaptive_avg_back(3, grad_output, self)
    return _backward("avg_backward", "adaptive", 3, grad_output, self, _UNIT, (0,))


@custom("adaptive_max_pool2d_backward", oversize=by_batches)
def adaptive_max_pool2d_backward(grad_output, self, indices):
    checks.adaptive_max_back(2, grad_output, self, indices)
    return _backward("max_backward", "adaptive", 2, grad_output, self, _UNIT, indices=indices)


@custom("adaptive_max_pool3d_backward", oversize=by_batches)
def adaptive_max_pool3d_backward(grad_output, self, indices):
    checks.adaptive_max_back(3, grad_output, self, indices)
    return _backward("max_backward", "adaptive", 3, grad_output, self, _UNIT, indices=indices)


def _fractional(op, dims: int, x, kernel_size, output_size, random_samples):
    checks.fractional(dims, x, kernel_size, output_size, random_samples)
    samples = random_samples.float().contiguous()
    geometry = [*_three(kernel_size, dims, 1), *_UNIT[3:]]
    arguments = (kernel_size, output_size, random_samples)
    return _forward("max", "fractional", op, x, dims, arguments, geometry, (dims,), more=(samples,))


@custom("fractional_max_pool2d")
def fractional_max_pool2d(self, kernel_size, output_size, random_samples):
    return _fractional(
        aten.fractional_max_pool2d.default, 2, self, _tuple(kernel_size), _tuple(output_size), random_samples
    )


@custom("fractional_max_pool3d")
def fractional_max_pool3d(self, kernel_size, output_size, random_samples):
    return _fractional(
        aten.fractional_max_pool3d.default, 3, self, _tuple(kernel_size), _tuple(output_size), random_samples
    )


def _scatter_back(dims: int, grad, x, indices):
    """Windows of a fractional pool lie anywhere: the indices say where each gradient goes."""
    planes = x.shape[:-dims]
    flat = torch.zeros((*planes, numel(x.shape[-dims:])), dtype=grad.dtype, device=grad.device)
    made = numel(grad.shape[-dims:])
    flat.scatter_add_(-1, indices.reshape(*planes, made), grad.reshape(*planes, made))
    return flat.reshape(x.shape)


@custom("fractional_max_pool2d_backward")
def fractional_max_pool2d_backward(grad_output, self, kernel_size, output_size, indices):
    checks.fractional_back(2, grad_output, self, _tuple(output_size))
    return _scatter_back(2, grad_output, self, indices)


@custom("fractional_max_pool3d_backward")
def fractional_max_pool3d_backward(grad_output, self, kernel_size, output_size, indices):
    checks.fractional_back(3, grad_output, self, _tuple(output_size))
    return _scatter_back(3, grad_output, self, indices)
