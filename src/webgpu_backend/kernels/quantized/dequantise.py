"""Quantised weights as numbers: for gradients, rows of an embedding, and whatever wants to see them."""

from functools import cache
from typing import NamedTuple

from ...dtypes import DType
from ...program import Caps, Program, Step
from ..layout import grid_of_fours
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program
from . import formats
from .formats import Blocks


class Rows(NamedTuple):
    """Which rows are asked for: bytes of an index, the first one's place, how many rows there are, and the site by
    which a bad index is reported."""

    size: int
    first: int
    limit: int
    site: int


def plan(
    blocks: Blocks, n: int, k: int, offset: int, row: int, out: DType, caps: Caps, rows: Rows | None = None
) -> Step:
    """n rows of k weights into a dense output from its start; `offset` and `row` of the codes in pieces of 32. Over
    codes, scales, the index of each row (where they are chosen) and the output."""
    program = _program(Blocks(blocks.format, blocks.dtype), out, rows.size if rows else 0, caps)
    params = packed([n * k, k, offset, row, *blocks.words(), *(rows[1:] if rows else ())])
    return Step(program, params, grid_of_fours(n * k, caps))


@cache
def _program(blocks: Blocks, out: DType, index: int, caps: Caps) -> Program:
    bindings = list(formats.bindings(blocks, caps))
    if index:
        bindings.append(("index_in", "read", "array<vec2<u32>>" if index == 8 else "array<u32>"))
    bindings.append(("out", "read_write", elements.array_type(out, "v", caps)))
    name = f"dequantise_{'rows_' if index else ''}{blocks.format}_{blocks.dtype.short}_{out.short}"
    return render_program(
        name, "quantized/dequantise.wgsl",
        ["n", "k", "b_o", "b_r", *formats.FIELDS, *(["first", "limit", "site"] if index else [])], bindings, caps,
        guarded=index > 0, index=index,
        store=elements.write4(out, "out", "g", ["v.x", "v.y", "v.z", "v.w"], caps), **formats.names(blocks, caps),
    )  # fmt: skip
