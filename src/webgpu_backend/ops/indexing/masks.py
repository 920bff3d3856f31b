"""Masks and positions: nonzero, masked_select, masked_scatter, masked_fill."""

import torch

from ... import tensor as T
from ...kernels.indexing import compact, masks
from ...kernels.layout import contiguous_strides
from ...kernels.pointwise.elementwise import Spec
from ...plan import caps, launch, planned
from ...plan.faults import site
from ..overlap import expanded, no_internal_overlap, no_partial_overlap, once, warn_expanded
from ..pointwise.elementwise import Elementwise, _scalar_name, broadcast_shape
from ..pointwise.operators import DTYPE_WORDS
from ..shape.copy import device_copy
from ..table import Pointwise, custom
from . import oversize
from .scatter import apart

_SPEC = Spec("masked_fill", "where(b, c, a)", ("a", "b", "c"), (), (("b", "bool"), ("c", "T")), checked=True)


class _Filled(Elementwise):
    """torch fills a contiguous copy, however the tensor and the mask lie."""

    def _strides(self, tensors, shape):
        return contiguous_strides(shape)


_fill = _Filled(Pointwise("masked_fill", _SPEC, "none"))


class _Found:
    """Where a contiguous mask is true: how many elements of each tile of it, or of each chunk on a software adapter."""

    def __init__(self, mask: torch.Tensor):
        self.mask = mask
        self.n, self.offset = mask.numel(), mask.storage_offset()
        self.tiled = compact.served(self.n, self.offset, caps())
        self.counts = _counts(mask)
        self.summed = not self.tiled or compact.tiles(self.n) > compact.FEW
        self.sums = torch.cumsum(self.counts, 0, dtype=torch.int32) if self.summed else self.counts

    def total(self) -> int:
        """All of them; waits for the device."""
        if self.summed:
            return self.sums[-1:].item()
        return int(self.counts.cpu().sum())

    def write(self, out: torch.Tensor) -> None:
        """Positions, as many as there is room for, one column after the other."""
        dtype, sizes = T.dtype_of(self.mask), tuple(self.mask.shape)
        if self.tiled:
            step = compact.plan_positions(dtype, sizes, self.offset, out.shape[0], self.summed, caps())
        else:
            step = masks.plan_positions(dtype, sizes, self.offset, out.shape[0], caps())
        launch(step, self.mask, self.sums, out)


@planned
def _counts(mask: torch.Tensor) -> torch.Tensor:
    n, offset, dtype = mask.numel(), mask.storage_offset(), T.dtype_of(mask)
    tiled = compact.served(n, offset, caps())
    counts = T.empty((compact.tiles(n) if tiled else masks.chunks(n, caps()),), torch.int32)
    launch((compact if tiled else masks).plan_count(dtype, n, offset, caps()), mask, counts)
    return counts


@custom("nonzero", planned=False, oversize=oversize.nonzero)
def nonzero(self):
    rank = self.dim()
    if not self.numel():
        return T.empty((0, rank), torch.int64, (1, 0))
    found = _Found(self.contiguous())
    total = found.total()
    out = T.empty((total, rank), torch.int64, (1, total))  # a column for each dimension, as on the CPU
    if total and rank:
        found.write(out)
    return out


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
    out = torch.full((self.dim(), size), fill_value, dtype=torch.int64, device=T.here()).t()
    if self.numel() and size and self.dim():
        _Found(self.contiguous()).write(out)
    return out.contiguous()


@custom("masked_select", planned=False, oversize=oversize.masked_select)
def masked_select(self, mask):
    if mask.dtype is not torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_shape([self.shape, mask.shape])
    flat = mask.expand(shape).reshape(-1)
    if not flat.numel():
        return T.empty((0,), self.dtype)
    return selected(self.expand(shape), flat)


def selected(source: torch.Tensor, flags: torch.Tensor) -> torch.Tensor:
    """The elements for which a flag is set, of a vector of flags; waits for the device."""
    flags = flags.contiguous()  # reshape(-1) of a row or a diagonal is still a view
    found = _Found(flags)
    if not found.tiled or source.element_size() > 8:
        return torch.ops.aten.take(source, nonzero(flags)[:, 0])
    source = source.resolve_conj().resolve_neg().contiguous()
    total = found.total()
    out = T.empty((total,), source.dtype)
    if total:
        args = (source.element_size(), found.n, found.offset, total, source.storage_offset(), found.summed, caps())
        launch(compact.plan_select(*args), flags, found.sums, source, out)
    return out


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
    no_internal_overlap(self)
    if not self.numel():
        return self
    no_partial_overlap(self, mask)
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
    else:
        mask, source = apart(target, mask, source)
    found = _Found(mask)
    item, where = self.element_size(), site("masked_scatter", 0, False)
    places = source.storage_offset(), target.storage_offset()
    if found.tiled:
        step = compact.plan_fill(item, found.n, found.offset, source.numel(), places, where, found.summed, caps())
    else:
        step = masks.plan_fill(item, found.n, found.offset, source.numel(), *places, where, caps())
    launch(step, mask, found.sums, source, target)
    if target is not self:
        device_copy(target, self)
    return self


# -- filling


def _check_fill(self, mask, value):
    if mask.dtype is not torch.bool:
        kind = DTYPE_WORDS.get(mask.dtype, str(mask.dtype))
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {kind}")
    if isinstance(value, torch.Tensor):
        if value.dim():
            raise RuntimeError(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.dim()} dimension(s)."
            )
        if value.is_complex() and not self.is_complex():
            raise RuntimeError(f"value cannot be converted to type {DTYPE_WORDS[self.dtype]} without overflow")


@custom("masked_fill.Scalar", "masked_fill.Tensor", planned=False)
def masked_fill(self, mask, value):
    _check_fill(self, mask, value)
    return _fill(self, mask, value)


@custom("masked_fill_.Scalar", "masked_fill_.Tensor", planned=False)
def masked_fill_(self, mask, value):
    _check_fill(self, mask, value)
    if isinstance(value, torch.Tensor) and value.numel() and self.numel() and T.share_memory(self, value):
        value = value.clone()
    if not expanded(self):
        return _fill.inplace(self, mask, value)
    warn_expanded("masked_fill_")
    same = [d for d, st in enumerate(self.stride()) if st == 0]
    _fill.inplace(once(self), mask.expand(self.shape).any(same, keepdim=True), value)
    return self


def _name(tensor: torch.Tensor) -> str:
    return _scalar_name(tensor.dtype)


@custom("equal", planned=False)
def equal(self, other):
    if self.device != other.device:
        raise RuntimeError(f"Cannot compare two tensors on different devices. Got: {self.device} and {other.device}")
    if self.shape != other.shape:
        return False
    return not self.numel() or bool(torch.eq(self, other).all().item())
