"""Products of few rows with weights that are whole numbers: activations become digits of eight bits, so that four
products and their sum are one instruction. A workgroup makes them itself, and then takes one tile of columns after the
other: how its threads lie, and how much of the rows it holds."""

from ...program import Caps
from ..quantized.formats import FORMATS, PIECE, Format
from .few_rows import Lay
from .product import Product

DIGITS = 2  # of an activation: 15 bits and a sign, relative to the largest of 32
HELD = 40 << 10  # bytes of workgroup memory for activations at most
HELD_BY_PIECE = PIECE * DIGITS + 12  # of one row, with its level and sums
UNITS = 132  # of a large card: each has one workgroup, since every workgroup makes digits anew
BUSY = 106  # of them that should have work
LEAST = 8  # threads of a column, and a subgroup's on the smallest of GPUs
SHARE = 2  # pieces of k that each of them should have

# By rows: columns of a thread, pieces under way, whether the next are read before these are multiplied, and the most
# threads.
SHAPES = {1: (4, 1, False, 512), 2: (4, 1, False, 512), 4: (4, 1, True, 256), 8: (4, 1, True, 256)}


def serve(q: Product, caps: Caps) -> bool:
    """15 bits are more than numbers of two bytes have, and less than those of four. Sums cross lanes of a subgroup."""
    whole = FORMATS[q.blocks.format].whole
    return whole and caps.dots and caps.subgroups and q.a.dtype.name in ("float16", "bfloat16")


def lay(rows: int, n: int, k: int, caps: Caps) -> Lay:
    """As many columns side by side as leave most units work; and threads along k as far as there are some left and k
    has pieces for them."""
    wide, unroll, ahead, threads = SHAPES[rows]
    threads = min(threads, caps.workgroup_size)
    crews, along = threads // LEAST, LEAST
    while crews > 1 and _tiles(n, wide * crews) < BUSY:
        crews //= 2
    while 2 * along * crews <= threads and 2 * along * SHARE <= k // PIECE:
        along *= 2
    while True:
        lanes = min(along, 32, caps.lanes)
        found = Lay(wide, lanes, crews, along // lanes, unroll, ahead)
        if held(found, rows, caps) or along == LEAST:
            return found
        along //= 2


def _tiles(n: int, columns: int) -> int:
    return -(-n // columns)


def held(lay: Lay, rows: int, caps: Caps) -> int:
    """Pieces of every row in workgroup memory at a time: what all threads of a column take at once, some times."""
    step = lay.along_k * lay.teams * lay.unroll
    free = min(caps.workgroup_bytes - lay.bytes(rows), HELD)
    return free // (rows * HELD_BY_PIECE) // step * step


def groups(lay: Lay, rows: int, n: int, k: int, caps: Caps) -> int:
    """Workgroups along n: one for each unit, or one for each tile where k is not held whole."""
    tiles = _tiles(n, lay.columns)
    if k > held(lay, rows, caps) * PIECE:
        return tiles
    return -(-tiles // -(-tiles // UNITS))


def names(lay: Lay, rows: int, f: Format, caps: Caps) -> dict:
    """What the template asks for besides what the kernel of few rows does."""
    return dict(
        digits=DIGITS, held=held(lay, rows, caps), limit=127 * 257 if DIGITS == 2 else 127,
        summed_up=bool(f.low or f.offsets),
    )  # fmt: skip
