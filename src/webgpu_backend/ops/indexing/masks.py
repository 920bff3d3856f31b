"""Masks and positions: nonzero, masked_select, masked_scatter, masked_fill."""

import torch

from ... import tensor as T
from ...kernels.indexing import masks as compact
from ...kernels.pointwise.elementwise import Spec
from ...plan import caps, launch
from ...plan.faults import site
from ..pointwise.elementwise import Elementwise, _scalar_name, broadcast_shape
from ..shape.copy import device_copy
from ..table import Pointwise, custom
from . import oversize

_SPEC = Spec("masked_fill", "where(b, c, a)", ("a", "b", "c"), (), (("b", "bool"), ("c", "T")), checked=True)
_fill = Elementwise(Pointwise("masked_fill", _SPEC, "none"))


def _sums(self: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(how many nonzero elements there are up to the end of each chunk, the last of these)."""
    c, n = caps(), self.numel()
    counts = T.empty((compact.chunks(n, c),), torch.int32)
    plan = compact.count(T.dtype_of(self), n, self.storage_offset(), c)
    launch(plan, self, counts)
    sums = torch.cumsum(counts, 0, dtype=torch.int32)
    return sums, sums[-1:]


def _positions(self: torch.Tensor, sums: torch.Tensor, room: int, sizes) -> torch.Tensor:
    out = T.empty((room, len(sizes)), torch.int64)
    if room:
        plan = compact.write(T.dtype_of(self), sizes, self.storage_offset(), room, caps())
        launch(plan, self, sums, out)
    return out


@custom("nonzero", planned=False, oversize=oversize.nonzero)
def nonzero(self):
    rank = self.dim()
    if not self.numel():
        return T.empty((0, rank), torch.int64)
    self = self.contiguous()
    sums, total = _sums(self)
    found = total.item()
    if not rank:
        return T.empty((found, 0), torch.int64)
    return _positions(self, sums, found, tuple(self.shape))


def nonzero_columns(mask: torch.Tensor) -> list[torch.Tensor]:
    """One index tensor per dimension of the mask."""
    if not mask.dim():
        flat = nonzero(mask.reshape(1))
        return [flat[:, 0]]
    found = nonzero(mask)
    return [found[:, d] for d in range(mask.dim())]


@custom("nonzero_static")
def nonzero_static(self, *, size, fill_value=-1):
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    out = torch.full((size, self.dim()), fill_value, dtype=torch.int64, device=T.DEVICE)
    if not self.numel() or not size or not self.dim():
        return out
    self = self.contiguous()
    sums, _ = _sums(self)
    plan = compact.write(T.dtype_of(self), tuple(self.shape), self.storage_offset(), size, caps())
    launch(plan, self, sums, out)
    return out


@custom("masked_select", planned=False, oversize=oversize.masked_select)
def masked_select(self, mask):
    if mask.dtype is not torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_shape([self.shape, mask.shape])
    flat = mask.expand(shape).reshape(-1)
    if not flat.numel():
        return T.empty((0,), self.dtype)
    return torch.ops.aten.take(self.expand(shape), nonzero(flat)[:, 0])


@custom("masked_scatter")
def masked_scatter(self, mask, source):
    shape = broadcast_shape([self.shape, mask.shape])
    out = T.empty(shape, self.dtype)
    device_copy(self.expand(shape), out)
    return masked_scatter_(out, mask, source)


@custom("masked_scatter_")
def masked_scatter_(self, mask, source):
    if self.dtype != source.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got {_name(self)} and {_name(source)}"
        )
    if mask.dtype is not torch.bool:
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {_name(mask)}")
    if not self.numel():
        return self
    mask = mask.expand(self.shape).contiguous()
    source = source.contiguous()
    if not source.numel():
        if mask.any():
            raise RuntimeError("masked_scatter: expected source to have at least as many elements as ones in the mask")
        return self
    target = self
    if not self.is_contiguous():
        target = T.empty(self.shape, self.dtype)
        device_copy(self, target)
    elif T.block_of(source) is T.block_of(target):
        source = source.clone()
    sums, _ = _sums(mask)
    plan = compact.fill(
        self.element_size(), mask.numel(), mask.storage_offset(), source.numel(), source.storage_offset(),
        target.storage_offset(), site("masked_scatter", 0, False), caps(),
    )  # fmt: skip
    launch(plan, mask, sums, source, target)
    if target is not self:
        device_copy(target, self)
    return self


# -- filling


def _check_fill(self, mask, value):
    if mask.dtype is not torch.bool:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {_name(mask)}")
    if isinstance(value, torch.Tensor):
        if value.dim():
            raise RuntimeError(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.dim()} dimension(s)."
            )


@custom("masked_fill.Scalar", "masked_fill.Tensor", planned=False)
def masked_fill(self, mask, value):
    _check_fill(self, mask, value)
    return _fill(self, mask, value)


@custom("masked_fill_.Scalar", "masked_fill_.Tensor", planned=False)
def masked_fill_(self, mask, value):
    _check_fill(self, mask, value)
    return _fill.inplace(self, mask, value)


def _name(tensor: torch.Tensor) -> str:
    return _scalar_name(tensor.dtype)


@custom("equal", planned=False)
def equal(self, other):
    if self.device != other.device:
        raise RuntimeError(f"Cannot compare two tensors on different devices. Got: {self.device} and {other.device}")
    if self.dtype != other.dtype:
        raise RuntimeError(f"Expected all tensors to have the same dtype, but found {_name(self)} and {_name(other)}")
    if self.shape != other.shape:
        return False
    return not self.numel() or bool(torch.eq(self, other).all().item())
