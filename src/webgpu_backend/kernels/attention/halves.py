"""Attention with sums in f16: half the memory traffic and packed arithmetic where an adapter has it.

What makes it harmless: bounds of the operands, found first for each 64 rows. Products of queries and keys are summed in
f16 only where their norms say that no score exceeds LARGEST; everything else that f16 must hold (weights, values,
gradients) is brought to its range by powers of two; sums are taken over at most 32 products and added up in f32.
"""

from functools import cache
from struct import pack

from ...dtypes import DType
from ...program import Caps, Program, Step
from ..layout import spread
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program
from .epilogue import After, Kind, given, texts, written
from .single import Mask, Shape, Strides, Tile, interface, mask_kind, parameters

# The tuning table: by kernel and largest head. Tiles walk over 64 rows, and own a divisor of 64.
TILES = {
    "forward": {256: Tile(64, 64, 4, 8, 64, 4)},
    "queries": {128: Tile(64, 64, 4, 8, 64, 4)},
    "keys": {128: Tile(64, 64, 4, 8, 64, 4)},
}
SCORES = 1 << 16  # of a head, from which finding the bounds pays
ENOUGH = 128  # workgroups; with fewer the keys are better divided, which these kernels do not
LARGEST = 24.0
BUFFERS = {"forward": 7, "queries": 8, "keys": 9}  # that a kernel binds, with a mask; one more where it adds to dq


