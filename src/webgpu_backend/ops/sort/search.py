"""Searching: searchsorted, bucketize, unique values, modes, histograms."""

import warnings

import torch
from torch._prims_common import canonicalize_dim

from ... import dtypes
from ... import tensor as T
from ...kernels.sort import search
from ...plan import caps, launch, planned
from ..by_index import run
from ..indexing.masks import selected
from ..pointwise.elementwise import _scalar_name, resize_output
from ..shape.copy import device_copy
from ..table import custom
from . import oversize
from .scan import accumulate, blocks_of
from .sort import _ready, _reduced, fits_quick, quick_pairs, sorted_pairs, take


def _side(right: bool, side: str | None) -> bool:
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    return right or side == "right"


def _warn_apart(values, boundaries, sorter) -> None:
    """As torch does once, of the first that has to be copied."""
    given = {"input value": values, "boundary": boundaries, "sorter": sorter}
    for name, tensor in given.items():
        if tensor is not None and not tensor.is_contiguous():
            warnings.warn(
                f"torch.searchsorted(): {name} tensor is non-contiguous, this will lower the performance due to extra "
                "data copy when converting non-contiguous tensor to contiguous, please use contiguous "
                f"{name} tensor if possible. This message will only appear once per program.",
                stacklevel=2,
            )
            return


@custom("searchsorted.Tensor", oversize=oversize.searchsorted)
def searchsorted(sorted_sequence, self, *, out_int32=False, right=False, side=None, sorter=None):
    right = _side(right, side)
    boundaries, values = sorted_sequence, self
    if boundaries.dim() == 0:
        raise RuntimeError(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but got "
            f"boundaries tensor dim(0) and input value's dim({values.dim()}) numel({values.numel()})"
        )
    if boundaries.dim() != 1 and (values.dim() != boundaries.dim() or boundaries.shape[:-1] != values.shape[:-1]):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but got boundaries tensor {list(boundaries.shape)} and input "
            f"value tensor {list(values.shape)}"
        )
    if sorter is not None and sorter.shape != boundaries.shape:
        raise RuntimeError(
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
            f"{list(boundaries.shape)}and got sorter tensor {list(sorter.shape)}"
        )
    if sorter is not None and sorter.dtype is not torch.int64:
        raise RuntimeError(f"torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {sorter.dtype}")
    _warn_apart(values, boundaries, sorter)
    if boundaries.dtype is not values.dtype:
        common = torch.result_type(boundaries, values)
        boundaries, values = boundaries.to(common), values.to(common)
    if boundaries.is_complex() or boundaries.dtype not in T.DTYPES:
        raise dtypes.Unsupported(f"webgpu: searchsorted has no kernel for {boundaries.dtype}")
    out = T.empty(values.shape, torch.int32 if out_int32 else torch.int64)
    if not out.numel():
        return out
    if not boundaries.numel():
        return out.zero_()
    kernel = search.searchsorted(T.dtype_of(boundaries), T.dtype_of(out), right, sorter is not None, caps())
    reads = (values.contiguous(), boundaries.contiguous()) + (() if sorter is None else (sorter.contiguous(),))
    per_row = values.shape[-1] if values.dim() else 1
    run(kernel, reads, (out,), per_row, boundaries.shape[-1], int(boundaries.dim() > 1))
    return out


@custom("searchsorted.Scalar")
def searchsorted_scalar(sorted_sequence, self, *, out_int32=False, right=False, side=None, sorter=None):
    value = torch.full((), self, dtype=_scalar_dtype(sorted_sequence, self), device=sorted_sequence.device)
    if sorted_sequence.dim() != 1:
        raise RuntimeError(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but got "
            f"boundaries tensor dim({sorted_sequence.dim()}) and input value's dim(0) numel(1)"
        )
    return searchsorted(sorted_sequence, value, out_int32=out_int32, right=right, side=side, sorter=sorter)


def _scalar_dtype(tensor: torch.Tensor, value) -> torch.dtype:
    return torch.result_type(tensor, value)


def _one_dimension(boundaries) -> None:
    if boundaries.dim() != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})")


@custom("bucketize.Tensor", oversize=oversize.bucketize)
def bucketize(self, boundaries, *, out_int32=False, right=False):
    _one_dimension(boundaries)
    return searchsorted(boundaries, self, out_int32=out_int32, right=right)


@custom("bucketize.Scalar")
def bucketize_scalar(self, boundaries, *, out_int32=False, right=False):
    _one_dimension(boundaries)
    return searchsorted_scalar(boundaries, self, out_int32=out_int32, right=right)


