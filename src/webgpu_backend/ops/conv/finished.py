"""Convolutions with the elementwise steps that follow, in one kernel. Compiled graphs are rewritten to this."""

import torch

from ...kernels.layout import numel
from ...plan import caps, planned
from ...runtime.errors import BindingTooLarge
from ..oversize import fit, pieces
from ..shape.copy import image_format
from .ending import Ending
from .operators import Geometry, convolved, output_shape, way_of

_library = torch.library.Library("webgpu_backend", "FRAGMENT")
_library.define(
    "finished_convolution(Tensor input, Tensor weight, Tensor? table, Tensor? other, int[] stride, int[] padding, "
    "int[] dilation, bool transposed, int[] output_padding, int groups, str after, ScalarType dtype) -> Tensor"
)


@planned
def _convolution(input, weight, table, other, how: tuple, after: str, dtype: torch.dtype):
    table = None if table is None else table.contiguous()
    return convolved(input, weight, None, *how, Ending(after, table, other, dtype))


@torch.library.impl(_library, "finished_convolution", "PrivateUse1")
def _finished(input, weight, table, other, stride, padding, dilation, transposed, output_padding, groups, after, dtype):
    """The elements that `after` makes of sums: see `Ending`."""
    how = (tuple(stride), tuple(padding), tuple(dilation), transposed, tuple(output_padding), groups)
    shape = output_shape(input, weight, *how)
    if 0 in shape:
        return _shape(input, weight, table, other, *how, after, dtype)
    given = (input, weight, table, other)
    try:
        return _convolution(*given, how, after, dtype)
    except BindingTooLarge:  # parts of storages that are larger than a binding, or more images than were known
        out = torch.empty(shape, dtype=dtype, device="meta")
        if fit(*given, out):
            return _convolution(*[None if x is None else x.clone() for x in given], how, after, dtype)
        if shape[0] < 2:
            raise
    single = other is None or other.dim() < input.dim() or other.shape[0] == 1
    beside = lambda piece: other if single else other.narrow(0, *piece)  # noqa: E731
    return torch.cat([
        _finished(input.narrow(0, *piece), weight, table, beside(piece), *how, after, dtype)
        for piece in pieces(shape[0], input, other, out)
    ])  # fmt: skip


@torch.library.register_fake("webgpu_backend::finished_convolution", lib=_library)
def _shape(input, weight, table, other, *how):
    *how, _, dtype = how
    made = input.new_empty(output_shape(input, weight, *how), dtype=dtype)
    return made.contiguous(memory_format=image_format(input, weight))


def serves(input, weight, stride, padding, dilation, transposed, output_padding, groups) -> bool:
    """Whether the kernels that a convolution of tensors like these gets can do more to their sums."""
    shape = output_shape(input, weight, stride, padding, dilation, transposed, output_padding, groups)
    limit = caps().max_binding
    bytes_ = [n * input.element_size() for n in (numel(shape), input.numel(), weight.numel())]
    wide, narrow = (shape, input.shape) if transposed else (input.shape, shape)
    g = Geometry(wide, narrow, weight.shape, stride, padding, dilation, groups, 4 * numel(shape) <= limit)
    able = way_of(g, input.dtype, transposed) != "phases" or g.phased(input.dtype)
    return g.some and max(bytes_) <= limit and able
