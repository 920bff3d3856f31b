"""Questions about whole tensors that the host waits for."""

import torch

from .. import tensor as T
from ..launch import same_device
from .table import custom


@custom("equal")
def equal(self, other):
    same_device("equal", self, other)
    if self.shape != other.shape:
        return False
    if not self.numel():
        return True
    if T.block_of(self) is T.block_of(other) and _same_view(self, other) and not _has_nan(self):
        return True
    return bool(torch.eq(self, other).all().item())


def _has_nan(tensor: torch.Tensor) -> bool:
    """A dtype in which a value may differ from itself."""
    return tensor.is_floating_point() or tensor.is_complex()


def _same_view(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.stride() == b.stride() and a.storage_offset() == b.storage_offset()
