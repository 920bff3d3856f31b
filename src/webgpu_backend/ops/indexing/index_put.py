"""Writing single elements at indices: put and index_put."""

import torch

from ... import tensor as T
from ...kernels.layout import numel
from ...plan.outline import not_lasting
from ..overlap import expanded, no_internal_overlap, no_overlap, warn_expanded
from ..pointwise.elementwise import _scalar_name
from ..shape.copy import clone, device_copy
from ..table import autocast, custom
from .read import advanced, axis, device_indices, few, flat_mask
from .scatter import apart, both, duplicate, write

aten = torch.ops.aten


@both("put", copy=clone)
def put_(self, index, source, accumulate=False):
    if index.dtype is not torch.int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {_scalar_name(index.dtype)}")
    if self.dtype != source.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{_scalar_name(self.dtype)} and source.dtype = {_scalar_name(source.dtype)}"
        )
    if index.numel() != source.numel():
        raise IndexError(
            f"put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.numel()}, index.numel() = {index.numel()}"
        )
    no_internal_overlap(self)
    no_overlap(self, index, source)
    if not index.numel():
        return self
    if not self.numel():
        raise IndexError("put_(): Tried to put elements into an empty tensor")
    target = self if self.is_contiguous() else duplicate(self)
    index, source = apart(target, index.reshape(-1), source.reshape(-1))

    def layout(flat):
        return (index.numel(),), (0,), [axis(index, index.stride(), flat.numel(), 1, "put_", 0, True)]

    write("sum" if accumulate else "set", target, [index], source, layout)
    if target is not self:
        device_copy(target, self)
    return self


def _mask_only(indices, values, accumulate):
    """The position of the one index, a mask, where writing one value needs no positions."""
    given = [k for k, i in enumerate(indices) if i is not None]
    if accumulate or len(given) != 1 or values.numel() != 1:
        return None
    mask = indices[given[0]]
    return given[0] if mask.dtype is torch.bool and mask.device.type == T.NAME else None


def _broadcast(values, shape):
    """The values, one for each element that is written."""
    if list(values.shape) == list(shape):
        return values
    try:
        return values.expand(shape)
    except RuntimeError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result "
            f"of shape {list(shape)}"
        ) from None


@both("index_put", copy=clone)
def index_put_(self, indices, values, accumulate=False):
    if self.dtype != values.dtype:
        _broadcast(values, advanced(self, device_indices(self, indices), "index_put")[0])
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {_scalar_name(self.dtype)} for the "
            f"destination and {_scalar_name(values.dtype)} for the source."
        )
    if values.device.type != T.NAME:
        if values.dim():
            raise RuntimeError(f"expected tensor to be on device {T.here()} but found {values.device}")
        values = values.to(T.here())
    if expanded(self):
        not_lasting()
        warn_expanded("index_put_", "tensor")
    given = [i for i in indices if i is not None]
    if not accumulate and len(given) == 1 and given[0].dtype is torch.uint8 and values.numel() == 1:
        raise RuntimeError("masked_fill_ only supports boolean masks, but got mask with dtype unsigned char")
    at = _mask_only(indices, values, accumulate)
    if at is not None:
        mask = indices[at]
        if tuple(self.shape[at : at + mask.dim()]) == tuple(mask.shape):
            mask = mask.reshape([*mask.shape, *[1] * (self.dim() - at - mask.dim())])
            self.masked_fill_(mask, values.reshape(()))
            return self
    no_overlap(self, values, *indices)  # after masks of one value: those may be the tensor itself
    whole = self
    flat = flat_mask(self, indices)
    if flat is not None:
        self, indices = flat
    indices = device_indices(self, indices)
    given = [i for i in indices if i is not None]
    how = "sum" if accumulate else "set"
    if not given:
        return self.add_(values) if accumulate else self.copy_(values)
    shape = advanced(self, indices, "index_put")[0]
    values = _broadcast(values, shape)
    if not numel(shape):
        return whole
    if len(given) > 4:
        return _put_joined(self, indices, values, accumulate, shape)
    values, *given = apart(self, values, *given)
    for d, index in zip([d for d, i in enumerate(indices) if i is not None], given):
        indices[d] = index
    write(how, self, given, values, lambda target: advanced(target, indices, "index_put"))
    return whole


def _put_joined(self, indices, values, accumulate, shape):
    """More index tensors than a kernel binds: on a copy with the indexed dimensions in front, flattened."""
    given = [d for d, i in enumerate(indices) if i is not None]
    order = given + [d for d in range(self.dim()) if d not in given]
    front, joined = few(duplicate(self), indices)
    front = duplicate(front)
    lead = given[0] if given == list(range(given[0], given[0] + len(given))) else 0
    width = len(shape) - (self.dim() - len(given))
    values = values.permute([*range(lead, lead + width), *range(lead), *range(lead + width, len(shape))])
    index_put_(front, joined, values, accumulate)
    moved = self.permute(order)
    device_copy(front.reshape(moved.shape), moved)
    return self


@custom("_index_put_impl_")
def index_put_impl_(self, indices, values, accumulate=False, unsafe=False):
    return index_put_(self, indices, values, accumulate)


@custom("_unsafe_index_put")
def unsafe_index_put(self, indices, values, accumulate=False):
    return index_put_(clone(self), indices, values, accumulate)


autocast("widest", "index_put")
