"""Sliding windows: im2col is a copy of a strided view, col2im and unfold's gradient add windows up."""

import torch
from torch._prims_common import canonicalize_dim

from ... import tensor as T
from ...kernels.image import unfold
from ...kernels.layout import numel
from ...plan import caps, launch
from ..by_index import meta_results
from ..indexing.scatter import duplicate
from ..oversize import by_batch
from ..shape.copy import fill
from ..shape.rearrange import constant_pad_nd
from ..table import custom

aten = torch.ops.aten


def _check(kernel_size, dilation, padding, stride) -> None:
    """In the CPU's words; a negative padding is no cut here."""
    for name, part, values in (
        ("kernel size", "kernel", kernel_size), ("dilation", "dilation", dilation), ("stride", "stride", stride),
    ):  # fmt: skip
        if len(values) == 2 and min(values) <= 0:
            high, wide = values
            raise RuntimeError(
                f"{name} should be greater than zero, but got {part}_height: {high} {part}_width: {wide}"
            )
    if len(padding) == 2 and min(padding) < 0:
        raise RuntimeError(f"padding should be non-negative, but got pad_height: {padding[0]} pad_width: {padding[1]}")


@custom("im2col", oversize=by_batch)
def im2col(self, kernel_size, dilation, padding, stride):
    _check(kernel_size, dilation, padding, stride)
    (meta,) = meta_results(aten.im2col, self, kernel_size, dilation, padding, stride)
    if not numel(meta.sizes):
        return T.new(meta)
    image = self if self.dim() == 4 else self.unsqueeze(0)
    if any(padding):
        image = constant_pad_nd(image, [padding[1], padding[1], padding[0], padding[0]])
    n, c, h, w = image.shape
    rows = (h - dilation[0] * (kernel_size[0] - 1) - 1) // stride[0] + 1
    columns = (w - dilation[1] * (kernel_size[1] - 1) - 1) // stride[1] + 1
    sn, sc, sh, sw = image.stride()
    windows = T.as_strided(
        image,
        (n, c, *kernel_size, rows, columns),
        (sn, sc, sh * dilation[0], sw * dilation[1], sh * stride[0], sw * stride[1]),
    )
    return duplicate(windows).view(meta.sizes)


def _fold(source: torch.Tensor, shape, **numbers: int) -> torch.Tensor:
    out = T.empty(shape, source.dtype)
    if not source.numel():
        return fill(out, 0)
    if out.numel():
        numbers |= {"n": out.numel(), "src_o": source.storage_offset()}
        plan = unfold.plan(T.dtype_of(source), numbers, caps())
        launch(plan, source, out)
    return out


@custom("col2im", oversize=by_batch)
def col2im(self, output_size, kernel_size, dilation, padding, stride):
    _check(kernel_size, dilation, padding, stride)
    high, wide = kernel_size
    if high * wide >= 1 << 63:
        raise RuntimeError(
            f"Given kernel_width = {wide} and kernel_height = {high} the product of kernel_width and kernel_height "
            "overflowed."
        )
    (meta,) = meta_results(aten.col2im, self, output_size, kernel_size, dilation, padding, stride)
    self = self.contiguous()
    (high, wide), (height, width) = kernel_size, output_size
    rows = (height + 2 * padding[0] - dilation[0] * (high - 1) - 1) // stride[0] + 1
    columns = (width + 2 * padding[1] - dilation[1] * (wide - 1) - 1) // stride[1] + 1
    places = rows * columns
    return _fold(
        self, meta.sizes, height=height, width=width, high=high, wide=wide, rows=rows, columns=columns,
        step_y=stride[0], step_x=stride[1], gap_y=dilation[0], gap_x=dilation[1], pad_y=padding[0], pad_x=padding[1],
        s_outer=high * wide * places, s_i=wide * places, s_j=places, s_r=columns, s_c=1,
    )  # fmt: skip


@custom("unfold_backward")
def unfold_backward(grad_in, input_sizes, dim, size, step):
    if step <= 0:
        raise ValueError(f"step is {step} but must be > 0")
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if not len(input_sizes):
        return duplicate(grad_in.reshape(()))
    dim = canonicalize_dim(len(input_sizes), dim)
    windows, inner = grad_in.shape[dim], numel(input_sizes[dim + 1 :])
    sizes = [*input_sizes[:dim], windows, *input_sizes[dim + 1 :], size]
    grad = grad_in.expand(sizes).contiguous()  # torch's own istft gives one row for all
    return _fold(
        grad, input_sizes, height=input_sizes[dim], width=inner, high=size, wide=1, rows=windows, columns=inner,
        step_y=step, step_x=1, gap_y=1, gap_x=1, pad_y=0, pad_x=0,
        s_outer=windows * inner * size, s_i=1, s_j=0, s_r=inner * size, s_c=size,
    )  # fmt: skip
