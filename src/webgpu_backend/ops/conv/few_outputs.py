"""Convolutions with few outputs, on a big GPU: the weights are laid out first, then one kernel."""

import torch

from ... import tensor as T
from ...kernels.conv import few_outputs
from ...plan import caps, launch
from ..matmul.product import matrix
from . import tables
from .ending import dtype_of


def served(g, dtype: torch.dtype, moved: bool) -> bool:
    rows = g.x_channels if moved else g.y_channels
    few = 0 < rows <= few_outputs.MOST and few_outputs.served(moved, g.stride, g.dilation)
    return g.some and g.small and few and tables.floats(dtype)


def convolve(g, image, weight, bias, shape, moved: bool, ending) -> torch.Tensor:
    """`image` through the windows of `weight`; `moved`: transposed. An ending takes the place of a bias."""
    q = _few(g, image, moved)
    words, made = few_outputs.plan_weight(q, matrix(weight, 0, 0), caps())
    laid = T.empty((words,), torch.float32)
    launch(made, weight, None, None, laid)
    out = T.empty(shape, dtype_of(ending, image))
    bound = None if bias is None else matrix(bias, bias.stride(0), 0)
    after, read = (None, (None, None)) if ending is None else (ending.after(shape, shape[1]), ending.tensors)
    made = few_outputs.plan(q, bound, T.dtype_of(image), T.dtype_of(out), caps(), after)
    launch(made, laid, image, bias, out, *read)
    return out


def _few(g, image, moved: bool) -> few_outputs.Few:
    strides = image.stride()
    spatial = (0,) * (5 - len(strides)) + tuple(strides[2:])
    rows, channels = (g.x_channels, g.y_channels) if moved else (g.y_channels, g.x_channels)
    sizes, out = (g.y_sizes, g.x_sizes) if moved else (g.x_sizes, g.y_sizes)
    return few_outputs.Few(
        g.batch, g.groups, rows, channels, sizes, (*strides[:2], *spatial), image.storage_offset(), out, g.window,
        g.stride, g.padding, g.dilation, moved,
    )  # fmt: skip


def weight_gradient(g, x, dy, shape) -> torch.Tensor:
    """`dy` is contiguous."""
    out = T.empty(shape, x.dtype)
    made = few_outputs.plan_grad(_few(g, x, False), matrix(dy, 0, 0, 0, dy.stride(0)), T.dtype_of(x), caps())
    launch(made, dy, x, None, out)
    return out
