"""Kernels that compute an output element from its index, and the declarations that other kernels share with them.

Their templates include `text/interface.wgsl`; `{{ a("i") }}` reads element i of operand a. The template of an indexed
kernel defines `fn at(i: u32)`, which returns the value (or a struct R of the values) of output element i, and then
includes `text/by_index.wgsl`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import NamedTuple

from ...dtypes import WGSL_TYPE, DType, carrier
from ...program import Caps, Program, Step
from ..layout import WORKGROUP, spread
from . import elements
from .expression import Emitter, convert
from .render import Binding, render_program

LANES = {"gpu": 1, "cpu": 4}  # a software adapter pays per thread; packed dtypes always take four

Operands = tuple[tuple[str, DType], ...]


@dataclass(frozen=True)
class Kernel:
    """A program whose first parameter counts what it computes, of which a workgroup has `share`."""

    program: Program
    pack: Struct
    share: int

    def step(self, caps: Caps, n: int, *values) -> Step:
        """One dispatch for `n` of them; `values` are the other parameters."""
        return Step(self.program, self.pack.pack(n, *values), spread(-(-n // self.share), caps))


class Interface(NamedTuple):
    """Parameters and buffers of a kernel over named operands, and what reads or writes an element of each."""

    fields: list[str]
    bindings: list[Binding]
    accessors: dict[str, Callable[..., str]]
    pack: Struct


def plain(dtype: DType, caps: Caps) -> bool:
    """One thread may store one element: no other element shares its word."""
    return not elements.is_packed(dtype, caps)


def function(name: str, source: str, types: dict[str, str], result: str, caps: Caps) -> str:
    """A WGSL function of the typed arguments, from an expression."""
    emitter = Emitter(types, native64=caps.i64)
    lines = emitter.program(source, [("result_", result)])
    arguments = ", ".join(f"{n}: {WGSL_TYPE[t]}" for n, t in types.items())
    body = "\n    ".join([*lines, "return result_;"])
    return f"fn {name}({arguments}) -> {WGSL_TYPE[result]} {{\n    {body}\n}}"


def interface(
    reads: Operands,
    writes: Operands,
    modes: str,
    fields: tuple[str, ...],
    caps: Caps,
    fours: str = "",
    double: bool = False,
) -> Interface:
    """Every operand read has a parameter `<name>_o`, the offset of its first element. Fields are u32 unless they say
    `name: f32`. `modes` has a letter per written operand; the operand named in `fours` is read in groups of four;
    `double` as in `render_program`."""
    fields = [*fields, *(f"{name}_o" for name, _ in reads)]
    bindings, accessors = [], {}
    for name, dtype in reads:
        kind = elements.array_type(dtype, "v" if name == fours else "e", caps)
        bindings.append((f"b_{name}", "read", kind))
        accessors[name] = _reader(name, dtype, caps)
    for (name, dtype), mode in zip(writes, modes):
        bindings.append((f"b_{name}", "read_write", elements.array_type(dtype, mode, caps)))
        accessors[name] = _writer(name, dtype, caps)
    codes = {"": "I", "i32": "i", "f32": "d" if double else "f"}
    packer = Struct("<" + "".join([codes[field.partition(": ")[2]] for field in fields]))
    return Interface(fields, bindings, accessors, packer)


def _reader(name: str, dtype: DType, caps: Caps):
    own = carrier(dtype, caps)

    def read(index: str, to: str | None = None) -> str:
        text = elements.read(dtype, f"b_{name}", f"p.{name}_o + {index}", caps)
        return convert(text, own, to or own)

    return read


def _writer(name: str, dtype: DType, caps: Caps):
    own = carrier(dtype, caps)

    def write(index: str, value: str, of: str | None = None) -> str:
        return elements.write(dtype, f"b_{name}", index, convert(value, of or own, own), caps)

    return write


def from_u32(value: str, dtype: DType, caps: Caps) -> str:
    """An unsigned index as an element of an integer dtype."""
    c = carrier(dtype, caps)
    return f"i64(u64({value}))" if c == "n64" else convert(value, "u32", c)


@cache
def kernel(
    name: str,
    template: str,
    reads: Operands,
    writes: Operands,
    fields: tuple[str, ...],
    caps: Caps,
    lanes: int = 0,
    names: tuple[tuple[str, object], ...] = (),
    double: bool = False,
    guarded: bool = False,
) -> Kernel:
    """An indexed kernel; its first parameter is `n`, the number of output elements. `guarded`: it reports indices that
    are out of range."""
    simple = all(plain(d, caps) for _, d in writes)
    lanes = 4 if not simple else lanes or LANES[caps.kind]
    mode = "v" if lanes == 4 else "e"
    face = interface(reads, writes, mode * len(writes), ("n", *fields), caps, double=double)
    carriers = [carrier(d, caps) for _, d in writes]
    many = len(writes) > 1
    program = render_program(
        f"{name}_{'_'.join(d.short for _, d in (*reads, *writes))}",
        template,
        face.fields,
        face.bindings,
        caps,
        guarded=guarded,
        double=double,
        result="R" if many else WGSL_TYPE[carriers[0]],
        members=[f"{n}: {WGSL_TYPE[c]}" for (n, _), c in zip(writes, carriers)] if many else [],
        lanes=lanes,
        stores=[line for n, d in writes for line in _store(n, d, f".{n}" if many else "", lanes, caps)],
        index=lambda value, dtype: from_u32(value, dtype, caps),
        **face.accessors,
        **dict(names),
    )
    return Kernel(program, face.pack, lanes * WORKGROUP[caps.kind])


def _store(name: str, dtype: DType, part: str, lanes: int, caps: Caps) -> list[str]:
    """Statements that store what `at` returned, or a part of it, for one element or four."""
    if lanes == 1:
        return [elements.write(dtype, f"b_{name}", "g", f"y{part}", caps)]
    return elements.write4(dtype, f"b_{name}", "g", [f"y{k}{part}" for k in range(4)], caps)
