"""How reading and writing through indices are cut where a tensor is larger than one binding."""

import torch
from torch._prims_common import canonicalize_dim

from ..oversize import apply, other, pieces

aten = torch.ops.aten


def index_select(overload, self, dim, index):
    return apply(overload, (self, dim, index), {}, {2: 0}, canonicalize_dim(self.dim(), dim))


def embedding(overload, weight, indices, *rest):
    flat = indices.reshape(-1)
    return apply(overload, (weight, flat, *rest), {}, {1: 0}, 0).view(*indices.shape, weight.shape[1])


def embedding_backward(overload, grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    if scale_grad_by_freq:
        return NotImplemented
    rows, index = grad.reshape(-1, grad.shape[-1]), indices.reshape(-1)
    if padding_idx >= 0:
        rows = rows.masked_fill((index == padding_idx).unsqueeze(1), 0)
    return grad.new_zeros(num_weights, grad.shape[-1]).index_add_(0, index, rows)


def take(overload, self, index):
    return apply(overload, (self, index.reshape(-1)), {}, {1: 0}, 0).view(index.shape)


def gather(overload, self, dim, index, **kwargs):
    dim = canonicalize_dim(self.dim(), dim)
    cut = other(index)
    if cut is None:
        return NotImplemented
    made = []
    for start, length in pieces(index.shape[cut], index, self):
        source = self if cut == dim else self.narrow(cut, start, length)
        made.append(overload(source, dim, index.narrow(cut, start, length), **kwargs))
    return torch.cat(made, cut)


def index(overload, self, indices):
    given = [i for i, x in enumerate(indices) if x is not None]
    if any(indices[i].dtype not in (torch.int64, torch.int32) for i in given):
        return NotImplemented
    index = indices[given[0]]
    if len(given) > 1:
        return _index_in_parts(overload, self, indices, given)
    if not index.dim():
        return NotImplemented
    flat = torch.where(index < 0, index + self.shape[given[0]], index).reshape(-1)
    shape = (*self.shape[: given[0]], *index.shape, *self.shape[given[0] + 1 :])
    return torch.index_select(self, given[0], flat).view(shape)


def _index_in_parts(overload, self, indices, given: list[int]):
    """Several indices, cut along a dimension of the shape that they have in common."""
    shape = torch.broadcast_shapes(*[indices[i].shape for i in given])
    whole = {i: indices[i].expand(shape) for i in given}
    cut = other(whole[given[0]])
    if cut is None:
        return NotImplemented
    made = []
    for start, length in pieces(shape[cut], *whole.values()):
        parts = [whole[i].narrow(cut, start, length) if i in whole else None for i in range(len(indices))]
        made.append(overload(self, parts))
    together = given == list(range(given[0], given[-1] + 1))  # else torch puts what they make first
    return torch.cat(made, cut + (given[0] if together else 0))


def index_add_(overload, self, dim, index, source, *, alpha=1):
    for start, length in pieces(index.shape[0], source):
        overload(self, dim, index.narrow(0, start, length), source.narrow(dim, start, length), alpha=alpha)
    return self


def index_add(overload, self, dim, index, source, *, alpha=1):
    return self.clone().index_add_(dim, index, source, alpha=alpha)


def scatter_(overload, self, dim, index, src, *rest, **kwargs):
    dim = canonicalize_dim(self.dim(), dim)
    cut = other(index)
    if cut is None or kwargs.get("include_self") is False:
        return NotImplemented
    for start, length in pieces(index.shape[cut], index, src):
        target = self if cut == dim else self.narrow(cut, start, length)
        overload(target, dim, index.narrow(cut, start, length), src.narrow(cut, start, length), *rest, **kwargs)
    return self


def scatter(overload, self, *args, **kwargs):
    name = overload._schema.name.removeprefix("aten::")
    inplace = getattr(getattr(aten, name + "_"), overload._schema.overload_name or "default")
    return inplace(self.clone(), *args, **kwargs)


def nonzero(overload, self):
    made = []
    for start, length in pieces(self.shape[0], self, self.new_empty(self.shape, dtype=torch.int64, device="meta")):
        found = overload(self.narrow(0, start, length))
        found[:, 0] += start
        made.append(found)
    return torch.cat(made)


def masked_select(overload, self, mask):
    self, mask = torch.broadcast_tensors(self, mask)
    wide = torch.empty(self.shape, dtype=torch.int64, device="meta")
    made = [
        overload(self.narrow(0, start, length), mask.narrow(0, start, length))
        for start, length in pieces(self.shape[0], self, mask, wide)
    ]
    return torch.cat(made)


def bincount(overload, self, weights=None, minlength=0):
    if not self.numel():
        return NotImplemented
    minlength = max(minlength, int(self.max().item()) + 1)
    total = None
    for start, length in pieces(self.shape[0], self, torch.empty(self.shape, dtype=torch.int64, device="meta")):
        part = overload(self.narrow(0, start, length), None if weights is None else weights.narrow(0, start, length),
                        minlength)  # fmt: skip
        total = part if total is None else total + part
    return total
