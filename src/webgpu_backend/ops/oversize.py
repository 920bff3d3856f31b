"""Calls on tensors larger than one binding, piece by piece: what the rules of the table's entries are made of.

A rule is called with the overload and its arguments after the kernel met a buffer that no binding holds. It answers
NotImplemented where it knows no way, and may raise Indivisible.
"""

import torch

from ..plan import caps


class Indivisible(Exception):
    """There is nothing left to cut."""


def limit_bytes() -> int:
    return caps().max_binding


def fit(*tensors) -> bool:
    """Whether each fits one binding, were it alone in its storage."""
    return all([t is None or t.numel() * t.element_size() <= limit_bytes() for t in tensors])


def pieces(size: int, *tensors) -> list[tuple[int, int]]:
    """(start, length) along a dimension, so many that each tensor's share fits one binding; at least two."""
    if size < 2:
        raise Indivisible
    largest = max([t.numel() * t.element_size() for t in tensors if isinstance(t, torch.Tensor)], default=0)
    step = -(-size // min(size, max(2, -(-largest // limit_bytes()))))
    return [(start, min(step, size - start)) for start in range(0, size, step)]


def apply(overload, args, kwargs, dims: dict[int, int], out):
    """The call piece by piece: argument i runs along its dimension dims[i], and results are joined along `out` (one
    dimension, or one for each)."""
    sizes = {args[i].shape[d] for i, d in dims.items()}
    if len(sizes) > 1:
        return NotImplemented
    made = []
    for start, length in pieces(sizes.pop(), *(args[i] for i in dims)):
        part = [x.narrow(dims[i], start, length) if i in dims else x for i, x in enumerate(args)]
        made.append(overload(*part, **kwargs))
    if isinstance(made[0], torch.Tensor):
        return torch.cat(made, out)
    outs = out if isinstance(out, tuple) else (out,) * len(made[0])
    return tuple([torch.cat(same, d) for same, d in zip(zip(*made), outs)])


def other(x: torch.Tensor, *busy: int) -> int | None:
    """The dimension to cut: the first that is long, and not one of those that the operator works along."""
    free = [d for d in range(x.dim()) if d not in busy and x.shape[d] > 1]
    return max(free, key=lambda d: (min(x.shape[d], 64), -d), default=None)


def by_batch(overload, self, *args, **kwargs):
    """The first dimension is a batch, or the channels of one sample that is treated channel by channel."""
    return apply(overload, (self, *args), kwargs, {0: 0}, 0)


def by_pairs(overload, a, b, *args, **kwargs):
    """As by_batch, of two tensors."""
    return apply(overload, (a, b, *args), kwargs, {0: 0, 1: 0}, 0)


def by_batches(overload, *args, **kwargs):
    """As by_batch, of all the tensors there are."""
    dims = {i: 0 for i, x in enumerate(args) if isinstance(x, torch.Tensor)}
    return apply(overload, args, kwargs, dims, 0)


def by_matrices(overload, A, *rest, check_errors=False, **kwargs):
    """A batch of matrices, of which the kernel says for each whether it could be factored: checked in the end, by its
    place in the whole batch."""
    free = other(A, A.dim() - 1, A.dim() - 2)
    if free is None:
        return NotImplemented
    made = apply(overload, (A, *rest), kwargs, {0: free}, free)
    if check_errors:
        name = overload.name().removeprefix("aten::").replace("_", ".", 1)
        torch.ops.aten._linalg_check_errors(made[-1], name, is_matrix=False)
    return made


def by_free_dimension(overload, self, dim, *rest):
    """Cut along a dimension that is none of those that the operator works along."""
    free = other(self, *(d % self.dim() for d in dim))
    return NotImplemented if free is None else apply(overload, (self, dim, *rest), {}, {0: free}, free)
