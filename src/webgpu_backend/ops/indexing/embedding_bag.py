"""embedding_bag and its gradients, embedding_renorm_, repeat_interleave."""

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.indexing.embedding_bag import plan, whole
from ...plan import caps, launch
from ...plan.faults import site
from ..pointwise.elementwise import _scalar_name
from ..shape.copy import fill
from ..table import custom
from .index_put import index_put_
from .index_rows import rows_into
from .read import INDEX_SIZE

_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
SUM, MEAN, MAX = 0, 1, 2
_NONE = 0xFFFFFFFF


@custom("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    weight, indices, offsets, scale_grad_by_freq=False, mode=SUM, sparse=False, per_sample_weights=None,
    include_last_offset=False, padding_idx=-1,
):  # fmt: skip
    _check_dimensions(weight, indices, offsets)
    indices = indices.reshape(-1)
    if weight.dtype not in _FLOATS:
        raise Unsupported(f"webgpu: embedding_bag of {weight.dtype}")
    for name, index in (("indices", indices), ("offsets", offsets)):
        if index.dtype not in INDEX_SIZE:
            raise RuntimeError(f"Expected {name} to be Long or Int, but got {_scalar_name(index.dtype)}")
    if indices.dtype != offsets.dtype:
        indices, offsets = indices.to(torch.int64), offsets.to(torch.int64)
    if per_sample_weights is not None:
        if mode != SUM:
            raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
        if per_sample_weights.dtype != weight.dtype:
            raise RuntimeError(
                f"expected scalar type {_scalar_name(weight.dtype)} but found {_scalar_name(per_sample_weights.dtype)}"
            )
    offsets = offsets.contiguous()
    if include_last_offset and not offsets.numel():
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    bags = offsets.numel() - bool(include_last_offset)
    width = weight.shape[1]
    wide = torch.float64 if weight.dtype is torch.float64 else torch.float32
    out, sizes = T.empty((bags, width), wide), T.empty((bags,), torch.int64)
    largest = mode == MAX
    maxima = T.empty((bags, width), torch.int64) if largest else fill(T.empty((bags,), torch.int64), 0)
    if not indices.numel():
        fill(out, 0), fill(sizes, 0), fill(maxima, 0)
    at_once = mode == MEAN and whole(indices.numel(), caps())
    if indices.numel() and bags and width:
        numbers = dict(
            n=bags * width, width=width, bags=bags, count=indices.numel(), w_o=weight.storage_offset(),
            w_s0=weight.stride(0), w_s1=weight.stride(1), i_o=indices.storage_offset(), i_s=indices.stride(0),
            off_o=offsets.storage_offset(), psw_o=0, psw_s=0, padding=padding_idx if padding_idx >= 0 else _NONE,
            limit=weight.shape[0], site=site("embedding_bag", 0, False), mean=at_once,
        )  # fmt: skip
        tensors = [weight, indices, offsets]
        if per_sample_weights is not None:
            numbers |= {"psw_o": per_sample_weights.storage_offset(), "psw_s": per_sample_weights.stride(0)}
            tensors.append(per_sample_weights)
        if include_last_offset:
            numbers["bags"] = bags + 1
        tensors += [out, sizes] + ([maxima] if largest else [])
        weighted = per_sample_weights is not None
        launch(plan(T.dtype_of(weight), indices.element_size(), largest, weighted, numbers, caps()), *tensors)
    if mode == MEAN and not at_once:
        out = out / sizes.clamp(min=1).unsqueeze(1).to(wide)
    if not largest:
        maxima = sizes.clone() if mode == MEAN else maxima
    return out.to(weight.dtype), _bag_of(offsets, indices.numel(), bags), sizes, maxima


def _check_dimensions(weight, indices, offsets) -> None:
    if indices.dim() not in (1, 2):
        raise RuntimeError(f"input has to be a 1D or 2D Tensor, but got Tensor of dimension {indices.dim()}")
    if offsets.dim() != 1:
        raise RuntimeError(f"offsets has to be a 1D Tensor, but got Tensor of dimension {offsets.dim()}")
    if weight.dim() != 2:
        raise RuntimeError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")


def _bag_of(offsets: torch.Tensor, count: int, bags: int) -> torch.Tensor:
    """For every index, the bag it is in."""
    if not count or not bags:
        return T.empty((0,), offsets.dtype)
    places = torch.arange(count, dtype=offsets.dtype, device=T.here())
    narrow = offsets.dtype is torch.int32
    return torch.searchsorted(offsets[:bags], places, right=True, out_int32=narrow) - 1  # the last of equal starts


