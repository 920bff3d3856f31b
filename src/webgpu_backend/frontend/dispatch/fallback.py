"""Tiers two and three: torch's decompositions on the device, then the CPU, counted and warned about."""

import threading
import warnings
from collections.abc import Iterable
from contextlib import contextmanager
from functools import cache

import torch
from torch._decomp import decomposition_table
from torch.utils._pytree import tree_map

from ... import env
from ... import tensor as T
from ...dtypes import Unsupported
from ...ops.pointwise.elementwise import _scalar_name, resize_output
from ...ops.random.streams import STREAMS, default
from ...plan.run import planning_here
from ..device.rng import cpu_twin
from . import counts, outs

aten = torch.ops.aten
_warned: set[str] = set()
_active = threading.local()
mode = env.FALLBACK
_permitted: frozenset[str] = frozenset()  # may use the CPU, whatever the mode

# Decompositions that are wrong for this device, or slower than what they replace.
DENIED: set[str] = set()


@contextmanager
def allow(*names: str):
    """Lets the named operators (`aten::x`, any overload; `*` for all) use the CPU where WEBGPU_FALLBACK=error forbids
    it."""
    global _permitted
    before = _permitted
    _permitted = before | set(names)
    try:
        yield
    finally:
        _permitted = before


def named(name: str, among: Iterable[str]) -> bool:
    """Whether a list names an operator, with or without its overload."""
    return "*" in among or name in among or name.partition(".")[0] in among


def _forbidden(op) -> bool:
    return mode == "error" and not named(op.name(), _permitted)


class FallbackError(NotImplementedError):
    """WEBGPU_FALLBACK=error and an operator has no device kernel."""


def boxed(op, *args, **kwargs):
    """Any operator without a kernel of ours ends here."""
    stack = _active.__dict__.setdefault("ops", [])
    depth = stack.count(op)
    if depth < 2:
        stack.append(op)
        try:
            # A functional operator may be made of the one with `out=`, for which torch has a decomposition of its own.
            result = _decompose(op, args, kwargs) if depth == 0 else _own_decomposition(op, args, kwargs)
        except (Unsupported, FallbackError) as error:
            if isinstance(error, FallbackError) and _forbidden(op):
                raise
            result = NotImplemented
        finally:
            stack.pop()
        if result is not NotImplemented:
            return result
    return on_cpu(op, *args, **kwargs)


def _decompose(op, args, kwargs):
    functional = _functional_of(op)
    if functional is not None and (native(functional) or functional in decomposition_table):
        return _through_functional(op, functional, args, kwargs)
    result = _own_decomposition(op, args, kwargs)
    if result is NotImplemented and functional is not None:
        return _through_functional(op, functional, args, kwargs)
    return result


def _own_decomposition(op, args, kwargs):
    """What torch makes of an operator, or NotImplemented."""
    name, found = op.name(), decomposition_table.get(op)
    if found is None or name in DENIED:
        return NotImplemented
    result = found(*args, **kwargs)
    if result is not NotImplemented:
        counts.decomposed[name] += 1
    return result


@cache
def native(op) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "PrivateUse1")


@cache
def _written(op) -> tuple[tuple[int, str], ...]:
    """Positions and names of the arguments that a schema writes to."""
    return tuple(
        (i, a.name) for i, a in enumerate(op._schema.arguments) if a.alias_info is not None and a.alias_info.is_write
    )


@cache
def _outs(op) -> tuple[str, ...]:
    """Names of the out= arguments."""
    names = {n for _, n in _written(op)}
    return tuple(a.name for a in op._schema.arguments if a.kwarg_only and a.name in names)


@cache
def _functional_of(op):
    """The overload that computes what an in-place or out= overload writes."""
    written = _written(op)
    if not written:
        return None
    namespace, full = op._schema.name.split("::")
    schema_args = [a for a in op._schema.arguments]
    outs = set(_outs(op))
    rest = {n for _, n in written} - outs if outs else set()  # running statistics, beside what is asked for in out=
    if outs:
        base, wanted = full, [(a.name, str(a.type)) for a in schema_args if a.name not in outs]
    elif full.endswith("_") and not full.endswith("__"):
        base, wanted = full[:-1], [(a.name, str(a.type)) for a in schema_args]
    else:
        return None
    packet = getattr(getattr(torch.ops, namespace), base, None)
    if packet is None:
        return None
    for overload in packet.overloads():
        candidate = getattr(packet, overload)
        if {n for _, n in _written(candidate)} != rest:
            continue
        if [(a.name, str(a.type)) for a in candidate._schema.arguments] == wanted:
            return candidate
    return None


# Computed in the dtype of out=.
_SUMS = {f"aten::{name}" for name in ("sum", "nansum", "prod", "mean", "cumsum", "cumprod")}


