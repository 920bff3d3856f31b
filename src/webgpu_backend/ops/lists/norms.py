"""`_foreach_norm`, which clipping gradients by their norm calls: on a GPU several tensors to a dispatch."""

import torch

from ... import tensor as T
from ...kernels.lists import norms
from ...kernels.lists.elementwise import share
from ...plan import caps, constant, launch
from ..table import custom

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_MOST = 256
_starts: dict[tuple, torch.Tensor] = {}  # by the lists' lengths: where each tensor's numbers start


@custom("_foreach_norm.Scalar")
def foreach_norm(self, ord=2, dtype=None):
    if not self:
        raise RuntimeError("Tensor list must have at least one tensor.")
    if float(ord) == float("inf") and any([not t.numel() for t in self]):
        raise RuntimeError(
            "_foreach_norm cannot compute the infinity norm on an empty tensor because the operation does not have an "
            "identity"
        )
    kind = norms.KINDS.get(float(ord))
    if kind is None or len(self) < 2 or not _together(self):
        return [torch.linalg.vector_norm(t, ord, dtype=dtype) for t in self]
    counts = tuple([t.numel() for t in self])
    starts = [0]
    for n in counts:
        starts.append(starts[-1] + norms.parts(n))
    part, found = T.empty((starts[-1],), torch.float32), T.empty((len(counts),), torch.float32)
    at = 0
    while at < len(counts):
        some = share(list(counts[at:]), norms.slots(caps()), caps())
        step = norms.plan(kind, T.dtype_of(self[0]), list(counts[at : at + some]), starts[at], caps())
        launch(step, *self[at : at + some], part)
        at += some
    launch(norms.plan_finish(kind, len(counts), caps()), part, _places(starts), found)
    found = found.to(dtype or self[0].dtype)
    return [T.element(found, k) for k in range(len(counts))]


def _places(starts: list[int]) -> torch.Tensor:
    key = (T.here().index, *starts)
    found = _starts.get(key)
    if found is None:
        if len(_starts) >= _MOST:
            _starts.clear()
        found = _starts[key] = constant(lambda: torch.tensor(starts, dtype=torch.int32, device="cpu").to(T.here()))
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
