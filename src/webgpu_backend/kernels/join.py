"""Concatenation: every thread writes four elements of the output, from whichever inputs they come."""

from functools import cache
from struct import pack

from ..program import Caps, Program
from . import elements, raw
from .index import Plan
from .layout import grid
from .pointwise import GROUPS, WORKGROUP
from .render import render

MOST = 7  # inputs of one dispatch: the baseline has eight storage buffers


def plan(item: int, lengths: list[int], offsets: list[int], rows: int, caps: Caps) -> Plan:
    """Contiguous inputs seen as (rows, length) each, side by side in the output's rows."""
    total = sum(lengths)
    n = total * rows
    vector = total % 4 == 0 and all(length % 4 == 0 for length in lengths) and all(o % 4 == 0 for o in offsets)
    words = [n, total]
    start = 0
    for length, offset in zip(lengths, offsets):
        words += [start, length, offset]
        start += length
    program = _program(item, len(lengths), vector, caps)
    threads = -(-n // (4 * GROUPS[caps.kind]))
    return Plan(program, pack(f"<{len(words)}I", *words), grid(threads, WORKGROUP[caps.kind], caps))


@cache
def _program(item: int, count: int, vector: bool, caps: Caps) -> Program:
    dtype, bare = raw.bits_of(item), raw.plain(caps)
    mode = "v" if vector else "e"
    inputs = []
    for k in range(count):
        if vector:
            lines, lanes = elements.read4(dtype, f"b_{k}", "at / 4u", "v", bare)
            lines += elements.write4(dtype, "b_out", "g", lanes, bare)
        else:
            lines = [f"return {elements.read(dtype, f'b_{k}', 'at', bare)};"]
        inputs.append(lines)
    carrier = {1: "i32", 2: "i32", 4: "u32", 8: "vec2<u32>"}[item]
    text = render(
        "join.wgsl",
        caps,
        count=count,
        kind=elements.array_type(dtype, mode, bare),
        out=elements.array_type(dtype, "v", bare),
        inputs=inputs,
        vector=vector,
        carrier=carrier,
        store=elements.write4(dtype, "b_out", "g", ["v0", "v1", "v2", "v3"], bare),
        workgroup=WORKGROUP[caps.kind],
        groups=GROUPS[caps.kind],
    )
    return Program(f"cat_{item}{mode}{count}", text, "r" * count + "w", 4 * (2 + 3 * count))
