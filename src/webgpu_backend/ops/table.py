"""What an entry of the operator table is, and the table itself."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from ..kernels.pointwise.elementwise import Spec
from .admitted import admitting
from .admitted import checked as admitted

COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


@dataclass(frozen=True, eq=False)
class Pointwise:
    """An elementwise aten operator. `promote` is torch's rule for the compute and result dtypes."""

    aten: str
    spec: Spec
    promote: str = "default"  # default, int_to_float, always_bool, complex_to_float, bool_to_long, none
    check: Callable[[tuple, tuple], None] | None = None  # raises torch's error for bad inputs and scalars
    admit: Callable[[tuple], None] | None = None  # raises torch's error for inputs of a dtype; asked once for a plan
    rounded: tuple[str, ...] = ()  # numbers that have the bits of 16-bit floats beside them; others are float32


@dataclass(frozen=True)
class Choice:
    """An elementwise operator whose expression depends on its arguments.

    `pick` takes what the overloads take, `out=` aside, and answers with an entry, its inputs and its scalars.
    """

    aten: str
    pick: Callable[..., tuple[Pointwise, tuple, tuple]]
    arguments: tuple[str, ...]
    composite: bool = False


@dataclass(frozen=True)
class Custom:
    """An aten overload with a plan of its own, called with the overload's arguments: see `custom`."""

    overload: str
    call: Callable
    key: str
    planned: bool
    refuses: bool
    writes: tuple[str, ...]
    returns: tuple[str, ...]
    conj: str
    gradient: Callable | None
    oversize: Callable | None


POINTWISE: dict[str, Pointwise] = {}
CHOICES: list[Choice] = []
ENTRIES: list[Pointwise] = []  # every entry, those that only a choice uses too
CUSTOM: dict[tuple[str, str], Custom] = {}  # by overload and dispatch key
AUTOCAST: dict[str, str] = {}  # rules by overload, those of operators that torch composes of others too
COMPLETE: list[Callable[[], None]] = []  # called when every entry is in the table
TRACED: dict[str, Callable] = {}  # what a composite overload becomes in a graph that `frontend.compiled` makes
APART: dict[str, Callable] = {}  # what stands for a composite overload where a subclass, or a graph, takes it apart
_LETTERS = "abcdefgh"


def packet_named(name: str):
    """An operator with all its overloads: one of aten, or `namespace::name`."""
    space, found, base = name.rpartition("::")
    return getattr(getattr(torch.ops, space) if found else torch.ops.aten, base, None)


def overload_named(name: str):
    """One overload of an operator, spelt `mm`, `sum.dim_IntList` or `namespace::name.overload`."""
    base, _, overload = name.partition(".")
    return getattr(packet_named(base), overload or "default")


def expression(
    name: str,
    source: str,
    arity: int = 1,
    scalars: tuple[str, ...] = (),
    promote: str = "default",
    types: dict[str, str] | None = None,
    outputs: tuple[str, ...] | None = None,
    check: Callable[[tuple, tuple], None] | None = None,
    checked: bool = False,
    admit: Callable[[tuple], None] | None = None,
    nonzero: tuple[str, ...] = (),
    bounds: dict[str, str] | None = None,
    rounded: tuple[str, ...] = (),
) -> Pointwise:
    """An entry under no aten name of its own: for `choose`, and for operators that need more than one kernel."""
    outputs = outputs or (("bool",) if promote == "always_bool" else ("T",))
    types, bounds = (tuple((x or {}).items()) for x in (types, bounds))
    spec = Spec(name, source, tuple(_LETTERS[:arity]), scalars, types, outputs, checked, nonzero, bounds)
    entry = Pointwise(name, spec, promote, check, admitting(name, admit), rounded)
    ENTRIES.append(entry)
    return entry


def _enter(aten: str, source: str, arity: int, autocast: str = "", **rest) -> None:
    if aten in POINTWISE:
        raise ValueError(f"{aten} is in the table already")
    POINTWISE[aten] = expression(aten, source, arity, **rest)
    if autocast:
        AUTOCAST[aten] = autocast


