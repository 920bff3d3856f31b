"""Concatenation: every thread writes four elements of the output, from whichever inputs they come."""

from functools import cache
from typing import NamedTuple

from ...dtypes import WGSL_TYPE
from ...program import Caps, Program, Step
from ..layout import collapse, grid_of_fours
from ..text import bits, elements
from ..text.numbers import packed
from ..text.render import render_program

MOST = 7  # inputs of one dispatch: the baseline has eight storage buffers
MORE = 16  # where there are more, and every input is one run of memory: parameters of others would not fit


class Part(NamedTuple):
    """An input as rows of `length` neighbours. Row r starts at
    offset + r % n0 * s0 + r / n0 % n1 * s1 + r / (n0 * n1) * s2 with steps (n0, s0, n1, s1, s2)."""

    length: int
    offset: int
    steps: tuple[int, int, int, int, int]

    def plain(self, rows: int) -> bool:
        return rows == 1 or (self.steps[0] == rows and self.steps[1] == self.length)


def part(sizes, strides, offset: int, dim: int) -> Part | None:
    """How a joined tensor is read; None where its rows are not whole in memory, or spread in more than three ways."""
    (length, *rest), ((step, *_),) = collapse(sizes[dim:], [strides[dim:]])
    rows, (steps,) = collapse(sizes[:dim], [strides[:dim]])
    if rest or (step != 1 and length > 1) or len(rows) > 3:
        return None
    rows, steps = [*rows, 1, 1][:3], [*steps, 0, 0][:3]
    return Part(length, offset, (rows[0], steps[0], rows[1], steps[1], steps[2]))


def most(parts: list[Part | None], rows: int, caps: Caps) -> int:
    """Inputs that one dispatch takes of these."""
    more = caps.kind == "gpu" and caps.max_bindings > MORE and all(p and p.plain(rows) for p in parts)
    return MORE if more else MOST


def plan(item: int, parts: list[Part], rows: int, caps: Caps, to: int = 0) -> Step:
    """Inputs seen as (rows, length) each, side by side in the output's rows, from its group of four `to` on."""
    total = sum(p.length for p in parts)
    n = total * rows
    strided = not all(p.plain(rows) for p in parts)
    places = [x for p in parts for x in (p.length, p.offset, *((p.steps[1], *p.steps[3:]) if strided else ()))]
    vector = not any(x % 4 for x in places)
    words = [n, total, to]
    start = 0
    for p in parts:
        words += [start, p.length, p.offset, *(p.steps if strided else ())]
        start += p.length
    program = _program(item, len(parts), vector, strided, caps)
    return Step(program, packed(words), grid_of_fours(n, caps))


@cache
def _program(item: int, count: int, vector: bool, strided: bool, caps: Caps) -> Program:
    dtype, bare = bits.bits_of(item), bits.plain(caps)
    mode = "v" if vector else "e"
    places = ("start", "length", "offset", *(("n0_", "s0_", "n1_", "s1_", "s2_") if strided else ()))
    kind = elements.array_type(dtype, mode, bare)
    inputs = []
    for k in range(count):
        if vector:
            lines, lanes = elements.read4(dtype, f"b_{k}", "at / 4u", "v", bare)
            lines += elements.write4(dtype, "b_out", "g + p.to", lanes, bare)
        else:
            lines = [f"return {elements.read(dtype, f'b_{k}', 'at', bare)};"]
        inputs.append(lines)
    return render_program(
        f"cat_{item}{mode}{count}{'s' if strided else ''}",
        "shape/cat.wgsl",
        ["n", "total", "to", *(f"{place}{k}" for k in range(count) for place in places)],
        [
            *((f"b_{k}", "read", kind) for k in range(count)),
            ("b_out", "read_write", elements.array_type(dtype, "v", bare)),
        ],
        caps,
        inputs=inputs,
        vector=vector,
        strided=strided,
        type=WGSL_TYPE[dtype.carrier],
        store=elements.write4(dtype, "b_out", "g + p.to", ["v0", "v1", "v2", "v3"], bare),
    )
