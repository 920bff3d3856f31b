"""`_foreach_norm`, which clipping gradients by their norm calls: on a GPU several tensors to a dispatch."""

import torch

from .. import tensor as T
from ..kernels import list_norm as kernel
from ..kernels.lists import share
from ..launch import caps, launch
from .remember import keep
from .table import custom

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_MAX_PLANS = 256
_plans: dict[tuple, tuple] = {}


@custom("_foreach_norm.Scalar")
def foreach_norm(self, ord=2, dtype=None):
    if not self:
        raise RuntimeError("Tensor list must have at least one tensor.")
    kind = kernel.KINDS.get(float(ord))
    if kind is None or len(self) < 2 or not _together(self):
        return [torch.linalg.vector_norm(t, ord, dtype=dtype) for t in self]
    counts = tuple([t.numel() for t in self])
    starts, steps = _plan(kind, self[0].dtype, counts)
    part, norms = T.empty((steps[-1][-1],), torch.float32), T.empty((len(counts),), torch.float32)
    for first, last, program, params, grid, _ in steps:
        launch(program, (*self[first:last], part), params, grid)
    launch(kernel.finish(kind, caps()), (part, starts, norms), len(counts).to_bytes(4, "little"), (len(counts), 1, 1))
    norms = norms.to(dtype or self[0].dtype)
    return [T.element(norms, k) for k in range(len(counts))]


def _together(tensors) -> bool:
    dtype = tensors[0].dtype
    if caps().kind != "gpu" or dtype not in _FLOATS or len(tensors) > caps().max_groups:
        return False
    limit = caps().max_binding
    for t in tensors:
        plain = T.is_ours(t) and t.dtype is dtype and t.numel() and t.is_contiguous() and not t.storage_offset()
        if not plain or T.block_of(t).size > limit:
            return False
    return True


def _plan(kind: str, dtype: torch.dtype, counts: tuple) -> tuple:
    """Where each tensor's numbers start, and (first, last, program, parameters, grid, numbers so far) of each step."""
    key = (kind, dtype, counts)
    found = _plans.get(key)
    if found is None:
        starts = [0]
        for n in counts:
            starts.append(starts[-1] + kernel.parts(n))
        steps, at = [], 0
        while at < len(counts):
            some = share(list(counts[at:]), kernel.slots(caps()), caps())
            params, grid = kernel.params(list(counts[at : at + some]), starts[at], caps())
            program = kernel.program(kind, T.DTYPES[dtype], some, caps())
            steps.append((at, at + some, program, params, grid, starts[at + some]))
            at += some
        if len(_plans) >= _MAX_PLANS:
            _plans.clear()
        found = _plans[key] = (keep(torch.tensor(starts, dtype=torch.int32).to(T.DEVICE)), steps)
    return found
