"""Kernels that compute an output element from its index, and the declarations that other kernels share with them.

A template says `{{ head }}`, then its functions, then `{{ main }}`; `{{ a("i") }}` reads element i of operand a. An
indexed kernel defines `fn at(i: u32)`, which returns the value (or a struct R of the values) of output element i.
"""

from dataclasses import dataclass
from functools import cache
from struct import Struct

from ...dtypes import WGSL_TYPE, DType, carrier
from ...program import Caps, Program
from ..layout import grid
from . import elements
from .expression import Emitter, convert
from .render import render

WORKGROUP = {"gpu": 256, "cpu": 64}
LANES = {"gpu": 1, "cpu": 4}  # a software adapter pays per thread; packed dtypes always take four

Operands = tuple[tuple[str, DType], ...]


@dataclass(frozen=True)
class Kernel:
    program: Program
    pack: Struct
    lanes: int
    workgroup: int

    def grid(self, n: int, caps: Caps) -> tuple[int, int, int]:
        return grid(-(-n // self.lanes), self.workgroup, caps)


def plain(dtype: DType, caps: Caps) -> bool:
    """One thread may store one element: no other element shares its word."""
    return elements.element_mode(dtype, caps, written=True) == "e"


def function(name: str, source: str, types: dict[str, str], result: str, caps: Caps) -> str:
    """A WGSL function of the typed arguments, from an expression."""
    emitter = Emitter(types, native64=caps.i64)
    lines = emitter.program(source, [("result_", result)])
    arguments = ", ".join(f"{n}: {WGSL_TYPE[t]}" for n, t in types.items())
    body = "\n    ".join([*lines, "return result_;"])
    return f"fn {name}({arguments}) -> {WGSL_TYPE[result]} {{\n    {body}\n}}"


def operands(reads: Operands, writes: Operands, modes: str, fields: tuple[str, ...], caps: Caps, fours: str = ""):
    """The head of a shader (parameters, bindings) and its accessors by operand name.

    Every operand read has a parameter `<name>_o`, the offset of its first element. Fields are u32 unless they say
    `name:f32`. `modes` has a letter per written operand; the operand named in `fours` is read in groups of four.
    """
    typed = [f.split(":") if ":" in f else (f, "u32") for f in fields]
    lines = ["struct P {", *(f"    {n}: {t}," for n, t in typed), *(f"    {n}_o: u32," for n, _ in reads), "}"]
    access: dict[str, object] = {}
    for slot, (name, dtype) in enumerate(reads):
        kind = elements.array_type(dtype, "v" if name == fours else "e", caps)
        lines.append(f"@group(0) @binding({slot}) var<storage, read> b_{name}: {kind};")
        access[name] = _reader(name, dtype, caps)
    for slot, (name, dtype) in enumerate(writes, start=len(reads)):
        kind = elements.array_type(dtype, modes[slot - len(reads)], caps)
        lines.append(f"@group(0) @binding({slot}) var<storage, read_write> b_{name}: {kind};")
        access[name] = _writer(name, dtype, caps)
    code = {"u32": "I", "i32": "i", "f32": "f"}
    packer = Struct("<" + "".join(code[t] for _, t in typed) + "I" * len(reads))
    return "\n".join(lines) + "\n", access, packer


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
) -> Kernel:
    """An indexed kernel; its first parameter is `n`, the number of output elements."""
    simple = all(plain(d, caps) for _, d in writes)
    lanes = 4 if not simple else lanes or LANES[caps.kind]
    mode = "v" if lanes == 4 else "e"
    head, access, packer = operands(reads, writes, mode * len(writes), ("n", *fields), caps)
    carriers = [carrier(d, caps) for _, d in writes]
    if len(writes) > 1:
        members = ", ".join(f"{n}: {WGSL_TYPE[c]}" for (n, _), c in zip(writes, carriers))
        head += f"struct R {{ {members} }}\n"
    text = render(
        template,
        caps,
        head=head,
        main=_main(writes, lanes, caps),
        index=lambda value, dtype: from_u32(value, dtype, caps),
        result="R" if len(writes) > 1 else WGSL_TYPE[carriers[0]],
        **access,
        **dict(names),
    )
    tags = "_".join(d.short for _, d in (*reads, *writes))
    program = Program(f"{name}_{tags}", text, "r" * len(reads) + "w" * len(writes), packer.size)
    return Kernel(program, packer, lanes, WORKGROUP[caps.kind])


def _main(writes: Operands, lanes: int, caps: Caps) -> str:
    size = WORKGROUP[caps.kind]
    lines = [
        f"@compute @workgroup_size({size})",
        "fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {",
        f"    let g = gid.x + gid.y * nwg.x * {size}u;",
        f"    if (g * {lanes}u >= p.n) {{ return; }}",
    ]
    parts = [f".{n}" for n, _ in writes] if len(writes) > 1 else [""]
    if lanes == 1:
        lines.append("    let y = at(g);")
        for (n, d), part in zip(writes, parts):
            lines.append("    " + elements.write(d, f"b_{n}", "g", f"y{part}", caps))
    else:
        for k in range(4):
            lines.append(f"    let y{k} = at(min(4u * g + {k}u, p.n - 1u));")
        for (n, d), part in zip(writes, parts):
            lines += ["    " + s for s in elements.write4(d, f"b_{n}", "g", [f"y{k}{part}" for k in range(4)], caps)]
    return "\n".join([*lines, "}", ""])
