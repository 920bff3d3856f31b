"""Norms of lists of tensors, several tensors to a dispatch: numbers of parts, then a number of each tensor.

Tensors are contiguous and start their buffers; floats only, computed in f32.
"""

from functools import cache

from ...dtypes import DType
from ...program import Caps, Program, Step
from ..layout import spread
from ..text import elements
from ..text.numbers import packed
from ..text.render import Binding, render_program
from .elementwise import MAX_SLOTS, ends

THREADS = 256
EACH = 16  # groups of four that a thread reads
KINDS = {1.0: "1", 2.0: "2", float("inf"): "inf"}


def parts(count: int) -> int:
    """Numbers that a tensor of `count` elements leaves."""
    return -(-count // (4 * THREADS * EACH))


def slots(caps: Caps) -> int:
    return min(MAX_SLOTS[caps.kind], caps.max_bindings - 1)


def plan(kind: str, dtype: DType, counts: list[int], first: int, caps: Caps) -> Step:
    """Of tensors of these element counts, whose numbers start at `first`. Binds the tensors, and the numbers."""
    stops = ends([parts(n) for n in counts])
    return Step(_program(kind, dtype, len(counts), caps), packed([first, *counts, *stops]), spread(stops[-1], caps))


def plan_finish(kind: str, count: int, caps: Caps) -> Step:
    """Binds the numbers, where those of each of `count` tensors start (and the end), and the norms."""
    return Step(_finish_program(kind, caps), packed([count]), (count, 1, 1))


@cache
def _program(kind: str, dtype: DType, count: int, caps: Caps) -> Program:
    fields = ["first", *(f"{name}{k}" for name in ("count", "stop") for k in range(count))]
    bindings = [(f"b{k}", "read", elements.array_type(dtype, "v", caps)) for k in range(count)]
    bindings.append(("out", "read_write", "array<f32>"))
    loads = [elements.read4(dtype, f"b{k}", "g", "got", caps) for k in range(count)]
    return _rendered(f"norm_{kind}_list{count}_{dtype.short}", kind, fields, bindings, loads, caps)


@cache
def _finish_program(kind: str, caps: Caps) -> Program:
    bindings = [("part", "read", "array<f32>"), ("starts", "read", "array<u32>"), ("out", "read_write", "array<f32>")]
    return _rendered(f"norm_{kind}_list_end", kind, ["count"], bindings, [], caps)


def _rendered(name: str, kind: str, fields: list[str], bindings: list[Binding], loads: list, caps: Caps) -> Program:
    return render_program(
        name, "lists/norms.wgsl", fields, bindings, caps, loads=loads, kind=kind, threads=THREADS, each=EACH
    )
