"""Operators on tensors larger than one binding of the adapter.

Elementwise kernels, reductions and indexed reads and writes split themselves (they bind windows of a buffer). Any
other kernel raises BindingTooLarge when it meets such a buffer, and ends here, in this order: views of large storages
are copied out; operators that treat some dimension piece by piece are called piece by piece, by the rule of their
entry; what is left goes to torch's decompositions and the counted CPU fallback.
"""

import torch

from ... import tensor as T
from ...ops.oversize import Indivisible
from ...ops.table import CUSTOM
from ...plan import caps
from ...runtime.errors import BindingTooLarge
from . import fallback

_COMPOSITE = torch._C.DispatchKey.CompositeExplicitAutograd


def rule_of(name: str):
    """The rule of an overload's entry, or None."""
    entry = CUSTOM.get((name, "PrivateUse1"))
    return None if entry is None else entry.oversize


def run(overload, call, error: BindingTooLarge, args, kwargs):
    """The result of a call whose kernel raised `error`. Nothing was written: the binding that failed comes first."""
    try:
        return _compacted(overload, call, args, kwargs)
    except BindingTooLarge:
        pass
    name = overload.name().removeprefix("aten::")
    if name.startswith("_foreach_"):
        return overload._op_dk(_COMPOSITE, *args, **kwargs)  # torch's own loop over the tensors
    rule = rule_of(name)
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


def _compacted(overload, call, args, kwargs):
    """The call on copies of those operands that are small parts of large storages."""
    limit = caps().max_binding
    copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    def compact(x):
        if isinstance(x, (list, tuple)):
            return type(x)([compact(y) for y in x]) if any(isinstance(y, torch.Tensor) for y in x) else x
        if not T.is_ours(x) or not x.numel() or T.block_of(x).size <= limit:
            return x
        if x.numel() * x.element_size() > limit:
            return x  # some kernels take such an operand in windows
        copies.append((x, x.clone()))
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
