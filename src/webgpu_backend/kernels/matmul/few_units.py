"""Products of few rows with quantised weights by matrix units: bound by reading the codes once, for any number of rows.

Each weight becomes one number of f16, code times scale plus offset, as in tiles of many rows; float16 rows go in as
they are, bfloat16 ones by a power of two for each row (`units`)."""

from functools import cache
from typing import NamedTuple

from ...dtypes import carrier
from ...program import Caps, Plan, Program, Step
from ..layout import spread
from ..quantized import formats
from ..quantized.formats import PIECE, Blocks
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program
from . import units
from .few_rows import ROWS
from .product import (
    Product,
    array_of,
    epilogue_key,
    epilogue_name,
    epilogue_text,
    finisher_bindings,
    scalar_bytes,
    store_mode,
    words_of,
)

# Rows, by dtype, below which kernels of few rows serve that need no tile, nor a pass before for bfloat16; not measured.
LEAST = {"float16": 2, "bfloat16": 5}


class Lay(NamedTuple):
    """Subgroups of a workgroup: each of the `crews` has as many rows of the weights as a matrix, and is one of `teams`,
    which share k and take `near` pieces of it at a time."""

    crews: int
    teams: int
    near: int


# The first that fits and leaves each team as many steps; not measured.
LAYS = (Lay(1, 8, 2), Lay(1, 4, 2), Lay(2, 2, 2), Lay(1, 4, 1), Lay(2, 2, 1))
STEPS = 2


def serves(q: Product, caps: Caps) -> bool:
    if caps.kind != "gpu" or not caps.matrix or not q.blocks or q.a.dtype.name not in LEAST:
        return False
    return LEAST[q.a.dtype.name] <= q.m <= min(ROWS, caps.matrix) and lay(q, caps) is not None


def lay(q: Product, caps: Caps) -> Lay | None:
    rows = _power(q.m)
    there = [found for found in LAYS if fits(found, rows, caps)]
    long = [found for found in there if q.k >= STEPS * PIECE * found.near * found.teams]
    return next(iter(long or there[-1:]), None)


def fits(lay: Lay, rows: int, caps: Caps) -> bool:
    """Whole pieces for each lane, and room."""
    n = caps.matrix
    line = 8 * (lay.near * PIECE // 4 + units.PAD)
    room = line * (lay.crews * lay.teams * n + (lay.teams - 1) * rows + n) + 4 * lay.crews * lay.teams * n * n
    threads = caps.lanes * lay.crews * lay.teams
    return n * lay.near % caps.lanes == 0 and threads <= caps.workgroup_size and room <= caps.workgroup_bytes


def _power(rows: int) -> int:
    return 1 << (rows - 1).bit_length()


def plan(q: Product, caps: Caps) -> Plan:
    """Over a, b, the scales, c (if there is one) and the output, by name."""
    found, carry = lay(q, caps), carrier(q.a.dtype, caps)
    store, epilogue, scales = store_mode(q.out, q.n, caps), epilogue_key(q), units.scaled(q)
    program = _program(
        _power(q.m), found, q.a.dtype, q.out.dtype, store, epilogue, q.act, q.finishers[0],
        Blocks(q.blocks.format, q.blocks.dtype), scales, caps,
    )  # fmt: skip
    total = -(-q.n // (found.crews * caps.matrix))
    steps, work, _ = units.powers(q, {"a": "a", "b": "b"}, caps) if scales else ([], {}, [])
    words = [q.m, q.n, q.k, total, q.a.offset // 4, q.a.row // 4, q.b.offset, q.b.row]
    words += words_of(q.out, store)[:3] + [word for x in q.finishing for word in words_of(x)]
    params = packed(words) + scalar_bytes(q, epilogue, carry) + packed(q.blocks.words())
    bindings = ("a", "b", "s", *work, *q.finishers[1], "out")
    return Plan((*steps, Step(program, params, spread(total, caps), bindings)), work)


@cache
def _program(rows, lay, a_dtype, out_dtype, store, epilogue, act, finishers, blocks, scales, caps) -> Program:
    more, functions = epilogue_text(epilogue, act, carrier(a_dtype, caps), finishers, caps)
    fields = ["m", "n", "k", "total", "a_o", "a_r", "b_o", "b_r", "o_o", "o_m", "o_n", *more, *formats.FIELDS]
    bindings = [("a_in", "read", array_of(a_dtype, "k", caps)), *formats.bindings(blocks, caps)]
    bindings += [("ea_in", "read", "array<f32>")] * bool(scales) + finisher_bindings(finishers, caps)
    bindings.append(("out", "read_write", elements.array_type(out_dtype, store, caps)))
    half = a_dtype.name == "float16"
    tag = f"v{rows}_{a_dtype.short}_{out_dtype.short}{store}_{epilogue_name(epilogue, act)}"
    return render_program(
        f"matmul_{blocks.format}_{blocks.dtype.short}_units_{tag}", "matmul/few_units.wgsl", fields, bindings, caps,
        declarations=[*elements.wideners((a_dtype,), caps), *functions], finishes=bool(functions), type="f32",
        l=lay, rows=rows, size=caps.matrix, lanes=caps.lanes, pad=units.PAD, half=half, scales=scales, store=store,
        read4=lambda x, at: f"{x}_in[{at}]" if half else elements.widened(a_dtype, f"{x}_in[{at}]", caps),
        write=lambda at, value: elements.write(out_dtype, "out", at, value, caps),
        write4=lambda at, lanes: " ".join(elements.write4(out_dtype, "out", at, lanes, caps)),
        **formats.names(blocks, caps),
    )  # fmt: skip
