"""The smallest of long rows, on a GPU, without sorting them: see `select.wgsl`."""

from functools import cache
from struct import Struct

from ...dtypes import DType
from ...program import Caps, Plan, Program, Step
from ..layout import spread
from ..text.by_index import interface
from ..text.render import render_program
from .sort import digits, words

THREADS = 256
LONG = 16384  # elements from which rows are not sorted
MOST = 1024  # that are kept: one workgroup sorts them
GROUPS = 512  # workgroups that fill the adapter
FIELDS = ("rows", "length", "inner", "flip", "keep", "parts", "span", "turn", "shift", "last", "above")


def served(dtype: DType, sizes: tuple[int, int, int], keep: int, caps: Caps) -> bool:
    _, length, inner = sizes
    one = caps.kind == "gpu" and words(dtype) == 1 and inner == 1 and caps.workgroup_size >= THREADS
    return one and length >= LONG and keep <= MOST and 8 * keep <= length


def plan(dtype: DType, sizes: tuple[int, int, int], keep: int, largest: bool, offset: int, caps: Caps) -> Plan:
    """Over the values, zeros for the counts (`zeros` words) and the pairs: `keep` of each row, in any order."""
    rows, length, _ = sizes
    parts = max(1, min(GROUPS // rows, -(-length // (8 * THREADS))))
    span = -(-length // parts)
    passes = [*reversed(digits(dtype))]
    field = (1 << passes[0] + 8) - (1 << passes[-1])  # the bits in which keys may differ
    steps = []
    flip = 0xFFFFFFFF if largest else 0
    for turn, shift in enumerate([*passes, None]):
        kind = "write" if shift is None else "count"
        program, packer = _program(kind, dtype, caps)
        above = field & -(1 << shift + 8) if shift is not None else field
        last = passes[turn - 1] if turn else 0
        numbers = (rows, length, 1, flip, keep, parts, span, turn, shift or 0, last, above, offset)
        bindings = (0, 1, 3, 2) if kind == "write" else (0, 1, 3)
        steps.append(Step(program, packer.pack(*numbers), spread(rows * parts, caps), bindings))
    return Plan(tuple(steps), (8 * rows * len(passes),))


def zeros(dtype: DType, rows: int) -> int:
    """Words that count digits, and the pairs found in each row."""
    return rows * (256 * len(digits(dtype)) + 1)


@cache
def _program(kind: str, dtype: DType, caps: Caps) -> tuple[Program, Struct]:
    """With what packs its parameters."""
    face = interface((("a", dtype),), (), "", FIELDS, caps)
    bindings = [*face.bindings, ("counts", "read_write", "array<atomic<u32>>")]
    bindings.append(("states", "read_write", "array<vec2<u32>>"))
    if kind == "write":
        bindings.append(("b_out", "read_write", "array<vec2<u32>>"))
    program = render_program(
        f"select_{kind}_{dtype.short}", "sort/select.wgsl", face.fields, bindings, caps, kind=kind, key=dtype.carrier,
        words=1, source=True, threads=THREADS, reaches=[1 << k for k in range(8)], **face.accessors,
    )  # fmt: skip
    return program, face.pack
