"""Operators along a dimension, where a tensor is larger than one binding: row by row, and in parts of a row that is
itself too long."""

import torch
from torch._prims_common import canonicalize_dim

from ... import tensor as T
from ..oversize import apply, limit_bytes, other, pieces


def searchsorted(overload, sequence, self, **kwargs):
    if sequence.dim() > 1:
        return apply(overload, (sequence, self), kwargs, {0: 0, 1: 0}, 0)
    return apply(overload, (sequence, self), kwargs, {1: 0}, 0)


def bucketize(overload, self, boundaries, **kwargs):
    return apply(overload, (self, boundaries), kwargs, {0: 0}, 0)


def isin(overload, elements, *args, **kwargs):
    return apply(overload, (elements, *args), kwargs, {0: 0}, 0)


def histc(overload, self, bins=100, min=0, max=0):
    flat = self.reshape(-1)
    if min == max:
        min, max = (x.item() for x in torch.aminmax(flat))
    total = None
    for piece in pieces(flat.shape[0], flat):
        part = overload(flat.narrow(0, *piece), bins, min, max)
        total = part if total is None else total + part
    return total


def scan(overload, self, dim, **kwargs):
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


def rows(overload, self, *args, **kwargs):
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


def median(overload, self):
    name = overload._schema.name.removeprefix("aten::")
    return getattr(torch, name)(self.reshape(-1), 0)[0]


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


def _middle(x: torch.Tensor, skip_nan: bool) -> int:
    """Where the median is in a sorted row: numbers first, and of the NaN the first."""
    numbers = x.numel() - int(x.isnan().sum()) if x.is_floating_point() else x.numel()
    if skip_nan or numbers == x.numel():
        return max(numbers - 1, 0) // 2
    return numbers


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
