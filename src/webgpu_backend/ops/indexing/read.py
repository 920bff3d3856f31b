"""Reading through indices: gather, index_select, take, embedding, advanced indexing."""

import warnings
from struct import pack

import torch
from torch._prims_common import canonicalize_dim

from ... import tensor as T
from ...kernels.indexing.read import Axis, plan
from ...kernels.layout import iterator_order, numel, strides_in
from ...plan import caps, launch, windows
from ...plan.faults import site
from ...plan.outline import not_lasting
from ...runtime.errors import BindingTooLarge
from ..pointwise.elementwise import _scalar_name, broadcast_shape
from ..table import custom
from . import oversize

INDEX_SIZE = {torch.int64: 8, torch.int32: 4}


def like(tensor: torch.Tensor) -> torch.Tensor:
    """The same metadata on the meta device: torch's own checks, with torch's own words."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def axis(index: torch.Tensor, strides, limit: int, step: int, op: str, dim: int, wraps: bool) -> Axis:
    if not limit and index.numel():
        raise IndexError(f"index is out of bounds for dimension with size 0 (dimension {dim} in aten::{op})")
    return Axis(INDEX_SIZE[index.dtype], tuple(strides), index.storage_offset(), limit, step, site(op, dim, wraps))


def read(source: torch.Tensor, indices, shape, strides, axes, order=None) -> torch.Tensor:
    """A new tensor of `shape` from elements of the source, whose strides over that shape are given; each axis adds
    what its index says. `order`: of its dimensions in memory."""
    out = T.empty(shape, source.dtype, strides_in(shape, order) if order else None)
    if not out.numel():
        return out
    if order:
        shape, strides = [shape[d] for d in order], [strides[d] for d in order]
        axes = [a._replace(strides=tuple([a.strides[d] for d in order])) for a in axes]
    item, offset = source.element_size(), source.storage_offset()
    try:
        launch(plan(shape, item, strides, offset, axes, caps()), source, *indices, out)
    except BindingTooLarge:  # a source larger than one binding: a dispatch for each part of it
        step = plan(shape, item, strides, offset, axes, caps(), windowed=True)
        for window, first, end in windows(source):
            launch(step.followed(pack("<II", first, end)), window, *indices, out)
    return out


def along(self: torch.Tensor, dim: int, index: torch.Tensor, op: str):
    """Source strides and the axis for operators that index one dimension with an index of full rank."""
    if not self.dim():
        return (0,) * index.dim(), axis(index, index.stride(), 1, 1, op, 0, False)
    dim %= self.dim()
    if not index.dim():  # one index into a vector
        return (), axis(index, (), self.shape[dim], self.stride(dim), op, dim, False)
    strides = tuple(0 if d == dim else st for d, st in enumerate(self.stride()))
    return strides, axis(index, index.stride(), self.shape[dim], self.stride(dim), op, dim, False)


@custom("gather", oversize=oversize.gather)
def gather(self, dim, index, *, sparse_grad=False):
    canonicalize_dim(self.dim(), dim)
    shape = torch.ops.aten.gather(like(self), dim, like(index)).shape
    if not index.numel():
        return T.empty(shape, self.dtype)
    strides, one = along(self, dim, index, "gather")
    return read(self, (index,), shape, strides, [one])


@custom("index_select", oversize=oversize.index_select)
def index_select(self, dim, index):
    return read(self, (index,), *_index_select(self, dim, index))


def _index_select(self, dim, index):
    if index.dtype not in INDEX_SIZE:
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if index.dim() > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if not self.dim():
        if dim not in (0, -1):
            raise IndexError(f"Dimension out of range (expected to be in range of [-1, 0], but got {dim})")
        if index.numel() != 1:
            count = index.numel()
            raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {count} value(s)")
        return (), (), [axis(index, (), 1, 0, "index_select", 0, False)]
    d = canonicalize_dim(self.dim(), dim)
    shape, strides, steps = list(self.shape), list(self.stride()), [0] * self.dim()
    one = axis(index, (), self.shape[d], self.stride(d), "index_select", d, False)
    shape[d], strides[d], steps[d] = index.numel(), 0, index.stride(0) if index.dim() else 0
    return tuple(shape), tuple(strides), [one._replace(strides=tuple(steps))]


@custom("take", oversize=oversize.take)
def take(self, index):
    if not self.is_contiguous():
        self = self.contiguous()
    if index.dtype is not torch.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {_scalar_name(index.dtype)}")
    if not self.numel() and index.numel():
        raise IndexError("take(): tried to take from an empty tensor")
    one = axis(index, index.stride(), self.numel(), 1, "take", 0, True)
    return read(self, (index,), tuple(index.shape), (0,) * index.dim(), [one])


@custom("embedding", oversize=oversize.embedding)
def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    if weight.dim() != 2:
        raise RuntimeError("'weight' must be 2-D")
    if indices.dtype not in INDEX_SIZE:
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but "
            f"got torch.{_scalar_name(indices.dtype)}Tensor instead (while checking arguments for embedding)"
        )
    rows = axis(indices, (*indices.stride(), 0), weight.shape[0], weight.stride(0), "embedding", 0, False)
    shape, strides = (*indices.shape, weight.shape[1]), (0,) * indices.dim() + (weight.stride(1),)
    return read(weight, (indices,), shape, strides, [rows])


# -- advanced indexing


def device_indices(self: torch.Tensor, indices) -> list[torch.Tensor | None]:
    """Index tensors on the device, masks turned into the positions they select."""
    from .masks import nonzero_columns

    if self.device.type != T.NAME:
        raise RuntimeError(
            f"indices should be either on cpu or on the same device as the indexed tensor ({self.device})"
        )
    if len(indices) > self.dim():
        raise IndexError(f"too many indices for tensor of dimension {self.dim()} (got {len(indices)})")
    result: list[torch.Tensor | None] = []
    for index in indices:
        if index is None:
            result.append(None)
            continue
        if index.dtype not in INDEX_SIZE and index.dtype not in (torch.bool, torch.uint8):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if index.device.type != T.NAME:
            if not index.is_cpu:
                raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor")
            index = index.to(T.here())
        if index.dtype in INDEX_SIZE:
            result.append(index)
            continue
        at = len(result)
        for d in range(index.dim()):
            if at + d >= self.dim() or index.shape[d] != self.shape[at + d]:
                raise IndexError(
                    f"The shape of the mask {list(index.shape)} at index {d} does not match the shape of the indexed "
                    f"tensor {list(self.shape)} at index {at + d}"
                )
        result.extend(nonzero_columns(index))
        if index.dtype is torch.uint8:  # behind the place where a plan in the making ends: it is told once
            not_lasting()
            warnings.warn(
                "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
                stacklevel=2,
            )
    if len(result) > self.dim():
        raise IndexError(f"too many indices for tensor of dimension {self.dim()} (got {len(result)})")
    while result and result[-1] is None:
        result.pop()
    return result


def flat_mask(self: torch.Tensor, indices):
    """A single mask of several dimensions as a vector over a flattened view of self: one index tensor, not several.

    Gives (view, indices), or None where self has no such view.
    """
    given = [k for k, i in enumerate(indices) if i is not None]
    if len(given) != 1 or indices[given[0]].dtype is not torch.bool or indices[given[0]].dim() < 2:
        return None
    at, mask = given[0], indices[given[0]]
    end = at + mask.dim()
    if tuple(self.shape[at:end]) != tuple(mask.shape) or not self.numel():
        return None
    if any(self.stride(d) != self.stride(d + 1) * self.shape[d + 1] for d in range(at, end - 1)):
        return None
    if mask.device.type != T.NAME:
        mask = mask.to(T.here())
    view = T.as_strided(
        self,
        (*self.shape[:at], mask.numel(), *self.shape[end:]),
        (*self.stride()[:at], self.stride(end - 1), *self.stride()[end:]),
    )
    return view, [*indices[:at], mask.reshape(-1)]


def advanced(self: torch.Tensor, indices: list[torch.Tensor | None], op: str):
    """(result shape, strides of self over it, axes in the order of the given index tensors)."""
    given = [d for d, i in enumerate(indices) if i is not None]
    try:
        shape = broadcast_shape([indices[d].shape for d in given])
    except RuntimeError:
        shapes = ", ".join(str(list(indices[d].shape)) for d in given)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None
    adjacent = given == list(range(given[0], given[0] + len(given)))
    rest = [d for d in range(self.dim()) if d not in given]
    lead = given[0] if adjacent else 0
    before, after = rest[:lead], rest[lead:]
    sizes = [self.shape[d] for d in before] + list(shape) + [self.shape[d] for d in after]
    strides = [self.stride(d) for d in before] + [0] * len(shape) + [self.stride(d) for d in after]
    axes = []
    empty = 0 in sizes
    for d in given:
        index = indices[d]
        own = (0,) * (len(shape) - index.dim())
        own += tuple(0 if s == 1 else st for s, st in zip(index.shape, index.stride()))
        over = (0,) * len(before) + own + (0,) * len(after)
        limit = 1 if empty else self.shape[d]
        axes.append(axis(index, over, limit, self.stride(d), op, d, True))
    return tuple(sizes), tuple(strides), axes


def few(self: torch.Tensor, indices: list[torch.Tensor | None]):
    """At most four index tensors: more are joined into positions of a flattened front, which costs a copy of self."""
    given = [d for d, i in enumerate(indices) if i is not None]
    if len(given) <= 4:
        return self, indices
    order = given + [d for d in range(self.dim()) if d not in given]
    sizes = [self.shape[d] for d in given]
    flat = None
    for d in given:
        index = indices[d].to(torch.int64)
        # A position of its own for a bad index: one past the end of the whole, which the kernel reports.
        good = (index >= -self.shape[d]) & (index < self.shape[d])
        index = torch.where(index < 0, index + self.shape[d], index)
        index = torch.where(good, index, 1 << 40)
        flat = index if flat is None else flat * self.shape[d] + index
    rest = [self.shape[d] for d in order[len(given) :]]
    front = self.permute(order).reshape([numel(sizes), *rest])
    return front, [flat]


@custom("index.Tensor", oversize=oversize.index)
def index_tensor(self, indices):
    if not indices:
        raise IndexError("at least one index must be provided")
    flat = flat_mask(self, indices)
    if flat is not None:
        self, indices = flat
    indices = device_indices(self, indices)
    given = [i for i in indices if i is not None]
    if not given:
        return self.clone()
    if len(given) > 4:
        shape = advanced(self, indices, "index")[0]
        moved, joined = few(self, indices)
        out = index_tensor(moved, joined)
        return _restore(out, self, indices, shape)
    sizes, strides, axes = advanced(self, indices, "index")
    order = iterator_order(sizes, [strides, *[a.strides for a in axes]])
    return read(self, given, sizes, strides, axes, None if order == sorted(order) else order)


def _restore(out: torch.Tensor, self: torch.Tensor, indices, shape) -> torch.Tensor:
    """`few` puts the broadcast dimensions first; torch puts them where adjacent indices stood."""
    given = [d for d, i in enumerate(indices) if i is not None]
    lead = given[0] if given == list(range(given[0], given[0] + len(given))) else 0
    width = len(shape) - (self.dim() - len(given))
    return out.permute([*range(width, width + lead), *range(width), *range(width + lead, out.dim())])


@custom("_unsafe_index.Tensor", oversize=oversize.index)
def unsafe_index(self, indices):
    return index_tensor(self, indices)