def autocast(rule: str, *overloads: str) -> None:
    """What mixed precision does with operators: "lower" computes in the lower precision, "float32" in that,
    "float32_and_back" gives results of the first argument's dtype all the same, "float32_result" asks for a float32
    result, "widest" takes the widest of the inputs. The rules are torch's own."""
    AUTOCAST.update(dict.fromkeys(overloads, rule))


def when_complete(function: Callable[[], None]) -> Callable[[], None]:
    """Calls a function that makes entries of others, when all of these are there."""
    COMPLETE.append(function)
    return function


def unary(aten: str, source: str, **rest) -> None:
    """`source` is an expression in `a`; named scalar arguments of the aten schema may be used as they are called."""
    _enter(aten, source, 1, **rest)


def binary(aten: str, source: str, **rest) -> None:
    """As unary, in `a` and `b`; either may be a number."""
    _enter(aten, source, 2, **rest)


def ternary(aten: str, source: str, **rest) -> None:
    """As unary, in `a`, `b` and `c`."""
    _enter(aten, source, 3, **rest)


def choose(*names: str, composite: bool = False):
    """Registers a function that picks an entry by the arguments, for every overload of the aten operators (in-place
    and out= too) that has the function's parameters.

    `composite` replaces what torch makes of other operators: only where nothing is differentiated through them.
    """

    def register(function: Callable) -> Callable:
        parameters = tuple(inspect.signature(function).parameters)
        CHOICES.extend(Choice(name, function, parameters, composite) for name in names)
        return function

    return register


def custom(
    *overloads: str,
    key: str = "PrivateUse1",
    planned: bool = True,
    refuses: bool = True,
    writes: tuple[str, ...] = (),
    returns: tuple[str, ...] = (),
    conj: str = "",
    gradient: Callable | None = None,
    oversize: Callable | None = None,
    autocast: str = "",
):
    """Registers a function as the kernel of overloads: see `overload_named`.

    It is planned: with given metadata and numbers it runs once, over outlines, and later calls run the plan that came
    of it (see the package `plan`). One that looks at values, moves them between host and device or makes views says
    `planned=False` and runs as written; if it never `refuses`, torch calls it without a guard around it.

    `writes` names arguments that change though the schema does not say so, and `returns` the results among them. `conj`
    is for operators to which torch hands conjugated and negated views as they are, trusting the kernel to look at the
    bits: "resolve" makes tensors of their own of them first, "direct" leaves them to the function as it is written.

    An operator that torch composes of others and that has a `gradient` is replaced above autograd: where nothing is
    differentiated the function is planned, elsewhere `gradient` is called, made of differentiable calls or an
    `autograd.Function`. What they refuse goes to torch's composite. At `key="AutogradPrivateUse1"` a function sees
    tensors that require grad and is not planned.

    `oversize` is the rule for tensors that no binding holds, where the function does not know what to do with them
    itself: see `ops.oversize`. `autocast` is the rule of mixed precision: see `autocast`.
    """
    by_plan = planned and refuses and key == "PrivateUse1"

    def register(function: Callable) -> Callable:
        for overload in overloads:
            if (overload, key) in CUSTOM:
                raise ValueError(f"{overload} is in the table already for {key}")
            CUSTOM[overload, key] = Custom(
                overload, admitted(overload, function), key, by_plan, refuses, writes, returns, conj, gradient, oversize
            )
            if autocast:
                AUTOCAST[overload] = autocast
        return function

    return register


def composed(*overloads: str) -> None:
    """Operators that torch composes of others, none of them a view of an argument: where nothing is differentiated,
    what they are composed of is planned together."""
    for name in overloads:
        # By its key: `decompose` would take one written in Python, of which istft's has another result for a batch.
        compose = partial(overload_named(name)._op_dk, COMPOSITE)
        custom(name, gradient=compose)(compose)


def traced(overload: str):
    """Registers what a composite overload becomes in a graph for this device alone; in others torch's own stands."""

    def register(function: Callable) -> Callable:
        TRACED[overload] = function
        return function

    return register


def apart(overload: str):
    """Registers what a composite overload is where its parts are seen, made of operators that torch knows; where that
    is torch's own composite it raises Unsupported."""

    def register(function: Callable) -> Callable:
        APART[overload] = function
        return function

    return register
