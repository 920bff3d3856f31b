"""Registers the table with torch: functional, in-place and out= overloads are read from the aten schemas."""

import re
from dataclasses import replace
from functools import partial, wraps

import torch
from torch.autograd import forward_ad

from ..dtypes import Unsupported
from ..ops import hot
from ..ops.elementwise import Elementwise, runner
from ..ops.table import CHOICES, CUSTOM, POINTWISE, TRACED, Choice, Pointwise
from ..runtime.errors import BindingTooLarge
from . import autocast, compiled, fallback, long_rows, oversize, pieces, sparse  # noqa: F401  the rules register themselves

aten = torch.ops.aten
_libraries: list[torch.library.Library] = []


def register() -> None:
    library = torch.library.Library("aten", "IMPL")
    rest = torch.library.Library("_", "IMPL")
    _libraries.extend((library, rest))
    for entry in POINTWISE.values():
        register_pointwise(library, entry)
    for choice in CHOICES:
        register_choice(library, choice)
    for entry in CUSTOM.values():
        overload = overload_named(entry.overload)
        composite = overload.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
        guard = _guarded_composite if composite or entry.key != "PrivateUse1" else _guarded
        call = _resolved(entry.call) if entry.overload in _SEE_CONJ else entry.call
        call = guard(overload, call) if entry.refuses else call
        library.impl(overload, entry.quick(call) if entry.quick else call, entry.key)
    rest.fallback(fallback.boxed, "PrivateUse1")
    rest.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    autocast.register(library)
    for key, kind in (
        ("SparsePrivateUse1", "sparse"),
        ("SparseCsrPrivateUse1", "compressed sparse"),
        ("NestedTensorPrivateUse1", "nested (strided layout)"),
    ):
        rest.fallback(_refused(kind), key)
    sparse.register(library)
    _patch_forward_mode()
    # The DataLoader pins what it loads; memory that a driver has pinned is nothing WebGPU offers, a copy is.
    library.impl("_pin_memory", lambda self, device=None: self.clone(), "CPU")
    # Copying a conj or neg tensor would clone it first, whose copy clones it first, without end.
    for key in ("Conjugate", "Negative"):
        for name in ("_copy_from", "_copy_from_and_resize"):
            library.impl(name, torch.library.fallthrough_kernel, key)


def _patch_forward_mode() -> None:
    """While tangents are carried along, linear is torch's composite: its own formula has none."""
    enter, leave = forward_ad.enter_dual_level, forward_ad.exit_dual_level
    registered: list[torch.library.Library] = []

    @wraps(enter)
    def enter_dual_level():
        level = enter()
        if not registered:
            registered.append(torch.library.Library("aten", "IMPL"))
            registered[0].impl("linear", aten.linear.default.decompose, "AutogradPrivateUse1")
        return level

    @wraps(leave)
    def exit_dual_level(*, level=None):
        leave(level=level)
        if forward_ad._current_level < 0:
            registered.pop()._destroy()

    forward_ad.enter_dual_level, forward_ad.exit_dual_level = enter_dual_level, exit_dual_level


def _refused(kind: str):
    def kernel(op, *args, **kwargs):
        raise sparse.refusal(kind, op.name())

    return kernel


# torch hands these conjugated and negated views as they are, trusting the kernel to look at the
# bits; ours multiply what is stored.
_SEE_CONJ = {
    "mm", "addmm", "addmm_", "bmm", "baddbmm", "baddbmm_", "dot", "vdot", "matmul", "linear", "linear_backward",
    "linalg_solve_triangular",
}  # fmt: skip


def _resolved(call):
    def kernel(*args, **kwargs):
        if args[0].is_complex() or args[0].is_neg() or args[1].is_neg():
            args = [a.resolve_conj().resolve_neg() if isinstance(a, torch.Tensor) else a for a in args]
        return call(*args, **kwargs)

    return kernel


def overload_named(name: str):
    base, _, overload = name.partition(".")
    return getattr(getattr(aten, base), overload or "default")


def _guarded(overload, call):
    """A kernel may refuse a dtype: the next tier takes the call."""

    def kernel(*args, **kwargs):
        try:
            return call(*args, **kwargs)
        except Unsupported:
            return fallback.boxed(overload, *args, **kwargs)
        except BindingTooLarge as error:
            return oversize.run(overload, call, error, args, kwargs)

    return kernel


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _traced(tensor) -> bool:
    from torch._subclasses import FakeTensor  # not before anyone traces: they take a while to load
    from torch._subclasses.functional_tensor import FunctionalTensor

    return isinstance(tensor, (FakeTensor, FunctionalTensor))


def _guarded_composite(overload, call):
    """Where torch has a composite, that takes what a kernel refuses: above autograd the CPU tier would lose the
    gradient, and below it the composite's parts are on the device. Tracing sees it too: its tensors have no memory.
    """

    composite = overload.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
    traced = TRACED.get(overload.name().removeprefix("aten::"))

    def kernel(*args, **kwargs):
        try:
            if composite and forward_ad._current_level >= 0:
                raise Unsupported("webgpu: tangents go through what torch knows")
            if composite and args and args[0].__class__ not in _PLAIN and _traced(args[0]):
                if traced is not None and compiled.tracing:
                    return traced(*args, **kwargs)
                raise Unsupported("webgpu: a graph is made of what torch knows")
            return call(*args, **kwargs)
        except (Unsupported, BindingTooLarge) as error:
            if isinstance(error, BindingTooLarge) and overload.name().removeprefix("aten::") in oversize.RULES:
                return oversize.run(overload, call, error, args, kwargs)
            result = overload.decompose(*args, **kwargs)
            if result is NotImplemented:
                raise
            return result

    return kernel


