"""What an entry of the operator table is, and the table itself."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ..kernels.pointwise import Spec


@dataclass(frozen=True)
class Pointwise:
    """An elementwise aten operator. `promote` is torch's rule for the compute and result dtypes."""

    aten: str
    spec: Spec
    promote: str = "default"  # default, int_to_float, always_bool, complex_to_float, bool_to_long, none
    dtypes: frozenset[str] | None = None  # compute dtypes with a kernel; None: whatever the expression allows
    variants: dict[str, "Pointwise"] = field(default_factory=dict, hash=False, compare=False)


@dataclass(frozen=True)
class Custom:
    """An aten overload with a plan of its own, called with the overload's arguments."""

    overload: str
    call: Callable
    key: str = "PrivateUse1"  # the dispatch key; AutogradPrivateUse1 for composites whose gradient is ours


POINTWISE: dict[str, Pointwise] = {}
CUSTOM: dict[tuple[str, str], Custom] = {}  # by overload and dispatch key
_LETTERS = "abcdefgh"


def _enter(
    aten: str,
    source: str,
    arity: int,
    scalars: tuple[str, ...] = (),
    promote: str = "default",
    types: dict[str, str] | None = None,
    outputs: tuple[str, ...] | None = None,
) -> None:
    if aten in POINTWISE:
        raise ValueError(f"{aten} is in the table already")
    outputs = outputs or (("bool",) if promote == "always_bool" else ("T",))
    spec = Spec(aten, source, tuple(_LETTERS[:arity]), scalars, tuple((types or {}).items()), outputs)
    POINTWISE[aten] = Pointwise(aten, spec, promote)


def unary(aten: str, source: str, **rest) -> None:
    """`source` is an expression in `a`; named scalar arguments of the aten schema may be used as they are called."""
    _enter(aten, source, 1, **rest)


def binary(aten: str, source: str, **rest) -> None:
    """As unary, in `a` and `b`; either may be a number."""
    _enter(aten, source, 2, **rest)


def ternary(aten: str, source: str, **rest) -> None:
    """As unary, in `a`, `b` and `c`."""
    _enter(aten, source, 3, **rest)


def custom(*overloads: str, key: str = "PrivateUse1"):
    """Registers a function as the kernel of aten overloads, spelt `mm` or `sum.dim_IntList`.

    At `key="AutogradPrivateUse1"` the function sees tensors that require grad: it is made of differentiable calls or
    an `autograd.Function`, and what it refuses goes to torch's composite kernel.
    """

    def register(function: Callable) -> Callable:
        for overload in overloads:
            if (overload, key) in CUSTOM:
                raise ValueError(f"{overload} is in the table already for {key}")
            CUSTOM[overload, key] = Custom(overload, function, key)
        return function

    return register
