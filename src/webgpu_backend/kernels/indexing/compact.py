"""Where a mask is true, on a GPU: tiles are counted, and each tile's positions, values or places are written side by
side. A software adapter has kernels of its own (`masks.py`)."""

from functools import cache

from ...dtypes import BOOL, DType, carrier
from ...program import Caps, Program, Step
from ..layout import numel, spread
from ..text import bits, elements
from ..text.expression import convert
from ..text.numbers import packed
from ..text.render import render_program

THREADS = 256
PER = 12  # elements of a thread; with 16, a tile's positions and sums would be past 16 KiB of workgroup memory
TILE = THREADS * PER
FEW = 8192  # tiles up to which each adds up the counts of those before it


def tiles(n: int) -> int:
    return -(-n // TILE)


def served(n: int, offset: int, caps: Caps) -> bool:
    """Whether these kernels take a contiguous mask of so many elements: they read it four at a time."""
    return caps.kind == "gpu" and offset % 4 == 0 and n < 1 << 31


def _step(program: Program, words: tuple, n: int, caps: Caps) -> Step:
    return Step(program, packed(words), spread(tiles(n), caps))


def plan_count(dtype: DType, n: int, offset: int, caps: Caps) -> Step:
    """Binds a mask of any dtype and the counts, a u32 for each tile."""
    return _step(_program("count", dtype, 0, 0, False, caps), (n, offset // 4), n, caps)


def plan_positions(dtype: DType, sizes: tuple[int, ...], offset: int, room: int, summed: bool, caps: Caps) -> Step:
    """Binds the mask, the counts (`summed` up where there are many) and the int64 positions, `room` for each
    dimension."""
    n = numel(sizes)
    words = (n, offset // 4, tiles(n), room, *sizes)
    return _step(_program("write", dtype, len(sizes), 0, summed, caps), words, n, caps)


def plan_select(item: int, n: int, offset: int, room: int, value_offset: int, summed: bool, caps: Caps) -> Step:
    """Binds a bool mask, the counts, values of `item` bytes for each element of the mask, and those that are wanted."""
    words = (n, offset // 4, tiles(n), room, value_offset)
    return _step(_program("select", BOOL, 0, item, summed, caps), words, n, caps)


def plan_fill(
    item: int, n: int, offset: int, room: int, places: tuple[int, int], site: int, summed: bool, caps: Caps
) -> Step:
    """Binds a bool mask, the counts, the values (`room` of them) and the output, which begin at `places`."""
    words = (n, offset // 4, tiles(n), room, *places, site)
    return _step(_program("fill", BOOL, 0, item, summed, caps), words, n, caps)


_NAMES = {"count": "nonzero_count", "write": "nonzero_write", "select": "masked_select", "fill": "masked_scatter"}
_FIELDS = {"select": ("value_o",), "fill": ("value_o", "out_o", "site")}


@cache
def _program(step: str, dtype: DType, rank: int, item: int, summed: bool, caps: Caps) -> Program:
    load, lanes = elements.read4(dtype, "b_a", "p.a_o + g", "x", caps)
    own = carrier(dtype, caps)
    fields = ["n", "a_o", *(() if step == "count" else ("tiles", "room")), *_FIELDS.get(step, ())]
    fields += [f"d{d}" for d in range(rank)]
    bindings = [("b_a", "read", elements.array_type(dtype, "v", caps))]
    if step != "count":
        bindings.append(("b_counts", "read", "array<u32>"))
    names = {}
    if item:
        raw, bare = bits.bits_of(item), bits.plain(caps)
        mode = elements.element_mode(raw, bare, written=True)
        bindings.append(("b_value", "read", elements.array_type(raw, "e", bare)))
        bindings.append(("b_out", "read_write", elements.array_type(raw, mode, bare)))
        source, target = ("i", "at") if step == "select" else ("place", "p.out_o + i")
        names["read_value"] = elements.read(raw, "b_value", f"(p.value_o + {source})", bare)
        names["write_out"] = elements.write(raw, "b_out", f"({target})", "v", bare)
    else:
        bindings.append(("b_out", "read_write", "array<u32>" if step == "count" else "array<vec2<u32>>"))
    return render_program(
        f"{_NAMES[step]}_{dtype.short}{rank or item or ''}{'s' if summed else ''}_tiles", "indexing/compact.wgsl",
        fields, bindings, caps, guarded=step == "fill", step=step, load=load,
        lanes=[convert(lane, own, "bool") for lane in lanes], tile=TILE, per=PER, threads=THREADS, rank=rank,
        summed=summed, reaches=[1 << k for k in range(THREADS.bit_length() - 1)], **names,
    )  # fmt: skip
