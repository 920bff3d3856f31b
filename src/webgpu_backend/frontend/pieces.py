"""How operators are cut where a tensor is larger than one binding: see `oversize.py`.

A rule takes the overload and its arguments, and answers NotImplemented where it knows no way.
"""

import torch
from torch._prims_common import canonicalize_dim

from .. import tensor as T
from .oversize import apply, limit_bytes, other, pieces, rule

aten = torch.ops.aten


# -- along a dimension, each row for itself


@rule("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "_logcumsumexp")
def _scan(overload, self, dim, **kwargs):
    dim = canonicalize_dim(self.dim(), dim)
    free = other(self, dim)
    if free is not None:
        return apply(overload, (self, dim), kwargs, {0: free}, free)
    name = overload._schema.name.removeprefix("aten::").removeprefix("_")
    if name in ("cummax", "cummin"):
        return _long_extremes(overload, self, dim)
    join = {"cumsum": torch.add, "cumprod": torch.mul, "logcumsumexp": torch.logaddexp}[name]
    made = []
    for start, length in pieces(self.shape[dim], self):
        part = overload(self.narrow(dim, start, length), dim, **kwargs)
        made.append(part if not made else join(part, made[-1].narrow(dim, -1, 1)))
    return torch.cat(made, dim)


def _long_extremes(overload, x, dim):
    """Values so far and where they are: what earlier pieces found holds until something is as good."""
    better = torch.gt if "cummax" in overload._schema.name else torch.lt
    made = []
    for start, length in pieces(x.shape[dim], x, torch.empty(x.shape, dtype=torch.int64, device="meta")):
        values, indices = overload(x.narrow(dim, start, length), dim)
        indices = indices + start
        if made:
            before, where = (t.narrow(dim, -1, 1) for t in made[-1])
            held = better(before, values) | (before.isnan() & values.isnan().logical_not())
            values, indices = torch.where(held, before, values), torch.where(held, where, indices)
        made.append((values, indices))
    return [torch.cat(same, dim) for same in zip(*made)]


@rule("sort", "topk", "kthvalue", "mode", "median.dim", "nanmedian.dim", "sort.stable")
def _rows(overload, self, *args, **kwargs):
    at = 1 if overload._schema.name in ("aten::topk", "aten::kthvalue") else 0
    dim = kwargs.get("dim", args[at] if len(args) > at else -1)
    dim = canonicalize_dim(self.dim(), dim)
    free = other(self, dim)
    if free is not None:
        gone = overload._schema.name not in ("aten::sort", "aten::topk")
        kept = not gone or kwargs.get("keepdim", args[at + 1] if len(args) > at + 1 else False)
        return apply(overload, (self, *args), kwargs, {0: free}, free if kept or free < dim else free - 1)
    name = overload._schema.name.removeprefix("aten::")
    if name == "sort":
        descending = kwargs.get("descending", args[1] if len(args) > 1 else False)
        return [t.view(self.shape) for t in _long_sort(self.reshape(-1), descending)]
    if name in ("kthvalue", "median", "nanmedian"):
        kept = kwargs.get("keepdim", args[at + 1] if len(args) > at + 1 else False)
        shape = [1] * self.dim() if kept else [1] * (self.dim() - 1)
        values, indices = _long_sort(self.reshape(-1), False)
        k = args[0] - 1 if name == "kthvalue" else _middle(self, name == "nanmedian")
        return values[k].clone().view(shape), indices[k].clone().view(shape)
    if name != "topk":
        return NotImplemented
    best = []
    for start, length in pieces(self.shape[dim], self):
        if length < args[0]:
            return NotImplemented
        values, indices = overload(self.narrow(dim, start, length), *args, **kwargs)
        best.append((values, indices + start))
    values, order = overload(torch.cat([v for v, _ in best], dim), *args, **kwargs)
    return values, torch.cat([i for _, i in best], dim).gather(dim, order)


def _middle(x: torch.Tensor, skip_nan: bool) -> int:
    """Where the median is in a sorted row: numbers first, and of the NaN the first."""
    numbers = x.numel() - int(x.isnan().sum()) if x.is_floating_point() else x.numel()
    if skip_nan or numbers == x.numel():
        return max(numbers - 1, 0) // 2
    return numbers


@rule("median", "nanmedian")
def _median(overload, self):
    name = overload._schema.name.removeprefix("aten::")
    return getattr(torch, name)(self.reshape(-1), 0)[0]


def _long_sort(x: torch.Tensor, descending: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """A stable sort of a vector. Parts are sorted; values sampled from all of them cut each where the others are cut,
    and what lies between two cuts, and fits, is sorted again. Equal values are never cut from each other."""
    n, share = x.shape[0], max(limit_bytes() // (8 * max(x.element_size(), 4)), 16)
    starts = range(0, n, share)
    parts = []
    for start in starts:
        values, indices = torch.sort(x.narrow(0, start, min(share, n - start)), stable=True, descending=descending)
        parts.append((values, indices.add_(start)))
    samples = 4 * len(parts)
    drawn = torch.cat([values[:: max(share // samples, 1)] for values, _ in parts])
    cuts = torch.sort(drawn, descending=descending)[0][samples // 2 :: samples // 2].tolist()
    cuts = [a for a, b in zip(cuts, [*cuts[1:], None]) if a != b and not (a != a and b is not None)]
    places = [torch.stack(_places(values, cuts, descending)) for values, _ in parts]
    places = torch.stack(places, -1).transpose(0, 1).reshape(-1, len(parts)).tolist()
    out, order, at = T.empty((n,), x.dtype), T.empty((n,), torch.int64), 0
    begins = [0] * len(parts)
    for number, ends in enumerate([*places, [values.shape[0] for values, _ in parts]]):
        taken = [(v[b:e], i[b:e]) for (v, i), b, e in zip(parts, begins, ends) if e > b]
        begins = ends
        if not number % 2 and len(taken) > 1:  # between two cuts, rather than all equal
            values, indices = (torch.cat(same) for same in zip(*taken))
            values, places_in = torch.sort(values, stable=True, descending=descending)
            taken = [(values, indices[places_in])]
        for values, indices in taken:
            out[at : at + values.shape[0]] = values
            order[at : at + values.shape[0]] = indices
            at += values.shape[0]
    return out, order


def _places(values: torch.Tensor, cuts: list, descending: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Where each cut comes first and last among sorted values: by bisection, with NaN as the largest."""
    cuts = torch.tensor(cuts, dtype=values.dtype, device=values.device)

    def before(a, b):
        a, b = (b, a) if descending else (a, b)
        return (a < b) | (b.isnan() & a.isnan().logical_not()) if values.is_floating_point() else a < b

    found = []
    for last in (False, True):
        low = torch.zeros(cuts.shape, dtype=torch.int64, device=values.device)
        high = torch.full_like(low, values.shape[0])
        for _ in range(values.shape[0].bit_length()):
            mid = (low + high) // 2
            x = values[mid.clamp_max(values.shape[0] - 1)]
            right = (before(cuts, x).logical_not() if last else before(x, cuts)) & (low < high)
            low, high = torch.where(right, mid + 1, low), torch.where(right, high, mid)
        found.append(low)
    return found[0], found[1]


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
