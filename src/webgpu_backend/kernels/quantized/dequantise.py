"""Quantised weights as numbers: for gradients, rows of an embedding, and whatever wants to see them."""

from functools import cache

from ...dtypes import DType
from ...program import Caps, Program, Step
from ..layout import grid_of_fours
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program
from . import formats
from .formats import Blocks


def plan(blocks: Blocks, n: int, k: int, offset: int, row: int, out: DType, caps: Caps) -> Step:
    """n rows of k weights into a dense output from its start; `offset` and `row` of the codes in pieces of 32."""
    program = _program(Blocks(blocks.format, blocks.dtype), out, caps)
    return Step(program, packed([n * k, k, offset, row, *blocks.words()]), grid_of_fours(n * k, caps))


@cache
def _program(blocks: Blocks, out: DType, caps: Caps) -> Program:
    bindings = [*formats.bindings(blocks, caps), ("out", "read_write", elements.array_type(out, "v", caps))]
    return render_program(
        f"dequantise_{blocks.format}_{blocks.dtype.short}_{out.short}", "quantized/dequantise.wgsl",
        ["n", "k", "b_o", "b_r", *formats.FIELDS], bindings, caps,
        store=elements.write4(out, "out", "g", ["v.x", "v.y", "v.z", "v.w"], caps), **formats.names(blocks, caps),
    )  # fmt: skip
