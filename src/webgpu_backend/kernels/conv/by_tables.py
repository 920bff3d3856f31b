"""Convolutions on a big GPU: one matrix product over all images, whose right operand is read through two tables.

A table of positions and one of taps (channel and place in the window) give, by addition, where an element of the image
lies, and by their bits whether it lies outside; the kernel knows no geometry. `mode` "image" has positions as columns
and sums over taps (the forward pass and the image's gradient), "weight" the other way round (the weights' gradient).
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from ...dtypes import FLOAT32, DType
from ...program import Caps, Plan, Program, Step
from ..layout import spread
from ..matmul import units
from ..matmul.product import Matrix, numbered
from ..matmul.tiles import Tile, UnitTile, tuning
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program
from .epilogue import FINISHED, After, Kind, given, texts


class Row(NamedTuple):
    """A row of the tuning table: TFLOP/s of a full card for images and weights, read as they lie or gathered, and
    what a workgroup waits for its first numbers, in waves."""

    tile: Tile | UnitTile
    image: float
    image_gathered: float
    weight: float
    weight_gathered: float
    fill: float


# Measured on a card of 132 units.
ROWS = (
    Row(Tile(128, 128, 16, 8, 8), 39.0, 25.0, 31.0, 27.0, 0.0),
    Row(Tile(64, 128, 16, 8, 8, warp=2), 36.0, 22.0, 31.0, 18.0, 0.3),
    Row(Tile(128, 64, 16, 8, 8), 33.0, 25.0, 30.0, 20.0, 0.4),
    Row(Tile(64, 64, 16, 8, 4, warp=2), 27.0, 24.0, 26.0, 22.0, 0.5),
    Row(Tile(64, 64, 16, 4, 4, warp=2), 28.0, 29.0, 29.0, 25.0, 0.5),
    Row(Tile(32, 128, 16, 4, 8, warp=2), 25.0, 18.0, 20.0, 15.0, 0.6),
    Row(Tile(32, 64, 16, 4, 4, warp=2), 22.0, 18.0, 18.0, 16.0, 0.6),
)
# By matrix units; not measured: the rates are guesses.
UNIT_ROWS = (
    Row(UnitTile(128, 128, 32, 64, 32), 150.0, 100.0, 100.0, 80.0, 0.3),
    Row(UnitTile(128, 64, 32, 64, 32), 120.0, 80.0, 80.0, 60.0, 0.5),
    Row(UnitTile(64, 64, 32, 32, 32), 100.0, 70.0, 70.0, 50.0, 0.5),
    Row(UnitTile(32, 64, 32, 16, 32), 60.0, 40.0, 40.0, 30.0, 0.6),
    Row(UnitTile(32, 32, 32, 16, 16), 50.0, 30.0, 30.0, 20.0, 0.6),
)
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
SPLIT_DEPTH = 128  # a split of k is at least this long
SPLIT_IMAGE = 1.12  # parts of an image's sum read it in turns
MOST_AGAIN = 1 << 16  # length of the weights' sums that one thread does again: longer ones would hold the adapter up
START = 48  # what a workgroup costs beside its products, in steps of k


@dataclass(frozen=True)
class Convolution:
    """A product of `groups` blocks: m rows of `a`, n columns from `images` images of `places` elements a plane.

    Matrix strides: `row` and `col` as in a product (of m and k for a, of channels for b, of m for out), `outer` of the
    blocks, `inner` of the images.
    """

    mode: str
    m: int
    n: int
    k: int
    places: int
    groups: int
    a: Matrix
    b: Matrix
    out: Matrix
    bias: Matrix | None = None
    plain: bool = False  # b is read as it lies: positions are neighbours and there is one tap
    single: bool = False  # one tap, which every position meets
    scattered: bool = False  # positions are not neighbours in the output, nor (of many taps) k's rows in a
    after: After | None = None  # takes the place of a bias


TABLED = (*FINISHED, "taps", "places")


def plan(q: Convolution, caps: Caps) -> Plan:
    """Over a, b, the bias (if there is one), the output, what is read at the end, and the two tables (where the kernel
    reads them)."""
    a_class = _a_class(q)
    vector_b = q.plain and q.places % 4 == 0 and _quarters(q.b.offset, q.b.outer, q.b.inner, q.b.row)
    b_class = "v" if vector_b else "p" if q.plain else "q" if q.single else "g"
    tile, splits, chunk = _choose(q, a_class, b_class, caps)
    tiles_m, tiles_n = -(-q.m // tile.bm), -(-q.n // tile.bn)
    total = q.groups * splits * tiles_m * tiles_n
    out = q.out
    count = q.groups * q.m * q.n
    if splits > 1:
        out = out._replace(dtype=FLOAT32, offset=0)
    wide = q.places if q.mode == "image" else q.n
    vector = not q.scattered and wide % 4 == 0 and _quarters(out.offset, out.outer, out.inner, out.row)
    vector = vector and (splits == 1 or count % 4 == 0)
    store = "v" if vector else elements.element_mode(out.dtype, caps, written=True)
    bias = q.bias if splits == 1 else None
    kind, read, names = given(q.after if splits == 1 else None)
    program = _program(
        q.mode, q.a.dtype, out.dtype, a_class, b_class, store, bias is not None, q.scattered, tile, kind, caps
    )  # fmt: skip
    ua, ub, uo = 4 if a_class in "kr" else 1, 4 if vector_b else 1, 4 if vector else 1
    a_row = q.a.row if a_class == "r" else q.a.row // ua
    a_col = q.a.col if a_class == "k" else q.a.col // ua
    words = [q.m, q.n, q.k, q.places, tiles_m, tiles_n, total, splits, chunk]
    words += [q.a.offset // ua, a_row, a_col, q.a.inner // ua, q.a.outer // ua]
    words += [q.b.offset // ub, q.b.row // ub, q.b.row // ub, q.b.inner // ub, q.b.outer // ub]
    words += [out.offset // uo, out.row // uo, out.inner // uo, out.outer // uo, count // uo]
    bindings = ["a", "b"] + (["taps"] if b_class == "g" else []) + (["places"] if _listed(b_class, q.scattered) else [])
    if bias is not None:
        words += [bias.offset, bias.row]
        bindings.append("c")
    bindings += [*names, "part" if splits > 1 else "out"]
    steps = [Step(program, packed(words + read), spread(total, caps), tuple(bindings))]
    if splits == 1:
        return numbered(Plan(tuple(steps), {}), TABLED)
    steps.append(plan_finish(q.out.dtype, q.bias, count, splits, q.places, q.groups * q.m, caps, q.after))
    return numbered(Plan(tuple(steps), {"part": 4 * splits * count}), TABLED)


def _listed(b_class: str, scattered: bool) -> bool:
    """Whether the kernel reads where positions lie."""
    return b_class in "gq" or scattered


def _quarters(*numbers: int) -> bool:
    return all(x % 4 == 0 for x in numbers)


def _a_class(q: Convolution) -> str:
    """k or r: four elements at once along k or the rows; s: one by one."""
    a = q.a
    if q.mode == "weight":
        return "k" if q.places % 4 == 0 and _quarters(a.offset, a.row, a.outer, a.inner) else "s"
    if a.col == 1 and q.k % 4 == 0 and _quarters(a.offset, a.row, a.outer):
        return "k"
    if a.row == 1 and q.m % 4 == 0 and _quarters(a.offset, a.col, a.outer):
        return "r"
    return "s"


def _pads(mode: str, a_class: str, b_class: str) -> tuple[int, int]:
    """An operand that is turned on its way into workgroup memory has rows of uneven length: fewer bank conflicts."""
    return int(a_class != "r"), int(mode == "weight")


def by_units(dtype: DType, caps: Caps) -> bool:
    """Whether matrix units compute it."""
    return dtype.name == "float16" and bool(caps.matrix) and any(_has_room(row.tile, caps) for row in UNIT_ROWS)


def _has_room(tile: UnitTile, caps: Caps) -> bool:
    # Threads read whole lines of single elements, and each of a thread's fours has a bit.
    whole = units.threads(tile, caps) % max(tile.bn, tile.bk) == 0
    return whole and units.fits(tile, caps) and tile.wm * tile.wn <= 32 * 4 * caps.lanes


def _fits(tile: Tile | UnitTile, pads: tuple[int, int], caps: Caps) -> bool:
    if isinstance(tile, UnitTile):
        return _has_room(tile, caps)
    threads = (tile.bm // tile.tm) * (tile.bn // tile.tn)
    memory = 4 * tile.bk * (tile.bm + tile.bn + 4 * sum(pads))
    return threads <= caps.workgroup_size and memory <= caps.workgroup_bytes


def _choose(q: Convolution, a_class: str, b_class: str, caps: Caps) -> tuple[Tile, int, int]:
    """The tile and the parts of k that should take the least time."""
    card, best, count = tuning(), None, q.groups * q.m * q.n
    column = q.mode if b_class == "v" else f"{q.mode}_gathered"
    for row in UNIT_ROWS if by_units(q.a.dtype, caps) else ROWS:
        tile = row.tile
        if not _fits(tile, _pads(q.mode, a_class, b_class), caps):
            continue
        groups = q.groups * -(-q.m // tile.bm) * -(-q.n // tile.bn)
        wave = 2.0 * tile.bm * tile.bn * card.units / (getattr(row, column) * 1e6)  # microseconds of a step of k
        for parts in SPLITS:
            if parts > 1 and (q.scattered or q.k < parts * SPLIT_DEPTH or 4 * parts * count > caps.max_binding):
                break
            chunk = -(-q.k // (parts * tile.bk)) * tile.bk
            splits = -(-q.k // chunk)
            time = (-(-groups * splits // card.units) + row.fill) * wave * (chunk + START)
            if splits > 1:
                time *= SPLIT_IMAGE if q.mode == "image" else 1.0
                time += card.launch + splits * count * 8 / card.bandwidth
            if best is None or time < best[0]:
                best = (time, tile, splits, chunk)
    if best is None:
        raise ValueError("no tile of a convolution fits this adapter")
    tile = best[1]
    if q.mode == "weight" and isinstance(tile, Tile):
        # Both operands are turned there: wide rows of threads read them better.
        tile = tile._replace(warp=max(2, 32 * tile.tn // tile.bn))
    return tile, *best[2:]


_FIELDS = [
    "m", "n", "k", "places", "tiles_m", "tiles_n", "total", "splits", "chunk", "a_o", "a_r", "a_k", "a_i", "a_g",
    "b_o", "b_r", "b_k", "b_i", "b_g", "o_o", "o_m", "o_i", "o_g", "o_s",
]  # fmt: skip


@cache
def _program(
    mode: str, dtype: DType, out: DType, a_class: str, b_class: str, store: str, bias: bool, scattered: bool,
    tile: Tile, after: Kind | None, caps: Caps,
) -> Program:  # fmt: skip
    more, finishers, functions, tag = texts(after, caps)
    tag = "_bias" if bias else tag
    fields = _FIELDS + (["c_o", "c_s"] if bias else []) + more
    bindings = [
        ("a_in", "read", elements.array_type(dtype, "v" if a_class in "kr" else "e", caps)),
        ("b_in", "read", elements.array_type(dtype, "v" if b_class == "v" else "e", caps)),
    ]
    if b_class == "g":
        bindings.append(("taps", "read", "array<vec4<u32>>" if scattered else "array<vec2<u32>>"))
    if _listed(b_class, scattered):
        bindings.append(("places", "read", "array<vec4<u32>>"))
    if bias:
        bindings.append(("c_in", "read", elements.array_type(dtype, "e", caps)))
    bindings += [*finishers, ("out", "read_write", elements.array_type(out, store, caps))]
    a_pad, b_pad = _pads(mode, a_class, b_class)
    exact = lambda x, at: elements.read(dtype, f"{x}_in", at, caps)  # noqa: E731
    exact4 = lambda x, at: elements.widened(dtype, f"{x}_in[{at}]", caps)  # noqa: E731
    way, names = "tables", dict(kind="f32", zero="0.0", read=exact, read4=exact4, a_pad=a_pad, b_pad=b_pad)
    if isinstance(tile, UnitTile):
        way, names = "units", units.names(tile, "ab", (), caps) | dict(kind="f16", zero="0.0h")
        names["read"] = names["read4"] = lambda x, at: f"{x}_in[{at}]"
    return render_program(
        f"conv_{mode}_{way}_{tile.bm}x{tile.bn}_{dtype.short}{a_class}{b_class}_{out.short}{store}{tag}",
        f"conv/by_{way}.wgsl", fields, bindings, caps,
        declarations=[*elements.wideners((dtype,), caps), *functions], t=tile, after=after is not None,
        mode=mode, a_class=a_class, b_class=b_class, store=store, bias=bias, scattered=scattered,
        most_again=MOST_AGAIN, exact=exact, exact4=exact4, **names,
        write=lambda at, value: elements.write(out, "out", at, value, caps),
        write4=lambda at, lanes: " ".join(elements.write4(out, "out", at, lanes, caps)),
    )  # fmt: skip


def plan_finish(
    dtype: DType, bias: Matrix | None, count: int, splits: int, places: int, channels: int, caps: Caps,
    after: After | None = None,
) -> Step:  # fmt: skip
    """The sum of `splits` parts of `count` elements each, with a bias for each channel of `places` elements."""
    kind, read, names = given(after)
    program = _finish_program(dtype, bias is not None, count % 4 == 0, kind, caps)
    words = [count, splits, places, channels]
    if bias is not None:
        words += [bias.offset, bias.row]
    bindings = ("part", *(("c",) if bias is not None else ()), *names, "out")
    return Step(program, packed(words + read), spread(-(-count // 256), caps), bindings)


@cache
def _finish_program(out: DType, bias: bool, vector: bool, after: Kind | None, caps: Caps) -> Program:
    more, finishers, functions, tag = texts(after, caps)
    fields = ["count", "splits", "places", "channels"] + (["c_o", "c_s"] if bias else []) + more
    bindings = [("part", "read", "array<vec4<f32>>" if vector else "array<f32>")]
    if bias:
        bindings.append(("c_in", "read", elements.array_type(out, "e", caps)))
    bindings += [*finishers, ("out", "read_write", elements.array_type(out, "v", caps))]
    return render_program(
        f"conv_finish_{out.short}{'_bias' if bias else ''}{tag}", "conv/finish.wgsl", fields, bindings, caps,
        declarations=functions, bias=bias, after=after is not None, vector=vector,
        read=lambda at: elements.read(out, "c_in", at, caps),
        write4=" ".join(elements.write4(out, "out", "g", ["v.x", "v.y", "v.z", "v.w"], caps)),
    )  # fmt: skip
