"""How joining, moving and making elements are cut where a tensor is larger than one binding."""

import torch
from torch._prims_common import canonicalize_dim

from ... import tensor as T
from ..oversize import apply, limit_bytes, other, pieces


def cat(overload, tensors, dim=0):
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


def stack(overload, tensors, dim=0):
    dim = canonicalize_dim(tensors[0].dim() + 1, dim)
    return torch.cat([t.unsqueeze(dim) for t in tensors], dim)


def flip(overload, self, dims):
    dims = [canonicalize_dim(self.dim(), d) for d in dims]
    free = other(self, *dims)
    if free is not None:
        return apply(overload, (self, dims), {}, {0: free}, free)
    dim = max(dims, key=lambda d: self.shape[d])
    parts = [overload(self.narrow(dim, *piece), dims) for piece in pieces(self.shape[dim], self)]
    return torch.cat(parts[::-1], dim)


def roll(overload, self, shifts, dims=()):
    if not dims:
        return overload(self.reshape(-1), shifts, [0]).view(self.shape)
    for shift, dim in zip(shifts, dims):
        size = self.shape[dim]
        shift %= max(size, 1)
        if shift:
            self = torch.cat([self.narrow(dim, size - shift, shift), self.narrow(dim, 0, size - shift)], dim)
    return self


def triangle(overload, self, diagonal=0):
    if self.dim() > 2 and self.shape[0] > 1:
        return apply(overload, (self, diagonal), {}, {0: 0}, 0)
    rows = self.dim() - 2
    parts = [
        overload(self.narrow(rows, start, length), diagonal + start) for start, length in pieces(self.shape[rows], self)
    ]
    return torch.cat(parts, rows)


def pad(overload, self, pad, value=0):
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


def arange(overload, *bounds, **options):
    start, end, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    like = torch.arange(start, end, step, dtype=options.get("dtype"), device="meta")
    count, options["dtype"] = like.numel(), like.dtype
    item = options["dtype"].itemsize
    per = max(4, limit_bytes() // (2 * item) & ~3)
    if count <= per:
        return NotImplemented
    if not all(isinstance(b, int) for b in (start, step)):
        places = torch.arange(0, count, 1, dtype=torch.int64, device=T.here())
        return (places * step + start).to(options["dtype"])
    made = [
        torch.arange(start + first * step, start + min(first + per, count) * step, step, **options)
        for first in range(0, count, per)
    ]
    return torch.cat(made)


def eye(overload, n, m=None, **options):
    out = torch.zeros(n, n if m is None else m, **options)
    out.diagonal().fill_(1)
    return out
