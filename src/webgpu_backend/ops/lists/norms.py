"""`_foreach_norm`, which clipping gradients by their norm calls: on a GPU several tensors to a dispatch."""

import torch

from ... import tensor as T
from ...kernels.lists import norms as kernel
from ...kernels.lists.elementwise import share
from ...plan import caps, constant, launch
from ...program import Step
from ..table import custom

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_MOST = 256
_starts: dict[tuple, torch.Tensor] = {}  # by the lists' lengths: where each tensor's numbers start


@custom("_foreach_norm.Scalar")
def foreach_norm(self, ord=2, dtype=None):
    if not self:
        raise RuntimeError("Tensor list must have at least one tensor.")
    kind = kernel.KINDS.get(float(ord))
    if kind is None or len(self) < 2 or not _together(self):
        return [torch.linalg.vector_norm(t, ord, dtype=dtype) for t in self]
    counts = tuple([t.numel() for t in self])
    starts = [0]
    for n in counts:
        starts.append(starts[-1] + kernel.parts(n))
    part, norms = T.empty((starts[-1],), torch.float32), T.empty((len(counts),), torch.float32)
    at = 0
    while at < len(counts):
        some = share(list(counts[at:]), kernel.slots(caps()), caps())
        params, grid = kernel.params(list(counts[at : at + some]), starts[at], caps())
        program = kernel.program(kind, T.dtype_of(self[0]), some, caps())
        launch(Step(program, params, grid), *self[at : at + some], part)
        at += some
    last = Step(kernel.finish(kind, caps()), len(counts).to_bytes(4, "little"), (len(counts), 1, 1))
    launch(last, part, _places(starts), norms)
    norms = norms.to(dtype or self[0].dtype)
    return [T.element(norms, k) for k in range(len(counts))]


def _places(starts: list[int]) -> torch.Tensor:
    key = tuple(starts)
    found = _starts.get(key)
    if found is None:
        if len(_starts) >= _MOST:
            _starts.clear()
        found = _starts[key] = constant(lambda: torch.tensor(starts, dtype=torch.int32).to(T.DEVICE))
    return found


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
