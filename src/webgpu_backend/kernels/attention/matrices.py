"""Attention of float16 and bfloat16 by matrix units: scores and sums in float32, weights in f16.

bfloat16 is brought to f16's range by powers of two: one for each 64 queries, one for each 64 keys, one for all values
of a head, by bounds that a prior pass finds.
"""

from functools import cache
from typing import NamedTuple

from ...dtypes import DType
from ...program import Caps, Program, Step
from ..layout import spread
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program
from .epilogue import After, Kind, given, texts, written
from .single import Mask, Shape, Strides, interface, mask_kind, parameters

PAD = 2  # vectors of four halves behind each row of a tile: neighbours lie in other banks
BUFFERS = 7  # with a mask and bounds


class Tile(NamedTuple):
    rows: int  # queries of a workgroup
    cols: int  # keys of a step
    high: int  # queries of a subgroup, in rows of matrices


# By the largest head, the first that the adapter has room for; not measured.
TILES = {64: (Tile(64, 64, 1), Tile(64, 32, 1)), 128: (Tile(64, 32, 1), Tile(32, 32, 1))}
ENOUGH = 64  # workgroups; with fewer the keys are better divided, which this kernel does not


def fits(shape: Shape, dtype: DType, caps: Caps) -> bool:
    """Whether this kernel serves a forward pass."""
    if not caps.matrix or caps.kind != "gpu" or dtype.size != 2 or caps.max_bindings < BUFFERS:
        return False
    tile = _tile(shape, caps)
    return tile is not None and -(-shape.l // tile.rows) * shape.batch * shape.heads >= ENOUGH


def _tile(shape: Shape, caps: Caps) -> Tile | None:
    rows = next((some for size, some in TILES.items() if max(shape.e, shape.v) <= size), ())
    return next((tile for tile in rows if _has_room(tile, shape, caps)), None)


def _has_room(tile: Tile, shape: Shape, caps: Caps) -> bool:
    """Whole matrices, whole vectors for each lane of a row, and memory."""
    high = tile.high * caps.matrix
    if tile.rows % high or tile.cols % caps.matrix or caps.lanes % high or tile.cols // 4 % (caps.lanes // high):
        return False
    threads = tile.rows // high * caps.lanes
    return threads <= caps.workgroup_size and _bytes(tile, *_wide(shape, caps)) <= caps.workgroup_bytes


def _wide(shape: Shape, caps: Caps) -> tuple[int, int]:
    """Sizes of heads in whole matrices."""
    n = caps.matrix
    return -(-shape.e // n) * n, -(-shape.v // n) * n


def _bytes(tile: Tile, e: int, v: int) -> int:
    halves = max(tile.rows * (e // 4 + PAD), tile.cols * (v // 4 + PAD))
    halves += max(tile.cols * (e // 4 + PAD), tile.rows * (tile.cols // 4 + PAD))
    return 8 * halves + 16 * tile.rows * (tile.cols // 4 + 1) + 4


def bounded(dtype: DType) -> bool:
    """Whether the operands' bounds are needed."""
    return dtype.name == "bfloat16"


def plan(
    shape: Shape, dtype: DType, operands: dict[str, Strides], mask: Mask | None, causal: bool, scale: float, caps: Caps,
    after: After | None = None,
) -> Step:  # fmt: skip
    """Bindings as the other kernels' of a forward pass; where bounds are needed they come before the statistics."""
    tile = _tile(shape, caps)
    blocks, sequences = -(-shape.l // tile.rows), shape.batch * shape.heads
    ratio = shape.heads // shape.shared
    words = [shape.l, shape.l, shape.s, shape.e // 4, shape.v // 4, shape.heads, ratio, blocks, sequences]
    params = packed(words) + parameters("forward", shape, operands, mask, scale)
    wide = _wide(shape, caps)
    whole = shape.e == wide[0], shape.v == wide[1]
    kind, read = given(after)
    program = _program(dtype, mask.dtype if mask else None, causal, tile, *wide, whole, kind, caps)
    return Step(program, params + packed(read), spread(blocks * sequences, caps))


@cache
def _program(dtype, mask, causal, tile, e_wide, v_wide, whole, after: Kind | None, caps) -> Program:
    more, beside, functions, end = texts(after, caps)
    fields, bindings = interface("forward", dtype, mask, caps)
    wide = bounded(dtype)
    bindings[-1:-1] = [*beside, *([("bounds", "read", "array<vec4<f32>>")] if wide else [])]
    out = written(after, dtype)
    bindings.append(("out", "read_write", elements.array_type(out, "v", caps)))

    def narrow4(x, at, factor):
        return f"vec4<f16>({elements.widened(dtype, f'{x}_in[{at}]', caps)} * {factor})" if wide else f"{x}_in[{at}]"

    tags = (mask.short if mask else "") + ("c" if causal else "")
    return render_program(
        f"attention_units_{dtype.short}_{tags}{e_wide}x{v_wide}{'' if all(whole) else 'u'}{end}",
        "attention/matrices.wgsl", [*fields, *more], bindings, caps,
        declarations=[*elements.wideners((dtype,), caps), *functions], after=after is not None,
        t=tile._replace(high=tile.high * caps.matrix), e_wide=e_wide, v_wide=v_wide, size=caps.matrix,
        lanes=caps.lanes, pad=PAD, causal=causal, packed=False, dropout=False, wide=wide,
        whole=dict(zip(("p.e4", "p.v4"), whole)), mask=mask_kind(mask), narrow4=narrow4,
        read_mask=lambda at: elements.read(mask, "mask_in", at, caps),
        write4=lambda to, at, lanes: " ".join(elements.write4(out, to, at, lanes, caps)),
    )  # fmt: skip