def register_pointwise(library: torch.library.Library, entry: Pointwise) -> None:
    run = Elementwise(entry)
    for overload in overloads_of(entry.aten):
        kernel = _pointwise_kernel(run, entry, overload)
        if kernel is not None and (entry.promote == "always_bool" or not loses_gradient(overload)):
            library.impl(overload, kernel, "PrivateUse1")


def register_choice(library: torch.library.Library, choice: Choice) -> None:
    for overload in overloads_of(choice.aten):
        outs, inplace = _writes(overload)
        names = [a.name for a in overload._schema.arguments if a.name not in outs]
        if names == list(choice.arguments) and (choice.composite or not loses_gradient(overload)):
            library.impl(overload, _choice_kernel(choice, overload, outs, inplace), "PrivateUse1")


def overloads_of(name: str) -> list:
    """Functional, out= and in-place."""
    packets = [getattr(aten, base, None) for base in (name, name + "_")]
    return [getattr(packet, n) for packet in packets if packet is not None for n in packet.overloads()]


def loses_gradient(overload) -> bool:
    """A composite with no gradient formula and no kernel elsewhere (where.ScalarOther): torch differentiates through
    what it is made of, and a kernel below autograd would hide that."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    name = overload.name()
    return has(name, "CompositeImplicitAutograd") and not has(name, "CPU") and not has(name, "Autograd")


def _writes(overload) -> tuple[list[str], bool]:
    """Names of the out= arguments, and whether the overload works in place."""
    written = [a for a in overload._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    outs = [a.name for a in written if a.kwarg_only]
    return outs, bool(written) and not outs


def _choice_kernel(choice: Choice, overload, outs: list[str], inplace: bool):
    pick = choice.pick

    def kernel(*args, **kwargs):
        targets = tuple([kwargs.pop(n) for n in outs]) if outs else ()
        try:
            entry, inputs, scalars = pick(*args, **kwargs)
            run = runner(entry)
            if inplace:
                return run.inplace(inputs, scalars)
            if targets:
                return run.call_into(inputs, scalars, targets)
            if not scalars and len(entry.spec.outputs) == 1:
                if len(inputs) == 1:
                    return run.unary(*inputs)
                if len(inputs) == 2:
                    return run.binary(*inputs)
            return run.call(inputs, scalars)
        except Unsupported:
            kwargs.update(zip(outs, targets))
            return fallback.boxed(overload, *args, **kwargs)

    return kernel


def _pointwise_kernel(run: Elementwise, entry: Pointwise, overload):
    """A kernel for one overload, or None where its arguments are not the entry's."""
    spec = entry.spec
    arguments = overload._schema.arguments
    outs, inplace = _writes(overload)
    written = outs or inplace
    named = [a for a in arguments if a.name not in outs]
    inputs = [a.name for a in named if a.name not in spec.scalars][: len(spec.inputs)]
    scalars = [a for a in named if a.name in spec.scalars]
    if len(inputs) != len(spec.inputs) or len(named) != len(inputs) + len(spec.scalars):
        return None
    if len(scalars) != len(spec.scalars):
        return None
    if not any(str(a.type) == "Tensor" for a in named):
        return None
    if str(overload._schema.returns[0].type) != "Tensor":
        return None
    order = [a.name for a in named]
    defaults = [a.default_value if a.has_default_value() else None for a in named]
    simple = order == inputs + list(spec.scalars)
    n_in, n_all = len(inputs), len(order)
    check = entry.check
    plain = _without_scalars(entry, {a.name: a.default_value for a in scalars if a.has_default_value()})

    if not written and not spec.scalars and n_in <= 2 and len(spec.outputs) == 1:
        return (hot.unary_of if n_in == 1 else hot.binary_of)(run, partial(fallback.boxed, overload))

    def kernel(*args, **kwargs):
        try:
            targets = tuple([kwargs.pop(n) for n in outs]) if outs else ()
            values = list(args)
            for i in range(len(args), n_all):
                values.append(kwargs.pop(order[i], defaults[i]))
            if simple:
                tensors, numbers = tuple(values[:n_in]), tuple(values[n_in:])
            else:
                by_name = dict(zip(order, values))
                tensors = tuple([by_name[n] for n in inputs])
                numbers = tuple([by_name[n] for n in spec.scalars])
            chosen = run
            if plain is not None and numbers == tuple(defaults[n_in:]):
                chosen, numbers = plain, ()
                if not written:
                    if n_in == 2:
                        return plain.binary(*tensors)
                    if n_in == 1:
                        return plain.unary(*tensors)
            elif check is not None:
                check(tensors, numbers)
            if inplace:
                return chosen.inplace(tensors, numbers)
            if outs:
                return chosen.call_into(tensors, numbers, targets)
            return chosen.call(tensors, numbers)
        except Unsupported:
            if outs:
                kwargs.update(zip(outs, targets))
            return fallback.boxed(overload, *args, **kwargs)

    short = plain if plain is not None else run if not spec.scalars and check is None else None
    if short is None or outs or n_in > 2 or len(spec.outputs) != 1:
        return kernel
    if n_in == 1:
        return kernel if inplace else hot.unary_of(short, kernel)
    return (hot.inplace_binary_of if inplace else hot.binary_of)(short, kernel)


def _without_scalars(entry: Pointwise, defaults: dict) -> Elementwise | None:
    """The entry with its scalars at their defaults, as literals: nothing to pack at each call."""
    spec = entry.spec
    if not spec.scalars or set(defaults) != set(spec.scalars):
        return None
    if any(not isinstance(v, (int, float)) for v in defaults.values()):
        return None
    source = spec.source
    for name, value in defaults.items():
        source = re.sub(rf"\b{name}\b", f"({value!r})", source)
    plain = replace(spec, source=source, scalars=())
    return Elementwise(replace(entry, spec=plain, check=None))
