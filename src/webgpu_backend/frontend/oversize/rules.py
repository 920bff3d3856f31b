"""Operators on tensors larger than one binding of the adapter.

Elementwise kernels, reductions and indexed reads and writes split themselves (they bind windows of a buffer). Any
other kernel raises BindingTooLarge when it meets such a buffer, and ends here, in this order: views of large storages
are copied out; operators that treat some dimension piece by piece are called piece by piece (`pieces.py` and
`long_rows.py` say how); what is left goes to torch's decompositions and the counted CPU fallback.
"""

from collections.abc import Callable

import torch

from ... import tensor as T
from ...runtime.errors import BindingTooLarge
from ...runtime.gpu import gpu
from ..dispatch import fallback

RULES: dict[str, Callable] = {}
_COMPOSITE = torch._C.DispatchKey.CompositeExplicitAutograd


def run(overload, call, error: BindingTooLarge, args, kwargs):
    """The result of a call whose kernel raised `error`. Nothing was written: the binding that failed comes first."""
    try:
        return _compacted(overload, call, args, kwargs)
    except BindingTooLarge:
        pass
    name = overload.name().removeprefix("aten::")
    if name.startswith("_foreach_"):
        return overload._op_dk(_COMPOSITE, *args, **kwargs)  # torch's own loop over the tensors
    rule = RULES.get(name)
    if rule is not None:
        try:
            result = rule(overload, *args, **kwargs)
        except Indivisible:
            result = NotImplemented
        if result is not NotImplemented:
            return result
    try:
        return fallback.boxed(overload, *args, **kwargs)
    except fallback.FallbackError:
        raise error from None


class Indivisible(Exception):
    """There is nothing left to cut."""


def limit_bytes() -> int:
    return gpu().queue.caps.max_binding


def _compacted(overload, call, args, kwargs):
    """The call on copies of those operands that are small parts of large storages."""
    limit = limit_bytes()
    copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    def compact(x):
        if isinstance(x, (list, tuple)):
            return type(x)([compact(y) for y in x]) if any(isinstance(y, torch.Tensor) for y in x) else x
        if not T.is_ours(x) or not x.numel() or T.block_of(x).size <= limit:
            return x
        if x.numel() * x.element_size() > limit:
            return x  # some kernels take such an operand in windows
        copies.append((x, x.clone(memory_format=torch.contiguous_format)))
        return copies[-1][1]

    args = [compact(x) for x in args]
    kwargs = {k: compact(x) for k, x in kwargs.items()}
    if not copies:
        raise BindingTooLarge(overload.name())
    result = call(*args, **kwargs)
    written = [args[i] if i < len(args) else kwargs.get(n) for i, n in fallback._written(overload)]
    for original, copy in copies:
        if any(w is copy for w in written):
            original.copy_(copy)
            if result is copy:
                result = original
    return result


def rule(*names: str):
    def register(function: Callable) -> Callable:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


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
