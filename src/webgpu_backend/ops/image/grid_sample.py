"""grid_sampler_2d and grid_sampler_3d with gradients of both arguments."""

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.image import grid_sample
from ...kernels.layout import numel
from ...plan import caps
from ..by_index import run
from ..oversize import by_pairs
from ..pointwise.elementwise import _scalar_name
from ..table import autocast, custom
from .pool import _spatial, _strides


def _kernel(kind: str, dims: int, x, mode: int, padding: int, corners: bool):
    if x.dtype not in T.DTYPES:
        raise Unsupported(f"webgpu: grid_sampler has no kernel for {x.dtype}")
    names = grid_sample.MODES[mode], grid_sample.PADDINGS[padding]
    return grid_sample.kernel(kind, *names, dims, bool(corners), T.dtype_of(x), caps())


def _numbers(x, points, dims: int) -> tuple:
    return (x.shape[1], *_spatial(x.shape, dims), *_spatial(points, dims), *_strides(x, dims))


def _check(dims: int, x, grid, mode) -> None:
    """Torch's own, in its words and order."""
    sizes = f"but got input with sizes {list(x.shape)} and grid with sizes {list(grid.shape)}"
    if x.dtype != grid.dtype:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to have same dtype, but input has {_scalar_name(x.dtype)} and "
            f"grid has {_scalar_name(grid.dtype)}"
        )
    if x.shape[0] != grid.shape[0]:
        raise RuntimeError(f"grid_sampler(): expected grid and input to have same batch size, {sizes}")
    if grid.shape[-1] != x.dim() - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {x.dim() - 2} in last dimension, but got grid with sizes "
            f"{list(grid.shape)}"
        )
    for d in range(2, x.dim()):
        if not x.shape[d]:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
                f"{list(x.shape)} with dimension {d} being empty"
            )
    if x.dim() != dims + 2 or grid.dim() != x.dim():
        raise RuntimeError(
            f"grid_sampler(): expected {dims + 2}D input and grid with same number of dimensions, {sizes}"
        )
    if dims == 3 and mode == 2:
        # Which torch refuses before 2.15.
        torch.grid_sampler_3d(
            torch.ones(1, 1, 1, 1, 1, device="cpu"), torch.ones(1, 1, 1, 1, 3, device="cpu"), 2, 0, False
        )


def _forward(dims: int, x, grid, mode, padding, corners):
    _check(dims, x, grid, mode)
    points = grid.shape[1:-1]
    out = T.empty((x.shape[0], x.shape[1], *points), x.dtype)
    kernel = _kernel("forward", dims, x, mode, padding, corners)
    run(kernel, (x, grid.contiguous()), (out,), *_numbers(x, points, dims))
    return out


def _backward(dims: int, grad, x, grid, mode, padding, corners, mask):
    points = grid.shape[1:-1]
    numbers = _numbers(x, points, dims)
    grad, grid = grad.contiguous(), grid.contiguous()
    grad_input = grad_grid = None
    if mask[0]:
        grad_input = _to_input(dims, grad, x, grid, mode, padding, corners, numbers)
    if mask[1]:
        grad_grid = T.empty(grid.shape, grid.dtype)
        if mode == 1 or not grad.numel():
            grad_grid.zero_()
        else:
            run(_kernel("backward", dims, x, mode, padding, corners), (x, grid, grad), (grad_grid,), *numbers)
    return grad_input, grad_grid


def _to_input(dims: int, grad, x, grid, mode, padding, corners, numbers):
    """Points lie anywhere, so their gradients are scattered by the elements they read."""
    batch, channels = x.shape[:2]
    points, area = numel(grid.shape[1:-1]), numel(x.shape[2:])
    wide = torch.promote_types(x.dtype, torch.float32)
    result = torch.zeros((batch, channels, area), dtype=wide, device=x.device)
    if grad.numel() and result.numel():
        taps = grid_sample.TAPS[grid_sample.MODES[mode]] ** dims
        where = T.empty((batch, taps, points), torch.int64)
        share = T.empty((batch, taps, points), wide)
        run(_kernel("taps", dims, x, mode, padding, corners), (grid,), (where, share), *numbers)
        sent = grad.reshape(batch, channels, 1, points).to(wide) * share.reshape(batch, 1, taps, points)
        index = where.reshape(batch, 1, taps * points).expand(batch, channels, taps * points)
        result.scatter_add_(2, index, sent.reshape(batch, channels, taps * points))
    return result.reshape(x.shape).to(x.dtype)


@custom("grid_sampler_2d", oversize=by_pairs)
def grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners):
    return _forward(2, input, grid, interpolation_mode, padding_mode, align_corners)


@custom("grid_sampler_3d", oversize=by_pairs)
def grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners):
    return _forward(3, input, grid, interpolation_mode, padding_mode, align_corners)


@custom("grid_sampler_2d_backward")
def grid_sampler_2d_backward(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask):
    return _backward(2, grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask)


@custom("grid_sampler_3d_backward")
def grid_sampler_3d_backward(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask):
    return _backward(3, grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask)


autocast("widest", "grid_sampler")
