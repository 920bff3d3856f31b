"""What an entry of the operator table is, and the table itself."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from ..kernels.pointwise import Spec


@dataclass(frozen=True, eq=False)
class Pointwise:
    """An elementwise aten operator. `promote` is torch's rule for the compute and result dtypes."""

    aten: str
    spec: Spec
    promote: str = "default"  # default, int_to_float, always_bool, complex_to_float, bool_to_long, none
    check: Callable[[tuple, tuple], None] | None = None  # raises torch's error for bad inputs and scalars
    admit: Callable[[tuple], None] | None = None  # raises torch's error for inputs of a dtype; asked once for a plan


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
    """An aten overload with a plan of its own, called with the overload's arguments."""

    overload: str
    call: Callable
    key: str = "PrivateUse1"  # the dispatch key; AutogradPrivateUse1 for composites whose gradient is ours
    refuses: bool = True  # may raise Unsupported
    quick: Callable[[Callable], Callable] | None = None


POINTWISE: dict[str, Pointwise] = {}
CHOICES: list[Choice] = []
ENTRIES: list[Pointwise] = []  # every entry, those that only a choice uses too
CUSTOM: dict[tuple[str, str], Custom] = {}  # by overload and dispatch key
TRACED: dict[str, Callable] = {}  # what a composite overload becomes in a graph that `frontend.compiled` makes
_LETTERS = "abcdefgh"


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
) -> Pointwise:
    """An entry under no aten name of its own: for `choose`, and for operators that need more than one kernel."""
    outputs = outputs or (("bool",) if promote == "always_bool" else ("T",))
    spec = Spec(name, source, tuple(_LETTERS[:arity]), scalars, tuple((types or {}).items()), outputs, checked)
    entry = Pointwise(name, spec, promote, check, admit)
    ENTRIES.append(entry)
    return entry


def _enter(aten: str, source: str, arity: int, **rest) -> None:
    if aten in POINTWISE:
        raise ValueError(f"{aten} is in the table already")
    POINTWISE[aten] = expression(aten, source, arity, **rest)


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


def custom(*overloads: str, key: str = "PrivateUse1", refuses: bool = True, quick=None):
    """Registers a function as the kernel of aten overloads, spelt `mm` or `sum.dim_IntList`.

    At `key="AutogradPrivateUse1"` the function sees tensors that require grad: it is made of differentiable calls or
    an `autograd.Function`, and what it refuses goes to torch's composite kernel. One that never refuses is called by
    torch itself. `quick(long)` gives what is called instead, a short way for calls that are planned: it hands others to
    `long`.
    """

    def register(function: Callable) -> Callable:
        for overload in overloads:
            if (overload, key) in CUSTOM:
                raise ValueError(f"{overload} is in the table already for {key}")
            CUSTOM[overload, key] = Custom(overload, function, key, refuses, quick)
        return function

    return register


def traced(overload: str):
    """Registers what a composite overload becomes in a graph for this device alone; in others torch's own stands."""

    def register(function: Callable) -> Callable:
        TRACED[overload] = function
        return function

    return register
