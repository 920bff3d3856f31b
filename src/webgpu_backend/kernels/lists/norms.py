"""Norms of lists of tensors, several tensors to a dispatch: numbers of parts, then a number of each tensor.

Tensors are contiguous and start their buffers; floats only, computed in f32.
"""

from functools import cache
from struct import pack

from ...dtypes import DType
from ...program import Caps, Program
from ..layout import spread
from ..text import elements
from ..text.render import render
from .elementwise import MAX_SLOTS

THREADS = 256
EACH = 16  # groups of four that a thread reads
KINDS = {1.0: "1", 2.0: "2", float("inf"): "inf"}


def parts(count: int) -> int:
    """Numbers that a tensor of `count` elements leaves."""
    return -(-count // (4 * THREADS * EACH))


def slots(caps: Caps) -> int:
    return min(MAX_SLOTS[caps.kind], caps.max_bindings - 1)


def params(counts: list[int], first: int, caps: Caps) -> tuple[bytes, tuple[int, int, int]]:
    """For tensors of these element counts, whose numbers start at `first`."""
    ends, end = [], 0
    for n in counts:
        end += parts(n)
        ends.append(end)
    return pack(f"<{2 * len(counts) + 1}I", first, *counts, *ends), spread(end, caps)


@cache
def program(kind: str, dtype: DType, count: int, caps: Caps) -> Program:
    """Bindings: `count` tensors, and where their numbers go."""
    fields = ["first: u32"] + [f"{name}{k}: u32" for name in ("count", "stop") for k in range(count)]
    bindings = [(f"b{k}", "read", elements.array_type(dtype, "v", caps)) for k in range(count)]
    bindings.append(("out", "read_write", "array<f32>"))
    loads = [elements.read4(dtype, f"b{k}", "g", "got", caps) for k in range(count)]
    return _made(f"norm_{kind}_list{count}_{dtype.short}", kind, fields, bindings, loads, caps)


@cache
def finish(kind: str, caps: Caps) -> Program:
    """Bindings: the numbers, where those of each tensor start (and the end), and the norms."""
    bindings = [("part", "read", "array<f32>"), ("starts", "read", "array<u32>"), ("out", "read_write", "array<f32>")]
    return _made(f"norm_{kind}_list_end", kind, ["count: u32"], bindings, (), caps)


def _made(name: str, kind: str, fields: list[str], bindings: list, loads, caps: Caps) -> Program:
    text = render(
        "lists/norms.wgsl", caps,
        fields=fields, bindings=bindings, loads=loads, kind=kind, threads=THREADS, each=EACH,
    )  # fmt: skip
    return Program(name, text, "r" * (len(bindings) - 1) + "w", 4 * len(fields))