def _through_functional(op, functional, args, kwargs):
    """op = functional, then a copy into what op writes."""
    written = _outs(op)
    inplace = not written
    if inplace:
        result = functional(*args, **kwargs)
        targets = [args[i] for i, _ in _written(op)]
    else:
        rest = {n: v for n, v in kwargs.items() if n not in written}
        targets = [kwargs[n] for n in written]
        if functional._schema.name in _SUMS and rest.get("dtype") is None:
            whole, into_whole = [not (x.is_floating_point() or x.is_complex()) for x in (args[0], targets[0])]
            refused = {"aten::mean": whole or into_whole, "aten::nansum": into_whole and not whole}
            if not refused.get(functional._schema.name):
                rest["dtype"] = targets[0].dtype
        result = functional(*args, **rest)
    results = result if isinstance(result, (tuple, list)) else (result,)
    if len(targets) == 1 and isinstance(targets[0], (list, tuple)):
        results = (results,)
    elif not inplace:
        outs.check_results(op, args, kwargs, targets, results)
    for target, value in zip(targets, results):
        if isinstance(target, (list, tuple)):
            for one, new in zip(target, value):
                one.copy_(new)
            continue
        if inplace and not torch.can_cast(value.dtype, target.dtype):
            want, got = _scalar_name(value.dtype), _scalar_name(target.dtype)
            raise RuntimeError(f"result type {want} can't be cast to the desired output type {got}")
        if target.shape != value.shape:
            if inplace:
                raise RuntimeError(
                    f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(value.shape)}"
                )
            if op._schema.name.removeprefix("aten::") in outs.SILENT:
                target.resize_(value.shape)
            else:
                resize_output(target, value.shape)
        target.copy_(value)
    if not op._schema.returns:
        return None
    return targets[0] if len(op._schema.returns) == 1 else tuple(targets)


def on_cpu(op, *args, **kwargs):
    """Copies to the host, runs torch's CPU kernel, copies back. Never silent unless asked to be."""
    name = op.name()
    devices = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.device)]
    if _is_view(op):
        raise NotImplementedError(f"webgpu: {name} makes a view and has no kernel for {_describe(args, kwargs)}")
    if planning_here() is not None:
        raise T.Unplannable  # it may have no tensor to read, and so not notice
    moved: dict[int, torch.Tensor] = {}

    def to_cpu(x):
        if isinstance(x, torch.Tensor) and x.device.type == T.NAME:
            found = moved.get(id(x))
            if found is None:
                found = moved[id(x)] = x.cpu()
            return found
        if isinstance(x, torch.device) and x.type == T.NAME:
            return torch.device("cpu")
        if isinstance(x, torch._C.Generator) and (philox := STREAMS.get(x._cdata)) is not None:
            return cpu_twin(philox)
        return x

    cpu_args = list(tree_map(to_cpu, list(args)))
    cpu_kwargs = tree_map(to_cpu, kwargs)
    _wrap_numbers(op, cpu_args)
    if _draws(op) and not any(isinstance(x, torch._C.Generator) for x in (*cpu_args, *cpu_kwargs.values())):
        cpu_kwargs["generator"] = cpu_twin(default())  # the device's seed decides, not the CPU's
    result = op(*cpu_args, **cpu_kwargs)  # arguments that torch itself refuses raise here, in every mode
    if _forbidden(op):
        raise FallbackError(
            f"webgpu: {name} has no device kernel for {_describe(args, kwargs)} and WEBGPU_FALLBACK=error forbids "
            "the CPU"
        )
    counts.on_the_cpu[name] += 1
    if mode == "warn" and name not in _warned:
        _warned.add(name)
        warnings.warn(
            f"webgpu: {name} has no device kernel for {_describe(args, kwargs)}; it runs on the CPU, with copies both "
            "ways. webgpu_backend.fallbacks() counts these; WEBGPU_FALLBACK=error makes them errors.",
            stacklevel=2,
        )
    written = {}
    for i, arg_name in _written(op):
        original = args[i] if i < len(args) else kwargs.get(arg_name)
        changed = cpu_args[i] if i < len(args) else cpu_kwargs.get(arg_name)
        written[arg_name] = original
        pairs = [(original, changed)] if isinstance(original, torch.Tensor) else zip(original or (), changed or ())
        for target, value in pairs:
            if target is not None and target.device.type == T.NAME:
                if target.shape != value.shape:
                    target.resize_(value.shape)
                target.copy_(value)
    ours = bool(moved) or any(d.type == T.NAME for d in devices)
    return _results(op, result, written, ours)


def _results(op, result, written, ours):
    returns = op._schema.returns
    if not returns:
        return None
    values = list(result) if len(returns) > 1 else [result]
    for i, (value, ret) in enumerate(zip(values, returns)):
        if ret.alias_info is not None and ret.alias_info.is_write:
            name = next(
                a.name
                for a in op._schema.arguments
                if a.alias_info is not None and a.alias_info.before_set == ret.alias_info.before_set
            )
            values[i] = written[name]
        elif ours:
            values[i] = tree_map(_to_device, value)
    return tuple(values) if len(returns) > 1 else values[0]


def _to_device(x):
    if isinstance(x, torch.Tensor) and x.layout is not torch.strided:
        raise NotImplementedError(f"webgpu: {x.layout} tensors are not supported; call .cpu() first to make one there")
    if isinstance(x, torch.Tensor) and x.is_cpu and x.layout is torch.strided:
        result = T.empty(x.shape, x.dtype, x.stride())
        result.copy_(x)
        return result
    return x


def _wrap_numbers(op, args: list) -> None:
    """Python kernels receive wrapped numbers as Python numbers; the CPU overload wants tensors again."""
    for i, (value, argument) in enumerate(zip(args, op._schema.arguments)):
        if isinstance(value, (int, float, complex)) and str(argument.type) in ("Tensor", "Optional[Tensor]"):
            args[i] = torch.tensor(value, device="cpu")


@cache
def _draws(op) -> bool:
    return any(str(a.type) == "Optional[Generator]" for a in op._schema.arguments)


@cache
def _is_view(op) -> bool:
    return any(a.alias_info is not None and not a.alias_info.is_write for a in op._schema.arguments) and not _written(
        op
    )


def _describe(args, kwargs) -> str:
    parts = []

    def note(x):
        if isinstance(x, torch.Tensor):
            parts.append(f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}")
        return x

    tree_map(note, (list(args), kwargs))
    return ", ".join(parts) or "its arguments"