@custom("_embedding_bag_dense_backward")
def embedding_bag_dense_backward(
    grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights,
    padding_idx=-1,
):  # fmt: skip
    wide = torch.float64 if grad.dtype is torch.float64 else torch.float32
    out = fill(T.empty((num_weights, grad.shape[1]), wide), 0)
    if indices.numel():
        wide_grad = grad.to(wide)
        if mode == MAX:
            wide_grad = wide_grad * (bag_size > 0).unsqueeze(1)
            out.scatter_add_(0, maximum_indices, wide_grad)
        else:
            if mode == MEAN:
                wide_grad = wide_grad / bag_size.clamp(min=1).unsqueeze(1)
            rows = wide_grad.index_select(0, offset2bag)
            if per_sample_weights is not None:
                rows = rows * per_sample_weights.to(wide).unsqueeze(1)
            if scale_grad_by_freq:
                counts = fill(T.empty((num_weights,), wide), 0)
                ones = fill(T.empty((1,), wide), 1).expand(indices.numel())
                rows_into(counts, 0, indices, ones, "sum", "embedding_bag")
                rows = rows / counts.index_select(0, indices).unsqueeze(1)
            rows_into(out, 0, indices, rows, "sum", "embedding_bag")
            if 0 <= padding_idx < num_weights:
                fill(out[padding_idx], 0)
    return out.to(grad.dtype)


@custom("_embedding_bag_backward", planned=False)
def embedding_bag_backward(
    grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, sparse,
    per_sample_weights, padding_idx=-1,
):  # fmt: skip
    """Torch's two ways by their own names: a sparse gradient cannot be planned."""
    if offset2bag.numel() != indices.numel():
        offset2bag = _bag_of(offsets.contiguous(), indices.numel(), grad.shape[0])
    if not sparse:
        return torch.ops.aten._embedding_bag_dense_backward(
            grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode,
            per_sample_weights, padding_idx,
        )  # fmt: skip
    if mode == MAX:
        raise RuntimeError("embedding_bag: sparse gradients are for the modes 'sum' and 'mean'")
    rows = grad.index_select(0, offset2bag)
    if mode == MEAN:
        rows = rows / bag_size.index_select(0, offset2bag).unsqueeze(1).to(grad.dtype)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    return torch.ops.aten.embedding_sparse_backward(rows, indices, num_weights, padding_idx, scale_grad_by_freq)


@custom("_embedding_bag_per_sample_weights_backward")
def embedding_bag_per_sample_weights_backward(grad, weight, indices, offsets, offset2bag, mode, padding_idx=-1):
    if mode != SUM:
        raise RuntimeError("embedding_bag_backward: per_sample_weights only supported for mode='sum'")
    if not indices.numel():
        return T.empty((0,), grad.dtype)
    if offset2bag.numel() != indices.numel():
        offset2bag = _bag_of(offsets.contiguous(), indices.numel(), grad.shape[0])
    wide = torch.promote_types(grad.dtype, torch.float32)
    products = grad.index_select(0, offset2bag).to(wide) * weight.index_select(0, indices).to(wide)
    result = products.sum(1).to(grad.dtype)
    if padding_idx >= 0:
        result = result.masked_fill(indices == padding_idx, 0)
    return result


@custom("embedding_renorm_")
def embedding_renorm_(self, indices, max_norm, norm_type):
    if not indices.numel():
        return self
    rows = self.index_select(0, indices.reshape(-1))
    norms = torch.linalg.vector_norm(rows, norm_type, 1, keepdim=True)
    # Repeated indices write the same row, so their order is no matter.
    shrunk = torch.where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows).to(self.dtype)
    return index_put_(self, [indices.reshape(-1)], shrunk)


@custom("repeat_interleave.Tensor")
def repeat_interleave(repeats, *, output_size=None):
    if repeats.dim() == 0:
        repeats = repeats.reshape(1)
    if repeats.dim() != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.dtype not in INDEX_SIZE:
        raise RuntimeError("repeats has to be Long or Int tensor")
    if not repeats.numel():
        return T.empty((0,), repeats.dtype)
    ends = repeats.cumsum(0)
    total = output_size
    if total is None:
        total, least = torch.stack([ends[-1], repeats.amin().to(ends.dtype)]).tolist()
        if least < 0:
            raise RuntimeError("repeats can not be negative")
    if not total:
        return T.empty((0,), repeats.dtype)
    # A one where each value but the first begins; values that are never repeated begin together.
    marks = fill(T.empty((total + 1,), torch.int64), 0)
    if repeats.numel() > 1:
        ones = fill(T.empty((1,), torch.int64), 1).expand(repeats.numel() - 1)
        rows_into(marks, 0, ends[:-1], ones, "sum", "repeat_interleave")
    return marks[:total].cumsum(0).to(repeats.dtype)