def fits(mode: str, shape: Shape, dtype: DType, scale: float, caps: Caps) -> bool:
    """Whether these kernels serve a call."""
    tile = _tile(mode, shape)
    if not caps.f16 or caps.kind != "gpu" or dtype.size != 2 or shape.l * shape.s < SCORES:
        return False
    if caps.max_bindings < BUFFERS[mode]:
        return False
    if tile is None or not _small(mode, tile, caps) or not 1e-4 <= scale <= 1000:
        return False
    return mode != "forward" or -(-shape.l // tile.rows) * shape.batch * shape.heads >= ENOUGH


def fuses(shape: Shape, caps: Caps) -> bool:
    """Whether the kernel of dk and dv can add to dq as well: its tiles are square then."""
    tile = _tile("keys", shape)
    if not caps.f32_atomic or caps.max_bindings <= BUFFERS["keys"]:
        return False
    return tile.rows == tile.cols and tile.slice == 8 * tile.cols // tile.tn


def _tile(mode: str, shape: Shape) -> Tile | None:
    return next((tile for size, tile in TILES[mode].items() if max(shape.e, shape.v) <= size), None)


def _slices(tile: Tile, shape: Shape) -> tuple[int, int]:
    return -(-shape.e // tile.slice), -(-shape.v // tile.slice)


def _small(mode: str, tile: Tile, caps: Caps) -> bool:
    unit = tile.slice // 8
    walked = tile.cols * unit
    owned = tile.rows * max(unit, tile.cols // 8)
    values = 0 if mode != "forward" or _shuffles(tile, caps) else 4 * tile.rows * tile.cols // tile.tn
    return 16 * (walked + owned) + values <= caps.workgroup_bytes and tile.threads() <= caps.workgroup_size


def _shuffles(tile: Tile, caps: Caps) -> bool:
    """Whether the threads that share a row are in one subgroup; without memory for their exchange an H200 runs three
    workgroups on a core at a time, with it two."""
    return caps.lanes >= 2 * tile.cols // tile.tn


def plan(
    mode: str, shape: Shape, dtype: DType, operands: dict[str, Strides], mask: Mask | None, causal: bool, scale: float,
    caps: Caps, fused: bool = False, after: After | None = None,
) -> Step:  # fmt: skip
    """One kernel; `fused`: that of dk and dv adds to dq as well. `after` is what is done to the output."""
    tile = _tile(mode, shape)
    rows, heads = (shape.s, shape.shared) if mode == "keys" else (shape.l, shape.heads)
    blocks = -(-rows // tile.rows)
    sequences = shape.batch * heads
    ratio = shape.heads // shape.shared
    words = [shape.l, shape.l, shape.s, shape.e // 4, shape.v // 4, heads, ratio, blocks, sequences]
    limit = min(LARGEST / scale, 32768.0)
    params = packed(words) + parameters(mode, shape, operands, mask, scale) + pack("<f", limit * limit)
    whole = shape.e % tile.slice == 0, shape.v % tile.slice == 0
    found = mask.dtype if mask else None
    kind, read = given(after)
    program = _program(mode, dtype, found, causal, tile, *_slices(tile, shape), whole, fused, kind, caps)
    return Step(program, params + packed(read), spread(blocks * sequences, caps))


def plan_bounds(names: str, shape: Shape, dtype: DType, operands: dict[str, Strides], caps: Caps) -> tuple[Step, int]:
    """The bounds of the operands' sizes, tile by tile, and how many tiles there are. Bindings: the operands called
    `names`, for gradients the rows' statistics, the bounds."""
    k_blocks, q_blocks = -(-shape.s // 64), -(-shape.l // 64)
    k_total = k_blocks * shape.batch * shape.shared
    tiles = k_total + q_blocks * shape.batch * shape.heads
    words = [tiles, k_total, k_blocks, q_blocks, shape.heads, shape.shared, shape.l, shape.s]
    words += [shape.e // 4, shape.v // 4, shape.batch * shape.heads * shape.l]
    words += [word for name in names for word in operands[name].words()]
    return Step(_bounds_program(dtype, names, caps), packed(words), spread(tiles, caps)), tiles


@cache
def _program(mode, dtype, mask, causal, tile, e_slices, v_slices, whole, fused, after: Kind | None, caps) -> Program:
    """Bindings as the other attention kernels', with the bounds before the rows' statistics."""
    more, beside, functions, end = texts(after, caps)
    fields, bindings = interface(mode, dtype, mask, caps)
    fields += ["limit: f32", *more]
    bindings[-1:-1] = [*beside, ("bounds", "read", "array<vec4<f32>>")]
    out = written(after, dtype)
    vector = elements.array_type(out, "v", caps)
    outputs = {"forward": ("out",), "queries": ("dq",), "keys": ("dk", "dv")}[mode]
    bindings += [(name, "read_write", vector) for name in outputs]
    if fused:
        bindings.append(("dq", "read_write", "array<atomic<f32>>"))
    wide = dtype.name == "bfloat16"

    def narrow4(x, at, factor):
        if wide:
            return f"vec4<f16>({elements.widened(dtype, f'{x}_in[{at}]', caps)} * {factor})"
        return f"{x}_in[{at}]" if mode == "forward" else f"{x}_in[{at}] * f16({factor})"

    tags = ("q" if fused else "") + (mask.short if mask else "") + ("c" if causal else "")
    tags += f"{e_slices}x{v_slices}{'' if all(whole) else 'u'}"
    return render_program(
        f"attention_half_{mode}_{dtype.short}_{tags}{end}",
        "attention/halves.wgsl" if mode == "forward" else "attention/halves_backward.wgsl", fields, bindings, caps,
        declarations=[*elements.wideners((dtype,), caps), *functions], after=after is not None, mode=mode, t=tile,
        causal=causal, packed=False, lanes=True, dropout=False, fused=fused, shuffle=_shuffles(tile, caps), wide=wide,
        whole=dict(zip(("p.e4", "p.v4"), whole)), e_slices=e_slices, v_slices=v_slices, mask=mask_kind(mask),
        narrow4=narrow4, read_mask=lambda at: elements.read(mask, "mask_in", at, caps),
        write4=lambda to, at, lanes: " ".join(elements.write4(out, to, at, lanes, caps)),
    )  # fmt: skip


@cache
def _bounds_program(dtype: DType, names: str, caps: Caps) -> Program:
    """Bindings: the operands, then for the backward pass the rows' statistics, and the bounds."""
    fields = ["total", "k_total", "k_blocks", "q_blocks", "heads", "shared_heads", "l", "s", "e4", "v4", "rows_total"]
    bindings = [(f"{name}_in", "read", elements.array_type(dtype, "v", caps)) for name in names]
    if "g" in names:
        bindings.append(("stats", "read", "array<f32>"))
    bindings.append(("bounds", "read_write", "array<f32>"))
    return render_program(
        f"attention_bounds_{dtype.short}{names}", "attention/bounds.wgsl",
        [*fields, *(f"{name}_{part}" for name in names for part in "obhr")], bindings, caps,
        declarations=elements.wideners((dtype,), caps), backward="g" in names,
        read4=lambda x, at: elements.widened(dtype, f"{x}_in[{at}]", caps),
    )  # fmt: skip
