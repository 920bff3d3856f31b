"""How a compiler's text reaches its buffers: functions that read and write elements by index, for the way in which each
buffer is bound. The text calls `read_x(i)`, `read4_x(i)`, `write_x(i, v)`, `write4_x(i, v, n)` and `add_x(i, v)`, and
knows nothing of packed words, offsets or atomics."""

from typing import NamedTuple

from ...dtypes import DType, Unsupported, carrier
from ...program import Caps
from ..indexing.scatter import atomic_add
from ..text import elements
from ..text.expression import wgsl_type

FOURS = ("f32", "i32", "u32", "bool")  # carriers of which there are vectors everywhere


class Operand(NamedTuple):
    """A buffer of a kernel. `uses` has a letter for each way in which the text reaches it: r and R read one element
    and four, w and W write, a adds."""

    name: str
    dtype: DType
    uses: str

    @property
    def written(self) -> bool:
        return any(u in "wWa" for u in self.uses)


class Place(NamedTuple):
    """Where an operand of a call is: the binding, whether an offset is among the parameters, whether groups of four
    lie on their own, and whether the elements behind its last group are its own too."""

    binding: int
    offset: bool
    aligned: bool
    owned: bool


def mode_of(operands: list[Operand], places: list[Place], caps: Caps) -> str:
    """The way in which a binding is declared, for all operands on it."""
    if any(["a" in o.uses for o in operands]):
        if any([set(o.uses) != {"a"} for o in operands]):
            raise Unsupported("webgpu: a compiled kernel that adds to a buffer and reads it")
        return "add"
    written = any([o.written for o in operands])
    whole = all([set(o.uses) <= {"R", "W"} for o in operands]) and all([p.aligned for p in places])
    if (
        whole
        and carrier(operands[0].dtype, caps) in FOURS
        and all([p.owned for p, o in zip(places, operands) if o.written])
    ):
        return "v"
    return elements.element_mode(operands[0].dtype, caps, written)


def array_type(dtype: DType, mode: str, caps: Caps) -> str:
    if mode == "add":
        return atomic_add(dtype, caps)[0]
    return elements.array_type(dtype, mode, caps)


def functions(operand: Operand, place: Place, mode: str, caps: Caps) -> list[str]:
    """The text of the functions by which an operand is reached."""
    found = []
    var, dtype = f"memory_{place.binding}", operand.dtype
    at = f"u32(i) + p.{operand.name}_o" if place.offset else "u32(i)"
    type_ = wgsl_type(carrier(dtype, caps))
    if "r" in operand.uses or ("R" in operand.uses and mode != "v"):
        found.append(
            _function(
                f"read_{operand.name}(i: i32) -> {type_}",
                [f"let at = {at};", f"return {elements.read(dtype, var, 'at', caps, mode)};"],
            )
        )
    if "w" in operand.uses or ("W" in operand.uses and mode != "v"):
        found.append(
            _function(
                f"write_{operand.name}(i: i32, v: {type_})",
                [f"let at = {at};", elements.write(dtype, var, "at", "v", caps)],
            )
        )
    if "R" in operand.uses:
        found.append(_function(f"read4_{operand.name}(i: i32) -> vec4<{type_}>", _read4(operand, var, at, mode, caps)))
    if "W" in operand.uses:
        found.append(
            _function(f"write4_{operand.name}(i: i32, v: vec4<{type_}>, n: i32)", _write4(operand, var, at, mode, caps))
        )
    if "a" in operand.uses:
        found += _add(operand, var, at, caps)
    return found


def _function(head: str, body: list[str]) -> str:
    return "\n    ".join([f"fn {head} {{", *body]) + "\n}"


def _read4(operand: Operand, var: str, at: str, mode: str, caps: Caps) -> list[str]:
    if mode != "v":
        lanes = ", ".join([f"read_{operand.name}(i + {k})" for k in range(4)])
        return [f"return vec4({lanes});"]
    lines, lanes = elements.read4(operand.dtype, var, f"({at}) / 4u", "v", caps)
    return [*lines, f"return vec4({', '.join(lanes)});"]


def _write4(operand: Operand, var: str, at: str, mode: str, caps: Caps) -> list[str]:
    if mode != "v":
        return [f"if (i + {k} < n) {{ write_{operand.name}(i + {k}, v[{k}]); }}" for k in range(4)]
    return elements.write4(operand.dtype, var, f"({at}) / 4u", [f"v.{c}" for c in "xyzw"], caps)


def _add(operand: Operand, var: str, at: str, caps: Caps) -> list[str]:
    own = carrier(operand.dtype, caps)
    _, lines, combine = atomic_add(operand.dtype, caps)
    value = "n64_words(value)" if own == "n64" else "value"
    body = [f"let at = {at};", f"let v = {value};", *[line.replace("b_dst", var) for line in lines]]
    if combine is None:
        return [_function(f"add_{operand.name}(i: i32, value: {wgsl_type(own)})", body)]
    name = f"combine_{operand.name}"
    type_, joined = combine
    return [
        _function(f"{name}(a: {type_}, b: {type_}) -> {type_}", joined),
        _function(
            f"add_{operand.name}(i: i32, value: {wgsl_type(own)})",
            [line.replace("combine(", f"{name}(") for line in body],
        ),
    ]
