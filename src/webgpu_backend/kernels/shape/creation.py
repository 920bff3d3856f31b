"""Tensors whose elements follow from their position: arange, linspace, eye, triangle indices."""

from functools import cache
from struct import pack

from ...dtypes import DType, carrier
from ...program import Caps, Program
from ..layout import grid
from ..pointwise.elementwise import GROUPS, WORKGROUP, _scalar_fields, _scalar_text
from ..text import elements
from ..text.expression import Emitter, convert, wgsl_type
from ..text.numbers import PACKERS
from ..text.render import render


def run(name: str, dtype: DType, compute: str, source: str, scalars: tuple[str, ...], values, n: int, caps: Caps):
    """(program, params, grid) for n elements; `source` is an expression in `i` (u32) and the scalars (of `compute`)."""
    program = _program(name, dtype, compute, source, scalars, caps)
    params = pack("<I", n) + b"".join(PACKERS[compute](v) for v in values)
    threads = -(-n // (4 * GROUPS[caps.kind]))
    return program, params, grid(threads, WORKGROUP[caps.kind], caps)


@cache
def _program(name: str, dtype: DType, compute: str, source: str, scalars: tuple[str, ...], caps: Caps) -> Program:
    own = carrier(dtype, caps)
    fields = ["n: u32"]
    for scalar in scalars:
        fields += _scalar_fields(scalar, compute)
    texts = {s: _scalar_text(s, compute) for s in scalars}
    emitter = Emitter({"i": "u32"} | dict.fromkeys(scalars, compute), texts, caps.i64)
    return _render(name, dtype, own, fields, emitter.program(source, [("value", own)]), caps)


def _render(name: str, dtype: DType, own: str, fields: list[str], body: list[str], caps: Caps) -> Program:
    text = render(
        "shape/creation.wgsl",
        caps,
        fields=fields,
        out=elements.array_type(dtype, "v", caps),
        type=wgsl_type(own),
        body=body,
        store=elements.write4(dtype, "b_out", "g", ["v0", "v1", "v2", "v3"], caps),
        workgroup=WORKGROUP[caps.kind],
        groups=GROUPS[caps.kind],
    )
    return Program(f"{name}_{dtype.short}", text, "w", 4 * len(fields))


def line(dtype: DType, compute: str, source: str, scalars: tuple[str, ...], values, n: int, caps: Caps):
    """As run, for a line walked from both ends: `half` and `last` are positions too."""
    program = _line(dtype, compute, source, scalars, caps)
    params = pack("<III", n, n // 2, n - 1) + b"".join(PACKERS[compute](v) for v in values)
    threads = -(-n // (4 * GROUPS[caps.kind]))
    return program, params, grid(threads, WORKGROUP[caps.kind], caps)


@cache
def _line(dtype: DType, compute: str, source: str, scalars: tuple[str, ...], caps: Caps) -> Program:
    own = carrier(dtype, caps)
    fields = ["n: u32", "half: u32", "last: u32"]
    for scalar in scalars:
        fields += _scalar_fields(scalar, compute)
    texts = {"half": "p.half", "last": "p.last"} | {s: _scalar_text(s, compute) for s in scalars}
    names = {"i": "u32", "half": "u32", "last": "u32"} | dict.fromkeys(scalars, compute)
    body = Emitter(names, texts, caps.i64).program(source, [("value", own)])
    return _render(f"{'logspace' if 'base' in scalars else 'linspace'}_{compute}", dtype, own, fields, body, caps)


def triangle(dtype: DType, upper: bool, n: int, columns: int, offset: int, rows: int, caps: Caps):
    """Row indices, then column indices, of the n elements of a triangle, row by row."""
    program = _triangle(dtype, upper, caps)
    params = pack("<IIiII", 2 * n, columns, offset, rows, n)
    return program, params, grid(-(-2 * n // (4 * GROUPS[caps.kind])), WORKGROUP[caps.kind], caps)


@cache
def _triangle(dtype: DType, upper: bool, caps: Caps) -> Program:
    own = carrier(dtype, caps)
    before = (
        "mid * p.columns - (below(mid - 1 + p.offset) - below(p.offset - 1))"
        if upper
        else "below(mid + p.offset) - below(p.offset)"
    ).replace("mid * p.columns", "u32(mid) * p.columns")
    first = "u32(max(i32(row) + p.offset, 0))" if upper else "0u"
    body = [
        "let k = i % p.count;",
        "var low = 0i;",
        "var high = i32(p.rows) - 1;",
        "while (low < high) {",  # the last row that starts at or before k
        "    let mid = (low + high + 1) / 2;",
        f"    if ({before} <= k) {{ low = mid; }} else {{ high = mid - 1; }}",
        "}",
        "let mid = low;",
        f"let column = k - ({before}) + {first.replace('i32(row)', 'low')};",
        f"let value = {convert('select(u32(low), column, i >= p.count)', 'u32', own)};",
    ]
    fields = ["n: u32", "columns: u32", "offset: i32", "rows: u32", "count: u32"]
    return _render(f"tri{'u' if upper else 'l'}_indices", dtype, own, fields, body, caps)
