"""Tensors whose elements follow from their position: arange, linspace, eye, triangle indices."""

from functools import cache
from struct import pack

from ...dtypes import DType, carrier
from ...program import Caps, Program, Step
from ..layout import grid_of_fours
from ..text import elements
from ..text.expression import Emitter, convert, wgsl_type
from ..text.numbers import PACKERS, packed, scalar_fields, scalar_text
from ..text.render import render_program


def plan(
    name: str, dtype: DType, compute: str, source: str, scalars: tuple[str, ...], values, n: int, caps: Caps
) -> Step:
    """Of n elements; `source` is an expression in `i` (u32) and the scalars (of `compute`)."""
    program = _program(name, dtype, compute, source, (), scalars, caps)
    return Step(program, packed([n]) + _numbers(compute, values), grid_of_fours(n, caps))


def plan_line(dtype: DType, compute: str, source: str, scalars: tuple[str, ...], values, n: int, caps: Caps) -> Step:
    """As plan, for a line walked from both ends: `half` and `last` are positions too."""
    name = f"{'logspace' if 'base' in scalars else 'linspace'}_{compute}"
    program = _program(name, dtype, compute, source, ("half", "last"), scalars, caps)
    return Step(program, packed([n, n // 2, n - 1]) + _numbers(compute, values), grid_of_fours(n, caps))


def _numbers(compute: str, values) -> bytes:
    return b"".join([PACKERS[compute](v) for v in values])


@cache
def _program(
    name: str, dtype: DType, compute: str, source: str, positions: tuple[str, ...], scalars: tuple[str, ...], caps: Caps
) -> Program:
    own = carrier(dtype, caps)
    fields = ["n", *positions]
    for scalar in scalars:
        fields += scalar_fields(scalar, compute)
    texts = {s: f"p.{s}" for s in positions} | {s: scalar_text(s, compute) for s in scalars}
    types = dict.fromkeys(("i", *positions), "u32") | dict.fromkeys(scalars, compute)
    body = Emitter(types, texts, caps.i64).program(source, [("value", own)])
    return _rendered(name, dtype, own, fields, body, caps)


def _rendered(name: str, dtype: DType, own: str, fields: list[str], body: list[str], caps: Caps) -> Program:
    return render_program(
        f"{name}_{dtype.short}",
        "shape/creation.wgsl",
        fields,
        [("b_out", "read_write", elements.array_type(dtype, "v", caps))],
        caps,
        type=wgsl_type(own),
        body=body,
        store=elements.write4(dtype, "b_out", "g", ["v0", "v1", "v2", "v3"], caps),
    )


def plan_triangle(dtype: DType, upper: bool, n: int, columns: int, offset: int, rows: int, caps: Caps) -> Step:
    """Row indices, then column indices, of the n elements of a triangle, row by row."""
    params = pack("<IIiII", 2 * n, columns, offset, rows, n)
    return Step(_triangle(dtype, upper, caps), params, grid_of_fours(2 * n, caps))


@cache
def _triangle(dtype: DType, upper: bool, caps: Caps) -> Program:
    own = carrier(dtype, caps)
    # Elements before row `mid`, and the first column of row `low`.
    before, first = "below(mid + p.offset) - below(p.offset)", "0u"
    if upper:
        before = "u32(mid) * p.columns - (below(mid - 1 + p.offset) - below(p.offset - 1))"
        first = "u32(max(low + p.offset, 0))"
    body = [
        "let k = i % p.count;",
        "var low = 0i;",
        "var high = i32(p.rows) - 1;",
        "while (low < high) {",  # the last row that starts at or before k
        "    let mid = (low + high + 1) / 2;",
        f"    if ({before} <= k) {{ low = mid; }} else {{ high = mid - 1; }}",
        "}",
        "let mid = low;",
        f"let column = k - ({before}) + {first};",
        f"let value = {convert('select(u32(low), column, i >= p.count)', 'u32', own)};",
    ]
    fields = ["n", "columns", "offset: i32", "rows", "count"]
    return _rendered(f"tri{'u' if upper else 'l'}_indices", dtype, own, fields, body, caps)
