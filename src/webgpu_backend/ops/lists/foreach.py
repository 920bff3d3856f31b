"""Lists of tensors: torch's `_foreach_*` operators, made from the elementwise table."""

from dataclasses import replace

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...plan.lists import Lists
from ..pointwise.elementwise import Elementwise, _scalar_name, broadcast_shape
from ..shape.copy import copy_from, fill
from ..table import POINTWISE, custom, when_complete

aten = torch.ops.aten
_increment_version = torch._C._increment_version


def _check(lists: list) -> None:
    if not lists[0]:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for other in lists[1:]:
        if len(other) != len(lists[0]):
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {len(lists[0])} and {len(other)}"
            )


def _numbers(name: str, value, count: int):
    """An argument; a list of numbers, or numbers in a tensor, checked as torch does."""
    if name == "scalars" and isinstance(value, torch.Tensor):
        if not value.is_cpu:
            raise RuntimeError(f"Expected scalars to be on CPU, got {value.device} instead.")
        if not value.is_contiguous():
            raise RuntimeError("Expected scalars to be contiguous.")
        if value.dim() != 1:
            raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {value.dim()} instead.")
        if len(value) != count:
            raise RuntimeError(
                f"Expected length of scalars to match input of length {count} but got {len(value)} instead."
            )
        return value.tolist()
    if isinstance(value, (list, tuple)) and len(value) != count:
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    if name == "other" and isinstance(value, torch.Tensor) and (value.dim() or value.numel() != 1):
        raise RuntimeError(
            f"scalar tensor expected to be 0 dim but it has {value.dim()} dimensions and {value.numel()} elements."
        )
    return value


_ORDERS = {"minimum": "minimum", "clamp_max": "minimum", "maximum": "maximum", "clamp_min": "maximum"}
_BOUNDS = {"minimum": "clamp_max", "maximum": "clamp_min"}  # what those with numbers are


def _check_order(name: str, tensors: list, other) -> None:
    """Complex numbers have none."""
    found = next((t for t in tensors if t.is_complex()), None)
    if found is None:
        return
    if isinstance(other, (list, tuple)) and isinstance(other[0], torch.Tensor):
        for pair in zip(tensors, other):
            broadcast_shape([t.shape for t in pair])
        raise NotImplementedError(f"\"{_ORDERS[name]}_cpu\" not implemented for '{_scalar_name(found.dtype)}'")
    raise NotImplementedError("clamp is not supported for complex types")


def _has_bool(columns: list) -> bool:
    """Numbers that some operators refuse, which is found for each tensor; otherwise they are numbers like others."""
    for column in columns:
        for value in column if column.__class__ in (list, tuple) else (column,):
            if value.__class__ is bool:
                return True
            if isinstance(value, torch.Tensor):
                break
    return False


def _counted(kernel):
    """torch counts the changes of one tensor (a changed tensor cannot give the gradient it was kept for), and leaves
    those of a list to the kernel."""

    def counting(self, *args, **kwargs):
        kernel(self, *args, **kwargs)
        _increment_version(self)

    return counting


def _listed(entry, overload, single):
    """A kernel for one `_foreach_` overload: `single` is the operator for one tensor."""
    run = Elementwise(entry)
    arguments = overload._schema.arguments
    names = [a.name for a in arguments]
    listed = {a.name for a in arguments if "List[Tensor]" in str(a.type)}
    defaults = {a.name: a.default_value for a in arguments if a.has_default_value()}
    inplace = arguments[0].alias_info is not None
    n_in, n_scalars = len(entry.spec.inputs), len(entry.spec.scalars)
    if len(names) < n_in or len(names) > n_in + n_scalars:
        return None
    missing = (1,) * (n_in + n_scalars - len(names))  # `_foreach_add.Scalar` has no alpha
    spec = entry.spec
    together = Lists(replace(spec, inputs=spec.inputs + spec.scalars, scalars=()), (0,) if inplace else (None,))

    def kernel(*args, **kwargs):
        given = [*args, *(kwargs[n] if n in kwargs else defaults[n] for n in names[len(args) :])]
        _check([value for name, value in zip(names, given) if name in listed])
        columns = [_numbers(name, value, len(given[0])) for name, value in zip(names, given)]
        if entry.aten in _ORDERS:
            _check_order(entry.aten, *columns)
        made = None if _has_bool(columns) else together([*columns, *missing])
        if made is not None:
            return None if inplace else made[0]
        count = len(given[0])
        rows = zip(*[c if isinstance(c, (list, tuple)) else [c] * count for c in columns])
        results = []
        for row in rows:
            inputs, scalars = row[:n_in], (*row[n_in:], *missing)
            if entry.aten in _ORDERS and isinstance(inputs[1], complex):
                raise NotImplementedError("clamp is not supported for complex types")
            if entry.check is not None:
                entry.check(inputs, scalars)
            try:
                if inplace:
                    run.inplace(*inputs, *scalars)
                else:
                    results.append(run(*inputs, *scalars))
            except Unsupported:
                results.append(single(inputs, scalars, inplace))
        return None if inplace else results

    return _counted(kernel) if inplace else kernel


def _single(entry):
    """The operator for one tensor by way of the dispatcher, for what the table's kernel refuses."""

    def call(inputs, scalars, inplace):
        base = getattr(aten, entry.aten + ("_" if inplace else ""))
        return base(*inputs, **dict(zip(entry.spec.scalars, scalars)))

    return call


@when_complete
def _register() -> None:
    """A list form for every elementwise entry whose aten name has one."""
    for entry in POINTWISE.values():
        for base in (f"_foreach_{entry.aten}", f"_foreach_{entry.aten}_"):
            packet = getattr(aten, base, None)
            for name in packet.overloads() if packet is not None else ():
                if "out" in name or name == "ScalarAndTensor":
                    continue
                one = POINTWISE[_BOUNDS[entry.aten]] if "Scalar" in name and entry.aten in _BOUNDS else entry
                kernel = _listed(one, getattr(packet, name), _single(one))
                if kernel is not None:
                    custom(base if name == "default" else f"{base}.{name}", planned=False)(kernel)


@custom("_foreach_copy_", planned=False)
@_counted
def foreach_copy_(self, src, non_blocking=False):
    _check([self, src])
    for target, source in zip(self, src):
        if T.is_ours(target):
            copy_from(source if source.shape == target.shape else source.expand(target.shape), target)
        else:
            target.copy_(source)


@custom("_foreach_zero_", planned=False)
@_counted
def foreach_zero_(self):
    _check([self])
    for tensor in self:
        fill(tensor, 0)
