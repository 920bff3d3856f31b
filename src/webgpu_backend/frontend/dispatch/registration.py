"""Registers the table with torch: functional, in-place and out= overloads are read from the aten schemas."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch.autograd import forward_ad

from ...dtypes import Unsupported
from ...ops.pointwise.elementwise import Calls, Elementwise, runner
from ...ops.table import (
    AUTOCAST,
    CHOICES,
    COMPLETE,
    CUSTOM,
    POINTWISE,
    Choice,
    Custom,
    Pointwise,
    overload_named,
    packet_named,
)  # fmt: skip
from ...plan import Operator
from ...plan.forms import pattern_of, short_form
from ...plan.places import elsewhere, moved
from ...runtime import gpu as runtime
from ...runtime.errors import BindingTooLarge
from ..first_use import LIBRARIES
from . import autocast, compressed, fallback, nested, oversize, quantized, sparse, subclasses
from . import products as products  # its kernels are among those of `sparse`
from .outs import check_dtypes

_libraries: dict[str, torch.library.Library] = {}  # by namespace
_forms: dict[str, Callable] = {}  # of planned operators, by name


def aten_name(overload) -> str:
    return overload.name().removeprefix("aten::")


def implement(overload, kernel, key: str = "PrivateUse1", **options) -> None:
    space = overload.namespace
    if space not in _libraries:
        _libraries[space] = torch.library.Library(space, "IMPL")
    _libraries[space].impl(overload, kernel, key, **options)


def register() -> None:
    """The whole table. What makes tensors out of nothing comes last: no other thread has a tensor of the device before
    everything that may be done with one is registered."""
    library = _libraries["aten"] = torch.library.Library("aten", "IMPL")
    for function in COMPLETE:
        function()
    for entry in POINTWISE.values():
        register_pointwise(entry)
    for choice in CHOICES:
        register_choice(choice)
    autocast.register(library)
    sparse.register(library)
    nested.register(library)
    compressed.register(library)
    quantized.register(library)
    # Copying a conj or neg tensor would clone it first, whose copy clones it first, without end.
    for key in ("Conjugate", "Negative"):
        for name in ("_copy_from", "_copy_from_and_resize"):
            library.impl(name, torch.library.fallthrough_kernel, key)
    makers = []
    for entry in CUSTOM.values():
        if entry.overload.partition("::")[0] in LIBRARIES:
            continue
        overload = overload_named(entry.overload)
        if any("Tensor" in str(a.type) for a in overload._schema.arguments):
            register_custom(entry, overload)
        else:
            makers.append((entry, overload))
    subclasses.register(implement)
    for entry, overload in makers:
        register_custom(entry, overload)


def register_library(space: str) -> None:
    """The entries for the operators of a library, now that it is loaded. Releases that lack one are left without it."""
    for entry in CUSTOM.values():
        if entry.overload.startswith(f"{space}::") and packet_named(entry.overload) is not None:
            overload = overload_named(entry.overload)
            register_custom(entry, overload)
            autocast.implement(_libraries[space], overload, AUTOCAST.get(entry.overload))


_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_MARKED = {"": "", "resolve": "resolved", "direct": "odd"}


def register_custom(entry: Custom, overload) -> None:
    composite = overload.has_kernel_for_dispatch_key(_COMPOSITE)
    if not entry.planned:
        guard = _guarded_composite if composite or entry.key != "PrivateUse1" else _guarded
        implement(overload, guard(overload, entry.call) if entry.refuses else entry.call, entry.key)
        return
    guard = _guarded_composite if composite else _guarded
    pattern, defaults = pattern_of(
        overload._schema, entry.writes, entry.returns, composite=composite, marked=_MARKED[entry.conj]
    )
    gradient = entry.gradient and guard(overload, entry.gradient)
    call = guard(overload, entry.call if composite else autocast.below(entry.call))
    operator = Operator(entry.overload, call, bool(pattern.written), None, gradient, pattern.returned)
    operator.form = short_form(operator, pattern, defaults)
    implement(overload, operator.form)
    _forms[entry.overload] = operator.form
    if gradient is not None:
        implement(overload, short_form(operator, replace(pattern, graded=True), defaults), "AutogradPrivateUse1")


def form_of(name: str) -> Callable:
    """What torch calls for an operator below autograd, modes and transforms, for who knows that there are none."""
    return _forms[name]


def _guarded(overload, call):
    """A kernel may refuse a dtype: the next tier takes the call."""
    name = aten_name(overload)

    def kernel(*args, **kwargs):
        if runtime.several and (other := elsewhere(args, kwargs, name)) is not None:
            return moved(kernel, other, args, kwargs)
        try:
            return call(*args, **kwargs)
        except Unsupported:
            return fallback.boxed(overload, *args, **kwargs)
        except BindingTooLarge as error:
            return oversize.run(overload, call, error, args, kwargs)

    return kernel


def _guarded_composite(overload, call):
    """Where torch has a composite, that takes what a kernel refuses: above autograd the CPU tier would lose the
    gradient, and below it the composite's parts are on the device.
    """

    composite, name = overload.has_kernel_for_dispatch_key(_COMPOSITE), aten_name(overload)

    def kernel(*args, **kwargs):
        if runtime.several and (other := elsewhere(args, kwargs, name)) is not None:
            return moved(kernel, other, args, kwargs)
        try:
            if composite and (forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active()):
                raise Unsupported("webgpu: tangents and transforms go through what torch knows")
            if composite and any([isinstance(x, torch.Tensor) and x.layout is not torch.strided for x in args]):
                raise Unsupported("webgpu: sparse tensors have kernels for the composite's parts")
            return call(*args, **kwargs)
        except (Unsupported, BindingTooLarge) as error:
            if isinstance(error, BindingTooLarge) and oversize.rule_of(name):
                return oversize.run(overload, call, error, args, kwargs)
            if not composite:
                raise
            return overload.decompose(*args, **kwargs)  # in Python, where torch has it so: of a GRU it knows tangents

    return kernel


def register_pointwise(entry: Pointwise) -> None:
    run = Elementwise(entry)
    for overload in overloads_of(entry.aten):
        kernel = _pointwise_kernel(run, entry, overload)
        if kernel is not None and (entry.promote == "always_bool" or not loses_gradient(overload)):
            implement(overload, kernel)


def register_choice(choice: Choice) -> None:
    for overload in overloads_of(choice.aten):
        outs, inplace = _writes(overload)
        names = [a.name for a in overload._schema.arguments if a.name not in outs]
        if names == list(choice.arguments) and (choice.composite or not loses_gradient(overload)):
            implement(overload, _choice_kernel(choice, overload, outs, inplace))


def overloads_of(name: str) -> list:
    """Functional, out= and in-place."""
    inplace = f"__i{name[2:]}" if name.startswith("__") else f"{name}_"
    packets = [packet_named(base) for base in (name, inplace)]
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
    pick, name = choice.pick, aten_name(overload)

    def kernel(*args, **kwargs):
        if runtime.several and (other := elsewhere(args, kwargs, name)) is not None:
            return moved(kernel, other, args, kwargs)
        targets = tuple([kwargs.pop(n) for n in outs]) if outs else ()
        try:
            entry, inputs, scalars = pick(*args, **kwargs)
            run = runner(entry)
            if inplace:
                return run.inplace(*inputs, *scalars)
            if targets:
                if any([t.dtype is not getattr(inputs[0], "dtype", None) for t in targets]):
                    check_dtypes(overload, args, {**kwargs, **dict(zip(outs, targets))})
                return run.into((*inputs, *scalars), targets)
            return run(*inputs, *scalars)
        except Unsupported:
            kwargs.update(zip(outs, targets))
            return fallback.boxed(overload, *args, **kwargs)

    return kernel


def _pointwise_kernel(run: Elementwise, entry: Pointwise, overload):
    """A kernel for one overload, or None where its arguments are not the entry's."""
    spec = entry.spec
    outs, inplace = _writes(overload)
    named = [a for a in overload._schema.arguments if a.name not in outs]
    if not _are_those_of(spec, named) or str(overload._schema.returns[0].type) != "Tensor":
        return None
    scalars = {a.name: a.default_value for a in named if a.name in spec.scalars and a.has_default_value()}
    plain = _without_scalars(entry, scalars)
    refused = partial(fallback.boxed, overload)
    kernel = _any_arguments(overload, run, plain, named, outs, inplace, refused)
    if outs or str(named[0].type) != "Tensor":
        return kernel
    if plain is not None:
        return Calls(plain, inplace, refused, kernel).form("t" * len(spec.inputs))
    if entry.check is not None or not _in_order(spec, named):
        return kernel
    kinds = "".join(["t" if str(a.type) == "Tensor" else "p" for a in named])
    names = tuple([a.name for a in named if a.kwarg_only])
    given = tuple([a.default_value for a in named[-_trailing(named) :]]) if _trailing(named) else ()
    return Calls(run, inplace, refused).form(kinds, names, given)


