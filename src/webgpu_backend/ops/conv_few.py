"""Convolutions with few outputs, on a big GPU: the weights are laid out first, then one kernel."""

import torch

from .. import tensor as T
from ..kernels import conv_few
from ..launch import caps
from . import conv_tables as tables
from .product import matrix


def served(g, dtype: torch.dtype, moved: bool) -> bool:
    rows = g.x_channels if moved else g.y_channels
    few = 0 < rows <= conv_few.MOST and conv_few.served(moved, g.stride, g.dilation)
    return g.some and g.small and few and tables.floats(dtype)


def convolve(g, key: tuple, image, weight, bias, shape, moved: bool) -> torch.Tensor:
    """`image` through the windows of `weight`; `moved`: transposed. `key` says everything about them."""
    key, weight_key = ("few", *key), ("few_weight", *key)
    found, layout = tables.find(key), tables.find(weight_key)
    if found is None or layout is None:
        q = _few(g, image, moved)
        bound = None if bias is None else matrix(bias, bias.stride(0), 0)
        words, made = conv_few.plan_weight(q, matrix(weight, 0, 0), caps())
        layout = tables.remember(weight_key, (words,), torch.float32, made)
        found = tables.remember(key, shape, image.dtype, conv_few.plan(q, bound, T.dtype_of(image), caps()))
    return tables.run(found, tables.run(layout, weight, image), image, bias)


def _few(g, image, moved: bool) -> conv_few.Few:
    strides = image.stride()
    spatial = (0,) * (5 - len(strides)) + tuple(strides[2:])
    rows, channels = (g.x_channels, g.y_channels) if moved else (g.y_channels, g.x_channels)
    sizes, out = (g.y_sizes, g.x_sizes) if moved else (g.x_sizes, g.y_sizes)
    return conv_few.Few(
        g.batch, g.groups, rows, channels, sizes, (*strides[:2], *spatial), image.storage_offset(), out, g.window,
        g.stride, g.padding, g.dilation, moved,
    )  # fmt: skip


def weight_gradient(g, key: tuple, x, dy, shape) -> torch.Tensor:
    """`dy` is contiguous; `key` says everything about them."""
    found = tables.find(key)
    if found is None:
        made = conv_few.plan_grad(_few(g, x, False), matrix(dy, 0, 0, 0, dy.stride(0)), T.dtype_of(x), caps())
        found = tables.remember(key, shape, x.dtype, made)
    return tables.run(found, dy, x)
