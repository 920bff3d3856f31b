"""Positions of the nonzero elements: count per chunk, sums of the counts, then each chunk writes its own."""

from functools import cache
from struct import pack

from ...dtypes import DType, carrier
from ...program import Caps, Program, Step
from ..layout import grid
from ..pointwise.elementwise import WORKGROUP
from ..text import elements
from ..text.expression import convert
from ..text.render import render

CHUNK = {"gpu": 16, "cpu": 64}  # elements per thread; neighbours of a GPU share what they read


def _kernel(name: str, template: str, access: str, words: int, caps: Caps, guarded=False, **names) -> Program:
    text = render(template, caps, workgroup=WORKGROUP[caps.kind], chunk=CHUNK[caps.kind], **names)
    return Program(name, text, access, 4 * words, guarded=guarded)


def _run(program: Program, words, threads: int, caps: Caps) -> Step:
    return Step(program, pack(f"<{len(words)}I", *words), grid(threads, WORKGROUP[caps.kind], caps))


def chunks(n: int, caps: Caps) -> int:
    return -(-n // CHUNK[caps.kind])


@cache
def _count(dtype: DType, caps: Caps) -> Program:
    test = convert(elements.read(dtype, "b_a", "i", caps), carrier(dtype, caps), "bool")
    kind = elements.array_type(dtype, "e", caps)
    return _kernel(
        f"nonzero_count_{dtype.short}", "indexing/masks.wgsl", "rw", 2, caps, step="count", a=kind, test=test
    )


def count(dtype: DType, n: int, offset: int, caps: Caps) -> Step:
    """Binds a contiguous a and counts (one u32 per chunk)."""
    return _run(_count(dtype, caps), (n, offset), chunks(n, caps), caps)


@cache
def _write(dtype: DType, rank: int, caps: Caps) -> Program:
    test = convert(elements.read(dtype, "b_a", "i", caps), carrier(dtype, caps), "bool")
    kind = elements.array_type(dtype, "e", caps)
    return _kernel(
        f"nonzero_write_{dtype.short}{rank}", "indexing/masks.wgsl", "rrw", 3 + rank, caps,
        step="write", a=kind, test=test, rank=rank,
    )  # fmt: skip


def write(dtype: DType, sizes, offset: int, room: int, caps: Caps) -> Step:
    """Binds a, the sums of the counts and the (room, rank) int64 output; positions past `room` are dropped."""
    n = 1
    for s in sizes:
        n *= s
    words = (n, offset, room, *sizes)
    return _run(_write(dtype, len(sizes), caps), words, chunks(n, caps), caps)


@cache
def _fill(item: int, caps: Caps) -> Program:
    from ..text import bits as raw

    dtype, bare = raw.bits_of(item), raw.plain(caps)
    mode = elements.element_mode(dtype, bare, written=True)
    return _kernel(
        f"masked_scatter_{item}", "indexing/masks.wgsl", "rrrw", 6, caps, guarded=True, step="fill",
        value=elements.array_type(dtype, "e", bare), out=elements.array_type(dtype, mode, bare),
        read_value=elements.read(dtype, "b_value", "p.value_o + place", bare),
        write_out=elements.write(dtype, "b_out", "p.out_o + i", "v", bare),
    )  # fmt: skip


def fill(item: int, n: int, offset: int, room: int, value_offset: int, out_offset: int, site: int, caps: Caps) -> Step:
    """Binds a bool mask, the sums of its counts, the values (`room` of them) and the output."""
    return _run(_fill(item, caps), (n, offset, room, value_offset, out_offset, site), chunks(n, caps), caps)
