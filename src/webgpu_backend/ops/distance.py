"""cdist and pdist: p-norm distances between rows."""

from struct import pack

import torch

from .. import tensor as T
from ..dtypes import Unsupported
from ..kernels.distance import MAX_LENGTH, program
from ..kernels.layout import grid, numel
from ..launch import caps, launch
from .copy import fill
from .elementwise import broadcast_shape
from .table import custom


def _ready(x1, x2):
    """Both with the same batch, contiguous."""
    if x1.dtype != torch.float32 or x2.dtype != torch.float32:
        raise Unsupported(f"webgpu: distances of {x1.dtype}")
    batch = broadcast_shape([x1.shape[:-2], x2.shape[:-2]])
    return batch, *[x.expand(*batch, *x.shape[-2:]).contiguous() for x in (x1, x2)]


def _power(p: float) -> float:
    return min(p, 3.4e38)  # infinity has a kernel of its own, which does not read this


@custom("_cdist_forward")
def cdist_forward(x1, x2, p, compute_mode):
    batch, a, b = _ready(x1, x2)
    rows, cols, depth = a.shape[-2], b.shape[-2], a.shape[-1]
    out = T.empty((*batch, rows, cols), a.dtype)
    total = out.numel()
    if not total:
        return out
    if not depth:
        return fill(out, 0)
    if depth > MAX_LENGTH:
        raise Unsupported("webgpu: distances of rows this long")
    params = pack("<4If", total, rows, cols, depth, _power(p))
    launch(program(p, False, caps()), (a, b, out), params, grid(total, 64, caps()))
    return out


@custom("_cdist_backward")
def cdist_backward(grad, x1, x2, p, cdist):
    batch, a, b = _ready(x1, x2)
    rows, cols, depth = a.shape[-2], b.shape[-2], a.shape[-1]
    out = T.empty(a.shape, a.dtype)
    if not out.numel():
        return out
    if not cols or p == 0:
        return fill(out, 0)
    if cols > MAX_LENGTH:
        raise Unsupported("webgpu: gradients of distances to this many rows")
    grad, cdist = (x.expand(*batch, rows, cols).contiguous() for x in (grad, cdist))
    params = pack("<4If", out.numel(), rows, cols, depth, _power(p))
    launch(program(p, True, caps()), (a, b, grad, cdist, out), params, grid(out.numel(), 64, caps()))
    return out


def _pairs(n: int) -> torch.Tensor:
    """Linear indices above the diagonal of an n x n matrix, row by row."""
    row, col = torch.triu_indices(n, n, 1)
    return (row * n + col).to(T.DEVICE)


@custom("_pdist_forward")
def pdist_forward(self, p=2.0):
    n = self.shape[0]
    if n < 2:
        return T.empty((0,), self.dtype)
    return cdist_forward(self, self, p, None).view(-1).index_select(0, _pairs(n))


@custom("_pdist_backward")
def pdist_backward(grad, self, p, pdist):
    n = self.shape[0]
    if n < 2 or not numel(self.shape):
        return fill(T.empty(self.shape, self.dtype), 0)
    both = []
    for values in (grad, pdist):
        square = fill(T.empty((n * n,), self.dtype), 0).index_copy(0, _pairs(n), values.contiguous()).view(n, n)
        both.append(square + square.t())
    return cdist_backward(both[0], self, self, p, both[1])
