"""Products of float16 and bfloat16 by matrix units: a subgroup multiplies small square matrices of f16 and adds up in
f32, at many times the rate of its lanes.

Operands go into workgroup memory as they lie, along k or along their rows: units read either. float16 needs nothing
else. What bfloat16 has more of is range, so a prior pass finds a power of two for each row that brings its largest
element to the top of f16's range; elements are multiplied by it on their way in, and what is lost are those 2^39 times
less than their row's largest. The powers are undone at the end. Codes of a quantised operand become numbers on the way.
"""

from functools import cache

from ...dtypes import DType
from ...program import Caps, Program, Step
from ..layout import spread
from ..quantized.formats import Blocks
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program
from . import tiles
from .few_rows import ROWS
from .product import Product, array_of, class_of, words_of
from .tiles import UnitTile

LEAST = ROWS + 1  # rows and columns; fewer are the other kernels'
PAD = 2  # vectors of four behind each row of a tile: neighbours lie in other banks
TOP = 15  # the largest of a row comes to lie in [2^TOP, 2^(TOP + 1)), the highest that f16 has
SCALE_ROWS = 64  # rows of a workgroup of the prior pass
SCALE_FIELDS = ("rows", "inner", "groups", "total", "o", "r", "k", "b", "i")


def serves(q: Product, caps: Caps) -> bool:
    if caps.kind != "gpu" or not caps.matrix or q.gather or q.summed:
        return False
    return q.a.dtype.name in ("float16", "bfloat16") and min(q.m, q.n) >= LEAST


def scaled(q: Product) -> tuple[str, ...]:
    """The operands whose rows have powers of two."""
    return () if q.a.dtype.name == "float16" else ("a",) if q.blocks else ("a", "b")


def fits(tile: UnitTile, caps: Caps) -> bool:
    """Whole matrices of the adapter's size for each subgroup, whole vectors for each thread, and room."""
    parts = (tile.wm % caps.matrix, tile.wn % caps.matrix, tile.bk % caps.matrix, tile.bm % tile.wm, tile.bn % tile.wn)
    size = threads(tile, caps)
    whole = not any(parts) and all(x * tile.bk % (4 * size) == 0 for x in (tile.bm, tile.bn))
    return whole and size <= caps.workgroup_size and handed(tile, caps) > 0


def threads(tile: UnitTile, caps: Caps) -> int:
    return caps.lanes * (tile.bm // tile.wm) * (tile.bn // tile.wn)


def handed(tile: UnitTile, caps: Caps) -> int:
    """Columns of sums that a subgroup hands on at once, by way of workgroup memory; 0 where the tile leaves no room."""
    # Lines are padded, along k or along the rows, whichever takes more.
    tall = [max(x * (tile.bk // 4 + PAD), tile.bk * (x // 4 + PAD)) for x in (tile.bm, tile.bn)]
    left = caps.workgroup_bytes - 8 * tile.stages * sum(tall)
    fit = left // (4 * caps.matrix * (threads(tile, caps) // caps.lanes))
    return next((n for n in range(tile.wn, 0, -caps.matrix) if n <= fit and tile.wn % n == 0), 0)


def priced(q: Product, caps: Caps, table: tuple[UnitTile, ...]) -> list[tuple[float, UnitTile, int]]:
    """Microseconds with each tile that fits, and the parts of k that suit it."""
    more = 0.0
    if scaled(q):
        row = q.outer * q.inner * q.k * q.a.dtype.size
        more = tiles.tuning().launch + row * (q.m + q.n) / tiles.tuning().bandwidth
    found = [tiles.choose([t], q.m, q.n, q.k, q.outer * q.inner) for t in table if fits(t, caps)]
    return [(cost + more, tile, parts) for cost, tile, parts in found]


def choose(q: Product, caps: Caps) -> tuple[float, UnitTile, int] | None:
    """What should take the least time, if any tile of the table fits."""
    return min(priced(q, caps, tiles.tuning().matrices), default=None)


def halves(dtypes: dict[str, DType], blocks: Blocks | None) -> str:
    """The operands that are f16 from where they lie to the units."""
    return "".join([x for x, dtype in dtypes.items() if dtype.name == "float16" and not (blocks and x == "b")])


def registers(half: str, type_: str, zero: str) -> dict:
    """Of what type an operand is between its buffer and the tile in workgroup memory."""
    types = {x: "f16" if x in half else type_ for x in "ab"}
    return {"types": types, "zeros": {x: "0.0h" if x in half else zero for x in "ab"}}


def names(tile: UnitTile, half: str, scales: tuple[str, ...], caps: Caps) -> dict:
    """What the template asks for, beside what all products' do."""
    sizes = {"size": caps.matrix, "lanes": caps.lanes, "threads": threads(tile, caps)}
    return sizes | {"pad": PAD, "hand": handed(tile, caps), "half": half, "scales": scales}


def powers(q: Product, operands: dict[str, str], caps: Caps) -> tuple[list[Step], dict[str, int], list[int]]:
    """The prior pass, the bytes of what it finds, and the strides of the two batch dimensions in that. `operands` are
    the buffers of a and b."""
    words, orders, total, work, strides = [q.k], "", 0, {}, []
    for name in scaled(q):
        x, rows = (q.a, q.m) if name == "a" else (q.b, q.n)
        order = class_of(x, rows, q.k)
        inner, outer = q.inner if x.inner else 1, q.outer if x.outer else 1
        groups = -(-rows // SCALE_ROWS)
        words += [rows, inner, groups, groups * inner * outer, *words_of(x, order)]
        orders += order
        total += groups * inner * outer
        work[f"e{name}"] = 4 * rows * inner * outer
        strides += [rows * inner if x.outer else 0, rows if x.inner else 0]
    program = _powers(q.a.dtype, orders, caps)
    bindings = (*[operands[name] for name in scaled(q)], *work)
    return [Step(program, packed(words), spread(total, caps), bindings)], work, strides


@cache
def _powers(dtype: DType, orders: str, caps: Caps) -> Program:
    names = "ab"[: len(orders)]
    return render_program(
        f"matmul_powers_{dtype.short}{orders}", "matmul/units_powers.wgsl",
        ["depth", *(f"{x}_{f}" for x in names for f in SCALE_FIELDS)],
        [
            *((x, "read", array_of(dtype, order, caps)) for x, order in zip(names, orders)),
            *((f"e{x}", "read_write", "array<f32>") for x in names),
        ],
        caps, declarations=elements.wideners((dtype,), caps), orders=orders, top=TOP, rows=SCALE_ROWS,
        read=lambda x, at: elements.read(dtype, x, at, caps),
        read4=lambda x, at: elements.widened(dtype, f"{x}[{at}]", caps),
    )  # fmt: skip
