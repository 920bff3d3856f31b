"""Attention without the matrix of scores: online softmax forward, recomputed weights backward. Memory is linear.

Three kernels share one template. `forward` and `queries` (dq) own a tile of queries and walk over keys; `keys`
(dk, dv) owns a tile of keys and walks over queries of every head that shares them.
"""

from functools import cache
from struct import pack
from typing import NamedTuple

from ..dtypes import DType
from ..program import Caps, Program
from . import elements
from .layout import spread
from .matmul import _read4, _widen
from .render import render


class Tile(NamedTuple):
    rows: int  # owned by a workgroup
    cols: int  # walked over, per step
    tm: int  # rows per thread; a thread has four columns
    depth: int  # elements staged at a time


# The tuning table: by kernel, first tile that fits the adapter's workgroup memory and invocations.
TILES = {
    "forward": (Tile(64, 64, 8, 16), Tile(32, 32, 4, 8)),
    "queries": (Tile(64, 64, 8, 16), Tile(32, 32, 4, 8)),
    "keys": (Tile(32, 64, 4, 16), Tile(32, 32, 4, 8)),
}
MAX_HEAD = 256


class Strides(NamedTuple):
    """A [batch, head, row, element] operand: element offset and strides, innermost 1."""

    offset: int
    batch: int
    head: int
    row: int

    def words(self) -> list[int]:
        return [x // 4 for x in self]


class Mask(NamedTuple):
    dtype: DType
    offset: int
    batch: int
    head: int
    row: int
    col: int


class Shape(NamedTuple):
    batch: int
    heads: int  # of queries
    shared: int  # heads of keys and values
    l: int  # noqa: E741 (torch's name)
    s: int
    e: int
    v: int


class Step(NamedTuple):
    program: Program
    params: bytes
    grid: tuple[int, int, int]


def tile_of(mode: str, wide_dim: int, caps: Caps) -> tuple[Tile, int]:
    """The tile, and how many vectors of four columns of the result a thread has."""
    for tile in TILES[mode]:
        tx = tile.cols // 4
        wide = -(-wide_dim // (4 * tx))
        stage = tile.depth * max(tile.rows // 4 + tx, tx * wide)
        shared = 16 * (stage + tile.cols * tile.rows // 4) + (4 * tile.rows * tx if mode == "forward" else 0)
        if shared <= caps.workgroup_bytes and tile.rows // tile.tm * tx <= caps.workgroup_size:
            return tile, wide
    raise ValueError(f"no attention tile fits {caps.workgroup_bytes} bytes of workgroup memory")


def plan(
    mode: str, shape: Shape, dtype: DType, operands: dict[str, Strides], mask: Mask | None, causal: bool, scale: float,
    caps: Caps,
) -> Step:  # fmt: skip
    tile, wide = tile_of(mode, {"forward": shape.v, "queries": shape.e}.get(mode, max(shape.e, shape.v)), caps)
    program = _program(mode, dtype, mask.dtype if mask else None, causal, tile, wide, caps)
    owned, heads = (shape.s, shape.shared) if mode == "keys" else (shape.l, shape.heads)
    blocks = -(-owned // tile.rows)
    total = blocks * shape.batch * heads
    rows_total = shape.batch * shape.heads * shape.l
    ratio = shape.heads // shape.shared
    words = [shape.l, shape.s, shape.e // 4, shape.v // 4, heads, ratio, blocks, total, rows_total]
    for name in ("q", "k", "v") if mode == "forward" else ("q", "k", "v", "g"):
        words += operands[name].words()
    if mask:
        words += mask[1:]
    return Step(program, pack(f"<{len(words)}If", *words, scale), spread(total, caps))


@cache
def _program(mode, dtype, mask, causal, tile, wide, caps) -> Program:
    fields = ["l", "s", "e4", "v4", "heads", "ratio", "blocks", "total", "rows_total"]
    inputs = ["q", "k", "v"] if mode == "forward" else ["q", "k", "v", "g"]
    for name in inputs:
        fields += [f"{name}_{part}" for part in ("o", "b", "h", "r")]
    if mask:
        fields += [f"mask_{part}" for part in ("o", "b", "h", "r", "c")]
    fields = [f"{f}: u32" for f in fields] + ["scale: f32"]
    vector = elements.array_type(dtype, "v", caps)
    bindings = [(f"{name}_in", "read", vector) for name in inputs]
    if mask:
        bindings.append(("mask_in", "read", elements.array_type(mask, "e", caps)))
    outputs = {"forward": ("out",), "queries": ("dq",), "keys": ("dk", "dv")}[mode]
    bindings.append(("stats", "read_write" if mode == "forward" else "read", "array<f32>"))
    bindings += [(name, "read_write", vector) for name in outputs]
    wgsl = render(
        "attention.wgsl", caps,
        fields=fields, bindings=bindings, widen=_widen((dtype,), caps), mode=mode, t=tile, wide=wide, causal=causal,
        # Unrolled text is what a GPU's compiler likes; a software driver takes seconds over it.
        steps=[f"{i}u" for i in range(tile.depth)] if caps.kind == "gpu" else ["kk"],
        mask="" if mask is None else "bool" if mask.name == "bool" else "add",
        read4=lambda x, at: _read4(dtype, f"{x}_in", at, caps),
        read_mask=lambda at: elements.read(mask, "mask_in", at, caps),
        write4=lambda out, at, lanes: " ".join(elements.write4(dtype, out, at, lanes, caps)),
    )  # fmt: skip
    access = "".join("r" if a == "read" else "w" for _, a, _ in bindings)
    tags = f"{mask.short if mask else ''}{'c' if causal else ''}{wide}"
    return Program(f"attention_{mode}_{dtype.short}_{tags}", wgsl, access, 4 * len(fields))


def plan_delta(shape: Shape, dtype: DType, grad: Strides, caps: Caps) -> Step:
    """Bindings: g, o, lse, stats."""
    rows = shape.batch * shape.heads * shape.l
    params = pack("<8I", rows, shape.l, shape.heads, shape.v // 4, *grad.words())
    return Step(_delta_program(dtype, caps), params, spread(-(-rows // 64), caps))


@cache
def _delta_program(dtype: DType, caps: Caps) -> Program:
    vector = elements.array_type(dtype, "v", caps)
    bindings = [("g_in", "read", vector), ("o_in", "read", vector), ("lse", "read", "array<f32>"),
                ("stats", "read_write", "array<f32>")]  # fmt: skip
    wgsl = render(
        "attention_delta.wgsl", caps, bindings=bindings, widen=_widen((dtype,), caps),
        read4=lambda x, at: _read4(dtype, f"{x}_in", at, caps),
    )  # fmt: skip
    return Program(f"attention_delta_{dtype.short}", wgsl, "rrrw", 32)
