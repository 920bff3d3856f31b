"""How operators are cut where a tensor is larger than one binding: see `oversize.py`.

A rule takes the overload and its arguments, and answers NotImplemented where it knows no way.
"""

import torch
from torch._prims_common import canonicalize_dim

from ... import tensor as T
from .rules import apply, limit_bytes, other, pieces, rule

aten = torch.ops.aten


# -- by a batch


@rule("_fft_c2c", "_fft_r2c", "_fft_c2r")
def _fft(overload, self, dim, *rest):
    free = other(self, *(d % self.dim() for d in dim))
    return NotImplemented if free is None else apply(overload, (self, dim, *rest), {}, {0: free}, free)


@rule(
    "max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d", "adaptive_max_pool2d", "adaptive_max_pool3d", "im2col", "col2im", "upsample_nearest1d",
    "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d",
    "upsample_trilinear3d", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
    "replication_pad1d", "replication_pad2d", "replication_pad3d",
)  # fmt: skip
def _batch(overload, self, *args, **kwargs):
    """The first dimension is a batch, or the channels of one sample that is treated channel by channel."""
    return apply(overload, (self, *args), kwargs, {0: 0}, 0)


@rule("grid_sampler_2d", "grid_sampler_3d")
def _pair(overload, a, b, *args, **kwargs):
    return apply(overload, (a, b, *args), kwargs, {0: 0, 1: 0}, 0)


# -- moving elements


@rule("cat")
def _cat(overload, tensors, dim=0):
    tensors = [t for t in tensors if t.dim() != 1 or t.numel()]  # torch's legacy of empty vectors
    dim = canonicalize_dim(tensors[0].dim(), dim)
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = torch.promote_types(dtype, t.dtype)
    shape = list(tensors[0].shape)
    shape[dim] = sum(t.shape[dim] for t in tensors)
    out, at = T.empty(shape, dtype), 0
    for t in tensors:
        out.narrow(dim, at, t.shape[dim]).copy_(t)
        at += t.shape[dim]
    return out


@rule("stack")
def _stack(overload, tensors, dim=0):
    dim = canonicalize_dim(tensors[0].dim() + 1, dim)
    return torch.cat([t.unsqueeze(dim) for t in tensors], dim)


@rule("flip")
def _flip(overload, self, dims):
    dims = [canonicalize_dim(self.dim(), d) for d in dims]
    free = other(self, *dims)
    if free is not None:
        return apply(overload, (self, dims), {}, {0: free}, free)
    dim = max(dims, key=lambda d: self.shape[d])
    parts = [overload(self.narrow(dim, *piece), dims) for piece in pieces(self.shape[dim], self)]
    return torch.cat(parts[::-1], dim)


@rule("roll")
def _roll(overload, self, shifts, dims=()):
    if not dims:
        return overload(self.reshape(-1), shifts, [0]).view(self.shape)
    for shift, dim in zip(shifts, dims):
        size = self.shape[dim]
        shift %= max(size, 1)
        if shift:
            self = torch.cat([self.narrow(dim, size - shift, shift), self.narrow(dim, 0, size - shift)], dim)
    return self


@rule("tril", "triu")
def _triangle(overload, self, diagonal=0):
    if self.dim() > 2 and self.shape[0] > 1:
        return apply(overload, (self, diagonal), {}, {0: 0}, 0)
    rows = self.dim() - 2
    parts = [
        overload(self.narrow(rows, start, length), diagonal + start) for start, length in pieces(self.shape[rows], self)
    ]
    return torch.cat(parts, rows)


