"""Products of float16 and bfloat16 with packed half arithmetic, faster than f32, and what keeps it harmless.

A prior pass lays both operands out in f16, two neighbours of k together, every row times a power of two that brings its
largest element into [8, 16). A sum of 64 products then cannot overflow, and what is lost are elements 2^27 times less
than their row's largest. Sums over CHUNK of k, even and odd k apart, go to f32; the powers are undone at the end.
"""

from functools import cache

from ...dtypes import DType
from ...program import Caps, Plan, Program, Step
from ..layout import spread
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program
from . import tiles
from .product import (
    Matrix,
    Product,
    array_of,
    class_of,
    epilogue_key,
    epilogue_name,
    epilogue_text,
    finisher_bindings,
    scalar_bytes,
    store_mode,
    words_of,
)
from .tiles import Tile

CHUNK = 128  # of k, of which two sums of 64 products are kept in f16; panels are padded to whole ones
TOP = 3  # the largest of a row comes to lie in [2^TOP, 2^(TOP + 1)): CHUNK / 2 products cannot overflow
LEAST = 64  # rows and columns below which the other kernels serve
DEPTH = 128
PACK_ROWS = 16


def serves(q: Product, caps: Caps) -> bool:
    if not caps.f16 or q.gather or q.blocks or q.summed or q.a.dtype.name not in ("float16", "bfloat16"):
        return False
    return min(q.m, q.n) >= LEAST and q.k >= DEPTH


def rows(caps: Caps, table: tuple[Tile, ...]) -> list[Tile]:
    """Those of a table's tiles that fit."""
    return [t for t in table if tiles.fits(t, caps) and CHUNK % (2 * t.bk) == 0]


def plan(q: Product, limit: float, caps: Caps, only: tuple[Tile, ...] = ()) -> Plan | None:
    """A plan that should take less than `limit` microseconds, if there is one, with these tiles or the table's."""
    found = rows(caps, only or tiles.tuning().halves)
    batch = q.outer * q.inner
    if not found:
        return None
    tile = tiles.choose(found, q.m, q.n, q.k, batch, most=1)[1]
    depth, panels = _panels(q, tile)
    if cost(q, tile) >= limit or max(size for size, *_ in panels) * 2 > caps.max_binding:
        return None
    tiles_m, tiles_n = -(-q.m // tile.bm), -(-q.n // tile.bn)
    total = batch * tiles_m * tiles_n
    epilogue = epilogue_key(q)
    store = store_mode(q.out, q.n, caps)
    program = _program(q.out.dtype, q.finishers[0], store, epilogue, q.act, tile, caps)
    words = [q.m, q.n, depth, q.inner, tiles_m, tiles_n, total]
    for _, _, wide, outer, inner in panels:
        words += [wide // 4, outer // 4, inner // 4]
    words += words_of(q.out, store)
    words += [word for x in q.finishing for word in words_of(x)]
    params = packed(words) + scalar_bytes(q, epilogue, "f32")
    bindings = ("pa", "pb", *q.finishers[1], "out")
    steps = (_pack(q, depth, tile, panels, caps), Step(program, params, spread(total, caps), bindings))
    return Plan(steps, {"pa": 2 * panels[0][0], "pb": 2 * panels[1][0]})


def cost(q: Product, tile: Tile) -> float:
    """Microseconds, with those of the prior pass."""
    table, (_, panels) = tiles.tuning(), _panels(q, tile)
    time = tiles.cost(tile, 1, q.m, q.n, q.k, q.outer * q.inner)
    return time + table.launch + 6 * sum(size for size, *_ in panels) / table.bandwidth


def _panels(q: Product, tile: Tile) -> tuple[int, list[tuple[int, int, int, int, int]]]:
    """How long the rows of both operands are when they are laid out, and what those take."""
    depth = -(-q.k // CHUNK) * CHUNK
    return depth, [_panel(q.a, q.m, tile.bm, depth, q), _panel(q.b, q.n, tile.bn, depth, q)]


def _panel(x: Matrix, rows: int, tile: int, depth: int, q: Product) -> tuple[int, int, int, int, int]:
    """Elements, copies, width, and the strides of the two batch dimensions; a broadcast operand is packed once."""
    wide = -(-rows // tile) * tile
    one = (depth + 1) * wide  # the last row holds the exponents
    inner = q.inner if x.inner else 1
    outer = q.outer if x.outer else 1
    return outer * inner * one, outer * inner, wide, one * inner if x.outer else 0, one if x.inner else 0


def _pack(q: Product, depth: int, tile: Tile, panels, caps: Caps) -> Step:
    """Both operands in one dispatch: neither would fill the adapter for long."""
    words, orders, total = [q.k, depth], "", 0
    for x, rows, height, (_, copies, wide, *_) in ((q.a, q.m, tile.bm, panels[0]), (q.b, q.n, tile.bn, panels[1])):
        order = class_of(x, rows, q.k)
        groups = wide // PACK_ROWS
        words += [rows, wide // 4, height, q.inner if x.inner else 1, groups, groups * copies, *words_of(x, order)]
        orders += order
        total += groups * copies
    program = _pack_program(q.a.dtype, orders, caps)
    return Step(program, packed(words), spread(total, caps), ("a", "b", "pa", "pb"))


@cache
def _pack_program(dtype: DType, orders: str, caps: Caps) -> Program:
    own = ("rows", "wide", "panel", "inner", "tiles", "total", "o", "r", "k", "b", "i")
    return render_program(
        f"matmul_pack_{dtype.short}{orders}", "matmul/halves_pack.wgsl",
        ["k", "depth", *(f"{x}_{f}" for x in "ab" for f in own)],
        [
            *((x, "read", array_of(dtype, order, caps)) for x, order in zip("ab", orders)),
            *((f"p{x}", "read_write", "array<vec4<f16>>") for x in "ab"),
        ],
        caps, declarations=elements.wideners((dtype,), caps), orders=orders, top=TOP,
        read=lambda x, at: elements.read(dtype, x, at, caps),
        read4=lambda x, at: elements.widened(dtype, f"{x}[{at}]", caps),
    )  # fmt: skip


@cache
def _program(out_dtype, finishers, store, epilogue, act, tile: Tile, caps: Caps) -> Program:
    more, functions = epilogue_text(epilogue, act, "f32", finishers, caps)
    fields = ["m", "n", "k", "inner", "tiles_m", "tiles_n", "total", *(f"{x}_{s}" for x in "ab" for s in "wbi")]
    bindings = [("a_in", "read", "array<vec4<f16>>"), ("b_in", "read", "array<vec4<f16>>")]
    bindings += finisher_bindings(finishers, caps)
    bindings.append(("out", "read_write", elements.array_type(out_dtype, store, caps)))
    return render_program(
        f"matmul_half_{tile.bm}x{tile.bn}_{out_dtype.short}{store}_{epilogue_name(epilogue, act)}",
        "matmul/halves.wgsl",
        [*fields, *(f"o_{s}" for s in "omnbi"), *more], bindings, caps, declarations=functions,
        finishes=bool(functions), store=store, t=tile, chunk=CHUNK, type="f32",
        write=lambda at, value: elements.write(out_dtype, "out", at, value, caps),
        write4=lambda at, lanes: " ".join(elements.write4(out_dtype, "out", at, lanes, caps)),
    )  # fmt: skip
