"""Boxes that no better one overlaps: which pairs overlap, as bits, and one workgroup's walk over them."""

from functools import cache

from ...dtypes import BOOL, FLOAT32, FLOAT64, UINT32
from ...program import Caps, Program, Step
from ..text import by_index
from ..text.by_index import Kernel
from ..text.numbers import packed
from ..text.render import render_program

THREADS = {"gpu": 256, "cpu": 64}
BITS_BYTES = 1 << 25  # of the overlaps that are kept at a time


def words(boxes: int) -> int:
    """Of 32 boxes each."""
    return -(-boxes // 32)


def window(boxes: int) -> int:
    """How many boxes are compared with all later ones at a time: a multiple of 32."""
    return min(32 * words(boxes), max(32, BITS_BYTES // (4 * words(boxes)) // 32 * 32))


@cache
def overlaps(double: bool, caps: Caps) -> Kernel:
    """Reads boxes and their areas, writes a word for each box of the window and 32 boxes."""
    dtype = FLOAT64 if double else FLOAT32
    reads = (("box", dtype), ("area", dtype))
    fields = ("boxes", "words", "begin", "threshold: f32")
    names = (("kind", "overlaps"), ("plain", double))
    return by_index.kernel(
        "nms_overlaps", "vision/nms.wgsl", reads, (("out", UINT32),), fields, caps, names=names, double=double
    )


def plan_sweep(first: int, blocks: int, words: int, caps: Caps) -> Step:
    """Binds the overlaps of `blocks` times 32 boxes, the boxes that are gone and those that stay, 32 a word."""
    return Step(_sweep(caps), packed((first, blocks, words)), (1, 1, 1))


@cache
def _sweep(caps: Caps) -> Program:
    bindings = [("b_overlaps", "read", "array<u32>"), ("b_gone", "read_write", "array<u32>"),
                ("b_kept", "read_write", "array<u32>")]  # fmt: skip
    fields = ("first", "blocks", "words")
    return render_program(
        "nms_sweep", "vision/nms.wgsl", fields, bindings, caps, kind="sweep", threads=THREADS[caps.kind]
    )


@cache
def flags(caps: Caps) -> Kernel:
    """Reads what `sweep` wrote, writes a bool for each box."""
    names = (("kind", "flags"),)
    return by_index.kernel("nms_flags", "vision/nms.wgsl", (("kept", UINT32),), (("out", BOOL),), (), caps, names=names)
