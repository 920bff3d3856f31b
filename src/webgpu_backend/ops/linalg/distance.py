"""cdist and pdist for every norm, forwards and backwards."""

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.linalg.batches import TRIPS
from ...kernels.linalg.distance import plan
from ...plan import caps, launch
from ..admitted import scalar_name
from ..table import autocast, custom
from .batches import zeros


def _run(pairs, backward, power, out, threads, rows, others, width, **tensors) -> torch.Tensor:
    given = {n: t.contiguous() for n, t in tensors.items()}
    if any(t.dtype is not out.dtype for t in given.values()) or out.dtype not in (torch.float32, torch.float64):
        raise Unsupported(f"webgpu: no distances of {out.dtype}")
    double = out.dtype is torch.float64
    c = caps()
    if c.kind == "cpu" and max(others if backward else width, 1) > TRIPS:
        raise Unsupported("webgpu: a software adapter cannot loop over so many elements")
    offsets = [given[n].storage_offset() if n in given else 0 for n in ("x", "y", "grad", "dist")]
    launch(plan(pairs, backward, power, threads, (rows, others, width), offsets, double, c), *given.values(), out)
    return out


def _expanded(x1, x2):
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return batch, x1.expand(*batch, *x1.shape[-2:]), x2.expand(*batch, *x2.shape[-2:])


@custom("_cdist_forward")
def cdist_forward(x1, x2, p, compute_mode):
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.is_floating_point():
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {scalar_name(x.dtype)}")
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    batch, a, b = _expanded(x1, x2)
    rows, others, width = a.shape[-2], b.shape[-2], a.shape[-1]
    if not width:
        return zeros((*batch, rows, others), x1.dtype)
    out = T.empty((*batch, rows, others), x1.dtype)
    if not out.numel():
        return out
    return _run(False, False, p, out, out.numel(), rows, others, width, x=a, y=b)


@custom("_cdist_backward")
def cdist_backward(grad, x1, x2, p, cdist):
    batch, a, b = _expanded(x1, x2)
    rows, others, width = a.shape[-2], b.shape[-2], a.shape[-1]
    if not a.numel() or not b.numel() or not grad.numel():
        return zeros(x1.shape, x1.dtype)
    out = T.empty(a.shape, a.dtype)
    return _run(False, True, p, out, out.numel(), rows, others, width, x=a, y=b, grad=grad, dist=cdist)


@custom("_pdist_forward")
def pdist_forward(self, p=2.0):
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    rows, width = self.shape
    out = T.empty((max(rows * (rows - 1) // 2, 0),), self.dtype)
    if not out.numel():
        return out
    if not width:
        return zeros(out.shape, out.dtype)
    # Half of the threads find their pair mirrored and stop: cheaper than the square root that would number the pairs.
    return _run(True, False, p, out, rows * rows, rows, rows, width, x=self)


@custom("_pdist_backward")
def pdist_backward(grad, self, p, pdist):
    rows, width = self.shape
    if rows <= 1 or not width or p == 0:
        return zeros(self.shape, self.dtype)
    out = T.empty(self.shape, self.dtype)
    return _run(True, True, p, out, out.numel(), rows, rows, width, x=self, grad=grad, dist=pdist)


autocast("float32", "pdist", "cdist")