def _nothing(dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return T.empty((0,), dtype)


def _groups(flags: torch.Tensor):
    """From flags of new values: each element's group (from one), each group's first element and size."""
    numbers = accumulate("cumsum", flags, 0, torch.int32)
    count = int(numbers[-1].item())
    first, size = T.empty((count,), torch.int64), T.empty((count,), torch.int64)
    run(search.groups(caps()), (numbers,), (first, size), numbers.numel())
    return numbers, first, size


@planned
def _sorted_groups(x: torch.Tensor):
    """Pairs and values in order, flags of new values, and each element's group (from one)."""
    sizes = (1, x.numel(), 1)
    pairs, length = sorted_pairs(x, sizes, False)
    flags = T.empty((length,), torch.int32)
    run(search.over_pairs("boundaries", T.dtype_of(x), caps()), (pairs,), (flags,), length)
    ordered, _ = take("take", x, sizes, pairs, length, (length,), length)
    return pairs, ordered, flags


@custom("_unique2", planned=False)
def unique2(self, sorted=True, return_inverse=False, return_counts=False):
    x, _ = _ready("unique", self.reshape(-1), 0)
    if not x.numel():
        return _nothing(x.dtype), T.empty(self.shape, torch.int64) if return_inverse else _nothing(), _nothing()
    pairs, ordered, flags = _sorted_groups(x)
    if not return_inverse and not return_counts:
        return selected(ordered, flags.bool()), _nothing(), _nothing()
    numbers, first, counts = _groups(flags)
    inverse, length = _nothing(), x.numel()
    if return_inverse:
        inverse = T.empty(self.shape, torch.int64)
        launch(search.plan_inverse(T.dtype_of(x), length, caps()), numbers, pairs, inverse)
    return ordered.index_select(0, first), inverse, counts if return_counts else _nothing()


@custom("_unique", planned=False)
def unique(self, sorted=True, return_inverse=False):
    return unique2(self, sorted, return_inverse)[:2]


@custom("unique_consecutive", planned=False)
def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    if dim is not None:
        return unique_dim_consecutive(self, dim, return_inverse, return_counts)
    x = self.reshape(-1).contiguous()
    if x.dtype not in T.DTYPES:
        raise dtypes.Unsupported(f"webgpu: unique_consecutive has no kernel for {x.dtype}")
    if not x.numel():
        return _nothing(x.dtype), T.empty(self.shape, torch.int64) if return_inverse else _nothing(), _nothing()
    flags = T.empty((x.numel(),), torch.int32)
    run(search.differs(T.dtype_of(x), caps()), (x,), (flags,))
    numbers, first, counts = _groups(flags)
    inverse = (numbers.long() - 1).reshape(self.shape) if return_inverse else _nothing()
    return x.index_select(0, first), inverse, counts if return_counts else _nothing()


def _rows(x: torch.Tensor, dim: int) -> torch.Tensor:
    """One row per position of a dimension."""
    return x.movedim(dim, 0).reshape(x.shape[dim], -1)


def _unique_rows(x: torch.Tensor, dim: int, order, return_inverse: bool, return_counts: bool):
    """Unique slices of `x` where equal ones are neighbours in `order` (None: as they are)."""
    rows = _rows(x, dim)
    if order is not None:
        rows = rows.index_select(0, order)
    flags = T.empty((rows.shape[0],), torch.int32).fill_(1)
    if rows.shape[0] > 1:
        flags[1:] = (rows[1:] != rows[:-1]).any(1).to(torch.int32)
    numbers, first, counts = _groups(flags)
    shape = list(x.shape)
    moved = [first.numel(), *shape[:dim], *shape[dim + 1 :]]
    values = rows.index_select(0, first).reshape(moved).movedim(0, dim)  # and lies so, as the CPU's
    inverse = _nothing()
    if return_inverse:
        inverse = numbers.long() - 1
        if order is not None:
            inverse = torch.empty_like(inverse).scatter_(0, order, inverse)
    return values, inverse, counts if return_counts else _nothing()


def _check_unique_dim(x: torch.Tensor, dim: int) -> None:
    if x.shape[dim] == 0 or 0 in x.shape:
        zeros = sum(1 for s in x.shape if s == 0)
        if x.shape[dim] != 0 or zeros != 1:
            raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")


@custom("unique_dim", planned=False)
def unique_dim(self, dim, sorted=True, return_inverse=False, return_counts=False):
    dim = canonicalize_dim(self.dim(), dim)
    _check_unique_dim(self, dim)
    if not self.numel():
        return T.empty(self.shape, self.dtype), _nothing(), _nothing()
    rows = _rows(self, dim)
    order = None
    # Stable sorts by each column, the last first, leave the rows in lexical order.
    for column in range(rows.shape[1] - 1, -1, -1):
        keys = rows[:, column] if order is None else rows[:, column].index_select(0, order)
        step = torch.sort(keys, stable=True)[1]
        order = step if order is None else order.index_select(0, step)
    return _unique_rows(self, dim, order, return_inverse, return_counts)


@custom("unique_dim_consecutive", planned=False)
def unique_dim_consecutive(self, dim, return_inverse=False, return_counts=False):
    dim = canonicalize_dim(self.dim(), dim)
    _check_unique_dim(self, dim)
    if not self.numel():
        return T.empty(self.shape, self.dtype), _nothing(), _nothing()
    return _unique_rows(self, dim, None, return_inverse, return_counts)


@custom("mode", oversize=oversize.rows)
def mode(self, dim=-1, keepdim=False):
    dim = canonicalize_dim(self.dim(), dim)
    shape = _reduced(self, dim, keepdim)
    if self.dim() and self.shape[dim] == 0:
        raise IndexError(f"mode(): Expected reduction dim {dim} to have non-zero size.")
    x, dim = _ready("mode", self, dim)
    if not x.numel():
        return T.empty(shape, x.dtype), T.empty(shape, torch.int64)
    sizes = outer, length, inner = blocks_of(x.shape, dim)
    # The index is that of the last of the equal values, in the CPU's order where that is known.
    pairs, stride = (quick_pairs if fits_quick(x, sizes) else sorted_pairs)(x, sizes, False)
    counts = T.empty((outer * inner, length), torch.int32)
    run(search.over_pairs("runs", T.dtype_of(x), caps()), (pairs,), (counts,), length)
    best = counts.argmax(1).reshape(outer, inner)
    values, indices = take("take", x, sizes, pairs, stride, (outer, length, inner), length)
    where = best.unsqueeze(1)
    return values.gather(1, where).reshape(shape), indices.gather(1, where).reshape(shape)


@custom("mode.values")
def mode_out(self, dim=-1, keepdim=False, *, values, indices):
    """Registered because torch's own asks for a device that it knows."""
    found = mode(self, dim, keepdim)
    for out, result in zip((values, indices), found):
        if out.dtype != result.dtype:
            wanted, given = _scalar_name(result.dtype), _scalar_name(out.dtype)
            name = "values" if out is values else "indices"
            raise RuntimeError(f"expected scalar type '{wanted}' but got '{given}' for {name} output")
        resize_output(out, result.shape)
        device_copy(result, out)
    return values, indices


@custom("histc", oversize=oversize.histc)
def histc(self, bins=100, min=0, max=0):
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if self.dtype in _INTEGERS:
        return _histc_of_integers(self, bins, int(min), int(max))
    if not self.is_floating_point():
        raise dtypes.Unsupported(f"webgpu: histc has no kernel for {self.dtype}")
    low, high = float(min), float(max)
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    if low == high and self.numel():
        low, high = float(self.min().item()), float(self.max().item())
    if low == high:
        low, high = low - 1, high + 1
    if not (abs(low) < float("inf") and abs(high) < float("inf")):
        most = torch.finfo(self.dtype).max  # from where the CPU looks for both ends
        low, high = most if low > most else low, -most if high < -most else high
        raise RuntimeError(f"torch.histc: range of [{low:g}, {high:g}] is not finite")
    counts = T.empty((bins,), torch.int32).zero_()
    n = self.numel()
    if n:
        x = self.contiguous()
        launch(search.plan_histc(T.dtype_of(x), n, bins, low, high, x.storage_offset(), caps()), x, counts)
    return counts.to(self.dtype)


_INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


def _histc_of_integers(self, bins: int, low: int, high: int):
    """As CUDA counts them, in whole numbers: routers count the tokens of each expert this way."""
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    if low == high and self.numel():
        low, high = int(self.min().item()), int(self.max().item())
    if low == high:
        low, high = low - 1, high + 1
    x = self.reshape(-1).to(torch.int64)
    place = ((x - low) * bins).floor_divide(high - low).clamp_(max=bins - 1)
    place = torch.where((x < low) | (x > high), bins, place)  # one more bin takes what is outside
    counts = torch.zeros(bins + 1, dtype=torch.int64, device=self.device)
    return counts.scatter_add_(0, place, torch.ones_like(x))[:bins].to(self.dtype)


def _check_isin(x: torch.Tensor) -> None:
    if x.is_complex() or x.dtype is torch.bool:
        raise NotImplementedError(f"Unsupported input type encountered for isin(): {_scalar_name(x.dtype)}")


@custom("isin.Tensor_Tensor", oversize=oversize.isin)
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    for x in (elements, test_elements):
        _check_isin(x)
    common = torch.result_type(elements, test_elements)
    if common.is_complex or common not in T.DTYPES:
        raise dtypes.Unsupported(f"webgpu: isin has no kernel for {common}")
    if not test_elements.numel() or not elements.numel():
        return torch.full(elements.shape, invert, dtype=torch.bool, device=elements.device)
    values = elements.to(common)
    if test_elements.numel() == 1:
        found = values == test_elements.to(common).reshape(())
    else:
        known = torch.sort(test_elements.to(common).reshape(-1))[0]
        place = searchsorted(known, values).clamp_(max=known.numel() - 1)
        found = known.index_select(0, place.reshape(-1)).reshape(values.shape) == values
    return ~found if invert else found


@custom("isin.Tensor_Scalar", oversize=oversize.isin)
def isin_scalar(elements, test_element, *, assume_unique=False, invert=False):
    _check_isin(elements)
    return elements != test_element if invert else elements == test_element