@rule("constant_pad_nd")
def _pad(overload, self, pad, value=0):
    before = [0] * self.dim()
    shape = list(self.shape)
    for k in range(len(pad) // 2):
        before[-1 - k] = pad[2 * k]
        shape[-1 - k] += pad[2 * k] + pad[2 * k + 1]
    out = torch.full(shape, value, dtype=self.dtype, device=self.device)
    target, source = out, self
    for d, start in enumerate(before):
        low, high = max(start, 0), min(start + self.shape[d], shape[d])
        target = target.narrow(d, low, high - low)
        source = source.narrow(d, low - start, high - low)
    target.copy_(source)
    return out


# -- making


@rule("arange.start_step", "arange.start", "arange")
def _arange(overload, *bounds, **options):
    start, end, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    like = torch.arange(start, end, step, dtype=options.get("dtype"), device="meta")
    count, options["dtype"] = like.numel(), like.dtype
    item = options["dtype"].itemsize
    per = max(4, limit_bytes() // (2 * item) & ~3)
    if count <= per:
        return NotImplemented
    if not all(isinstance(b, int) for b in (start, step)):
        places = torch.arange(0, count, 1, dtype=torch.int64, device=T.DEVICE)
        return (places * step + start).to(options["dtype"])
    made = [
        torch.arange(start + first * step, start + min(first + per, count) * step, step, **options)
        for first in range(0, count, per)
    ]
    return torch.cat(made)


@rule("eye", "eye.m")
def _eye(overload, n, m=None, **options):
    out = torch.zeros(n, n if m is None else m, **options)
    out.diagonal().fill_(1)
    return out


# -- indices


@rule("index_select")
def _index_select(overload, self, dim, index):
    return apply(overload, (self, dim, index), {}, {2: 0}, canonicalize_dim(self.dim(), dim))


@rule("embedding")
def _embedding(overload, weight, indices, *rest):
    flat = indices.reshape(-1)
    return apply(overload, (weight, flat, *rest), {}, {1: 0}, 0).view(*indices.shape, weight.shape[1])


@rule("embedding_dense_backward")
def _embedding_backward(overload, grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    if scale_grad_by_freq:
        return NotImplemented
    rows, index = grad.reshape(-1, grad.shape[-1]), indices.reshape(-1)
    if padding_idx >= 0:
        rows = rows.masked_fill((index == padding_idx).unsqueeze(1), 0)
    return grad.new_zeros(num_weights, grad.shape[-1]).index_add_(0, index, rows)


@rule("take")
def _take(overload, self, index):
    return apply(overload, (self, index.reshape(-1)), {}, {1: 0}, 0).view(index.shape)


@rule("gather")
def _gather(overload, self, dim, index, **kwargs):
    dim = canonicalize_dim(self.dim(), dim)
    cut = other(index)
    if cut is None:
        return NotImplemented
    made = []
    for start, length in pieces(index.shape[cut], index, self):
        source = self if cut == dim else self.narrow(cut, start, length)
        made.append(overload(source, dim, index.narrow(cut, start, length), **kwargs))
    return torch.cat(made, cut)


@rule("index.Tensor", "_unsafe_index.Tensor")
def _index(overload, self, indices):
    given = [i for i, x in enumerate(indices) if x is not None]
    index = indices[given[0]]
    if len(given) > 1 or index.dtype not in (torch.int64, torch.int32) or not index.dim():
        return NotImplemented
    flat = torch.where(index < 0, index + self.shape[given[0]], index).reshape(-1)
    shape = (*self.shape[: given[0]], *index.shape, *self.shape[given[0] + 1 :])
    return torch.index_select(self, given[0], flat).view(shape)


@rule("index_add_")
def _index_add_(overload, self, dim, index, source, *, alpha=1):
    for start, length in pieces(index.shape[0], source):
        overload(self, dim, index.narrow(0, start, length), source.narrow(dim, start, length), alpha=alpha)
    return self


@rule("index_add")
def _index_add(overload, self, dim, index, source, *, alpha=1):
    return self.clone().index_add_(dim, index, source, alpha=alpha)


@rule("scatter_add_", "scatter_.src", "scatter_reduce_.two")
def _scatter_(overload, self, dim, index, src, *rest, **kwargs):
    dim = canonicalize_dim(self.dim(), dim)
    cut = other(index)
    if cut is None or kwargs.get("include_self") is False:
        return NotImplemented
    for start, length in pieces(index.shape[cut], index, src):
        target = self if cut == dim else self.narrow(cut, start, length)
        overload(target, dim, index.narrow(cut, start, length), src.narrow(cut, start, length), *rest, **kwargs)
    return self


@rule("scatter_add", "scatter.src", "scatter_reduce.two")
def _scatter(overload, self, *args, **kwargs):
    name = overload._schema.name.removeprefix("aten::")
    inplace = getattr(getattr(aten, name + "_"), overload._schema.overload_name or "default")
    return inplace(self.clone(), *args, **kwargs)


@rule("nonzero")
def _nonzero(overload, self):
    made = []
    for start, length in pieces(self.shape[0], self, self.new_empty(self.shape, dtype=torch.int64, device="meta")):
        found = overload(self.narrow(0, start, length))
        found[:, 0] += start
        made.append(found)
    return torch.cat(made)


@rule("masked_select")
def _masked_select(overload, self, mask):
    self, mask = torch.broadcast_tensors(self, mask)
    wide = torch.empty(self.shape, dtype=torch.int64, device="meta")
    made = [
        overload(self.narrow(0, start, length), mask.narrow(0, start, length))
        for start, length in pieces(self.shape[0], self, mask, wide)
    ]
    return torch.cat(made)


@rule("searchsorted.Tensor")
def _searchsorted(overload, sequence, self, **kwargs):
    if sequence.dim() > 1:
        return apply(overload, (sequence, self), kwargs, {0: 0, 1: 0}, 0)
    return apply(overload, (sequence, self), kwargs, {1: 0}, 0)


@rule("bucketize.Tensor")
def _bucketize(overload, self, boundaries, **kwargs):
    return apply(overload, (self, boundaries), kwargs, {0: 0}, 0)


@rule("isin.Tensor_Tensor", "isin.Tensor_Scalar")
def _isin(overload, elements, *args, **kwargs):
    return apply(overload, (elements, *args), kwargs, {0: 0}, 0)


@rule("bincount")
def _bincount(overload, self, weights=None, minlength=0):
    if not self.numel():
        return NotImplemented
    minlength = max(minlength, int(self.max().item()) + 1)
    total = None
    for start, length in pieces(self.shape[0], self, torch.empty(self.shape, dtype=torch.int64, device="meta")):
        part = overload(self.narrow(0, start, length), None if weights is None else weights.narrow(0, start, length),
                        minlength)  # fmt: skip
        total = part if total is None else total + part
    return total


@rule("histc")
def _histc(overload, self, bins=100, min=0, max=0):
    flat = self.reshape(-1)
    if min == max:
        min, max = (x.item() for x in torch.aminmax(flat))
    total = None
    for piece in pieces(flat.shape[0], flat):
        part = overload(flat.narrow(0, *piece), bins, min, max)
        total = part if total is None else total + part
    return total