def _are_those_of(spec, named: list) -> bool:
    """Whether these arguments, out= aside, are an expression's inputs and scalars."""
    scalars = [a for a in named if a.name in spec.scalars]
    if len(scalars) != len(spec.scalars) or len(named) - len(scalars) != len(spec.inputs):
        return False
    return any(str(a.type) == "Tensor" for a in named)


def _in_order(spec, named: list) -> bool:
    """Inputs first, then the scalars as the expression names them."""
    return [a.name for a in named[len(spec.inputs) :]] == list(spec.scalars)


def _any_arguments(overload, run, plain, named: list, outs: list[str], inplace: bool, refused):
    """The kernel that takes an overload's arguments in any form. `plain` runs where the scalars are the defaults."""
    spec, check = run.entry.spec, run.entry.check
    bools = run.entry.promote == "always_bool"

    def usual(inputs: tuple):
        """The dtype of most results."""
        return torch.bool if bools else getattr(inputs[0], "dtype", None)

    order = [a.name for a in named]
    defaults = [a.default_value if a.has_default_value() else None for a in named]
    inputs = [n for n in order if n not in spec.scalars]
    simple, n_in, n_all = _in_order(spec, named), len(inputs), len(order)
    types = [d.__class__ for d in defaults[n_in:]]
    name = aten_name(overload)

    def kernel(*args, **kwargs):
        if runtime.several and (other := elsewhere(args, kwargs, name)) is not None:
            return moved(kernel, other, args, kwargs)
        try:
            targets = tuple([kwargs.pop(n) for n in outs]) if outs else ()
            values = list(args)
            for i in range(len(args), n_all):
                values.append(kwargs.get(order[i], defaults[i]))
            if simple:
                tensors, numbers = tuple(values[:n_in]), tuple(values[n_in:])
            else:
                by_name = dict(zip(order, values))
                tensors = tuple([by_name[n] for n in inputs])
                numbers = tuple([by_name[n] for n in spec.scalars])
            chosen = run
            usual_numbers = plain is not None and numbers == tuple(defaults[n_in:])
            if check is not None and (not usual_numbers or types != [n.__class__ for n in numbers]):
                check(tensors, numbers)  # True and 1.0 are equal to 1, and refused where 1 is not
            if usual_numbers:
                chosen, numbers = plain, ()
            if inplace:
                return chosen.inplace(*tensors, *numbers)
            if outs:
                if len(targets) > 1 or any([t.dtype is not usual(tensors) for t in targets]):
                    check_dtypes(overload, args, {**kwargs, **dict(zip(outs, targets))})
                return chosen.into((*tensors, *numbers), targets)
            return chosen(*tensors, *numbers)
        except Unsupported:
            if outs:
                kwargs.update(zip(outs, targets))
            return refused(*args, **kwargs)

    return kernel


def _trailing(arguments) -> int:
    """How many of the last arguments have a default."""
    count = 0
    while count < len(arguments) and arguments[-1 - count].has_default_value():
        count += 1
    return count


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
