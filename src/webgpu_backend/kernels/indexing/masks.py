"""Positions of the nonzero elements: count per chunk, sums of the counts, then each chunk writes its own."""

from functools import cache

from ...dtypes import DType, carrier
from ...program import Caps, Program, Step
from ..layout import grid, numel
from ..text import bits, elements
from ..text.expression import convert
from ..text.numbers import packed
from ..text.render import Binding, render_program

CHUNK = {"gpu": 16, "cpu": 64}  # elements per thread; neighbours of a GPU share what they read


def chunks(n: int, caps: Caps) -> int:
    return -(-n // CHUNK[caps.kind])


def plan_count(dtype: DType, n: int, offset: int, caps: Caps) -> Step:
    """Binds a contiguous a and counts (one u32 per chunk)."""
    return _step(_count(dtype, caps), (n, offset), caps)


def plan_positions(dtype: DType, sizes, offset: int, room: int, caps: Caps) -> Step:
    """Binds a, the sums of the counts and the int64 output, `room` for each dimension; what is past it is dropped."""
    return _step(_positions(dtype, len(sizes), caps), (numel(sizes), offset, room, *sizes), caps)


def plan_fill(
    item: int, n: int, offset: int, room: int, value_offset: int, out_offset: int, site: int, caps: Caps
) -> Step:
    """Binds a bool mask, the sums of its counts, the values (`room` of them) and the output."""
    return _step(_fill(item, caps), (n, offset, room, value_offset, out_offset, site), caps)


def _step(program: Program, words: tuple[int, ...], caps: Caps) -> Step:
    return Step(program, packed(words), grid(chunks(words[0], caps), caps))


def _program(name: str, step: str, fields: list[str], bindings: list[Binding], caps: Caps, **names) -> Program:
    return render_program(
        name, "indexing/masks.wgsl", ["n", "a_o", *fields], bindings, caps, step=step, chunk=CHUNK[caps.kind], **names
    )


def _test(dtype: DType, caps: Caps) -> str:
    """Whether element i is not zero."""
    return convert(elements.read(dtype, "b_a", "i", caps), carrier(dtype, caps), "bool")


@cache
def _count(dtype: DType, caps: Caps) -> Program:
    bindings = [("b_a", "read", elements.array_type(dtype, "e", caps)), ("b_out", "read_write", "array<u32>")]
    return _program(f"nonzero_count_{dtype.short}", "count", [], bindings, caps, test=_test(dtype, caps))


@cache
def _positions(dtype: DType, rank: int, caps: Caps) -> Program:
    bindings = [
        ("b_a", "read", elements.array_type(dtype, "e", caps)),
        ("b_sums", "read", "array<u32>"),
        ("b_out", "read_write", "array<vec2<u32>>"),
    ]
    fields = ["room", *(f"d{d}" for d in range(rank))]
    name = f"nonzero_write_{dtype.short}{rank}"
    return _program(name, "write", fields, bindings, caps, test=_test(dtype, caps), rank=rank)


@cache
def _fill(item: int, caps: Caps) -> Program:
    dtype, bare = bits.bits_of(item), bits.plain(caps)
    mode = elements.element_mode(dtype, bare, written=True)
    bindings = [
        ("b_a", "read", "array<u32>"),
        ("b_sums", "read", "array<u32>"),
        ("b_value", "read", elements.array_type(dtype, "e", bare)),
        ("b_out", "read_write", elements.array_type(dtype, mode, bare)),
    ]
    return _program(
        f"masked_scatter_{item}", "fill", ["room", "value_o", "out_o", "site"], bindings, caps, guarded=True,
        read_value=elements.read(dtype, "b_value", "p.value_o + place", bare),
        write_out=elements.write(dtype, "b_out", "p.out_o + i", "v", bare),
    )  # fmt: skip
