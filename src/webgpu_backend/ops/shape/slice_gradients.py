"""Gradients of slices and selections: the gradient in its place, zeros around, in one kernel."""

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...plan import caps, planned
from ..table import custom
from .copy import device_copy, fill
from .rearrange import padded


def _known(grad: torch.Tensor) -> torch.Tensor:
    if grad.dtype not in T.DTYPES:
        raise Unsupported(f"webgpu: the gradient of a slice of {grad.dtype} is torch's composite")
    return grad


@custom("slice_backward")
def slice_backward(grad_output, input_sizes, dim, start, end, step):
    return _placed(_known(grad_output), input_sizes, dim, start, step)


@custom("select_backward")
def select_backward(grad_output, input_sizes, dim, index):
    dim = dim + len(input_sizes) if dim < 0 else dim
    return _placed(_known(grad_output).unsqueeze(dim), input_sizes, dim, index, 1)


@planned
def _placed(grad, sizes, dim, start, step):
    """Zeros of these sizes, with the gradient every `step` from `start` on."""
    dim = dim + len(sizes) if dim < 0 else dim
    size, length = sizes[dim], grad.shape[dim]
    start = min(max(start + size if start < 0 else start, 0), size)
    whole = T.meta(sizes, None, grad.dtype).block_size
    if step == 1 and grad.numel() and max(whole, T.block_of(grad).size) <= caps().max_binding:
        after = len(sizes) - 1 - dim
        return padded(grad, [0, 0] * after + [start, size - start - length])
    out = fill(T.empty(sizes, grad.dtype), 0)
    strides = list(out.stride())
    first = start * strides[dim]
    strides[dim] *= step
    device_copy(grad, T.as_strided(out, grad.shape, strides, first))
    return out
