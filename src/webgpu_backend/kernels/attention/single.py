"""Attention without the matrix of scores: online softmax forward, recomputed weights backward. Memory is linear.

Three kernels share one template. `forward` and `queries` (dq) own a tile of queries and walk over keys; `keys`
(dk, dv) owns a tile of keys and walks over queries of every head that shares them; fused, it adds to dq as well.
"""

from functools import cache
from struct import pack
from typing import NamedTuple

from ...dtypes import DType
from ...program import Caps, Program, Step
from ..layout import spread
from ..text import elements
from ..text.numbers import packed
from ..text.render import Binding, render_program
from .epilogue import After, Kind, given, texts, written


class Tile(NamedTuple):
    rows: int  # owned by a workgroup
    cols: int  # walked over, per step
    tm: int  # rows and columns per thread
    tn: int
    slice: int  # elements of a head in workgroup memory at a time
    unroll: int = 1  # steps of the inner loops written out, where heads are whole slices

    def threads(self) -> int:
        return self.rows // self.tm * (self.cols // self.tn)

    def fits(self, caps: Caps) -> bool:
        return self.shared() <= caps.workgroup_bytes and self.threads() <= caps.workgroup_size

    def shared(self) -> int:
        row = self.slice // 4
        values = self.rows * self.cols // self.tn * 4
        return 16 * (self.rows * max(row, self.cols // 4) + self.cols * row) + values


# The tuning table: by kernel, first tile that fits the adapter. An H200 runs 48 KiB of workgroup memory on a core at a
# time, so a tile is best small or full of threads. `few` is the forward kernel for few queries, whose keys are divided
# among workgroups; `all` is `keys` that adds to dq as well; `dropped` is `keys` with dropout, whose threads own keys
# eight apart.
TILES = {
    "forward": (Tile(64, 32, 4, 4, 32, 4), Tile(32, 32, 4, 4, 32)),
    "few": (Tile(8, 64, 1, 4, 64, 4), Tile(8, 32, 1, 4, 32)),
    "queries": (Tile(64, 64, 4, 8, 32, 4), Tile(64, 32, 4, 4, 32, 4), Tile(32, 32, 4, 4, 32)),
    "keys": (Tile(64, 32, 4, 4, 32, 8), Tile(32, 32, 4, 4, 32)),
    "all": (Tile(64, 64, 4, 8, 32, 4),),
    "dropped": (Tile(32, 32, 4, 4, 32),),
}
SOFTWARE = Tile(32, 32, 8, 4, 64)  # comes first on a software adapter, which likes few loads
MAX_HEAD = 256
# Rows (of all the heads that share keys) up to which the `few` tile is taken.
FEW = 32
# Workgroups from which a GPU is full: below, the keys of the forward pass are divided.
ENOUGH = {"gpu": 264, "cpu": 0}
SPLIT_KEYS = {False: 256, True: 64}  # least keys of a part; of few queries


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


LOG2E = 1.4426950408889634
OUT = ["out_b", "out_h", "out_r"]  # where the output's rows lie; it is a tensor of its own, and starts at 0
# What a weight is dropped by: Philox' key and counter, the words below which it is, and what the others are times.
DROPOUT = ["seed_x", "seed_y", "draw_x", "draw_y", "dropped", "rest: f32"]


class Shape(NamedTuple):
    batch: int
    heads: int  # of queries
    shared: int  # heads of keys and values
    l: int  # noqa: E741 (torch's name)
    s: int
    e: int
    v: int


def tile_of(mode: str, caps: Caps) -> Tile:
    software = caps.kind == "cpu" and mode in ("forward", "queries", "keys")
    for tile in (SOFTWARE, *TILES[mode]) if software else TILES[mode]:
        if tile.fits(caps):
            return tile
    raise ValueError(f"no attention tile fits {caps.workgroup_bytes} bytes of workgroup memory")


def fuses(shape: Shape, caps: Caps) -> bool:
    """Whether one kernel can find all gradients: square tiles, and sums of both outputs in registers."""
    fits = any(tile.fits(caps) for tile in TILES["all"]) and caps.max_bindings >= 9  # with a mask
    return fits and caps.f32_atomic and caps.kind == "gpu" and max(shape.e, shape.v) <= 64


def plan(
    mode: str, shape: Shape, dtype: DType, operands: dict[str, Strides], mask: Mask | None, causal: bool, scale: float,
    caps: Caps, dropout: float = 0.0, fused: bool = False, after: After | None = None,
) -> tuple[Step, int]:  # fmt: skip
    """One kernel, and into how many parts it divides the keys. Each call draws anew what `dropout` drops. `fused`: the
    kernel of dk and dv adds to dq as well. `after` is what is done to the output, where keys are not divided."""
    ratio = shape.heads // shape.shared
    rows, heads = (shape.s, shape.shared) if mode == "keys" else (shape.l, shape.heads)
    few = mode == "forward" and shape.l * ratio <= FEW
    if few:
        rows, heads = shape.l * ratio, shape.shared
    tile = tile_of("few" if few else "dropped" if dropout and mode == "keys" else "all" if fused else mode, caps)
    blocks = -(-rows // tile.rows)
    splits, chunk = 1, shape.s
    if mode == "forward":
        wanted = -(-ENOUGH[caps.kind] // (blocks * shape.batch * heads))
        chunk = -(-shape.s // max(1, min(wanted, shape.s // SPLIT_KEYS[few])))
        chunk = -(-chunk // tile.cols) * tile.cols
        splits = -(-shape.s // chunk)
    sequences = shape.batch * heads * splits
    words = [rows if few else shape.l, shape.l, shape.s, shape.e // 4, shape.v // 4, heads, ratio, blocks, sequences]
    words += [splits, chunk] if splits > 1 else []
    params = packed(words) + parameters(mode, shape, operands, mask, scale)
    wide = [-(-x // tile.slice) * (tile.slice // 4 * tile.tn // tile.cols) for x in (shape.e, shape.v)]
    found = mask.dtype if mask else None
    whole = shape.e % tile.slice == 0, shape.v % tile.slice == 0
    kind, read = given(after if splits == 1 else None)
    program = _program(mode, dtype, found, causal, tile, *wide, whole, few, splits > 1, dropout > 0, fused, kind, caps)
    draw = None
    if dropout:
        rest = 1.0 / (1.0 - dropout) if dropout < 1.0 else 0.0
        dropped = min(round(dropout * 2**32), 2**32 - 1)
        draw, params = len(params), params + bytes(16) + pack("<If", dropped, rest)
    return Step(program, params + packed(read), spread(blocks * sequences, caps), draw=draw), splits


def parameters(mode: str, shape: Shape, operands: dict[str, Strides], mask: Mask | None, scale: float) -> bytes:
    """Where everything is, and the scale. Those of a forward pass fit, with what is before them, into 128 bytes, which
    all adapters take without a buffer, as far as nothing is dropped."""
    words = [word for name in _inputs(mode) for word in operands[name].words()]
    words += operands["out"].words()[1:] if mode == "forward" else [shape.batch * shape.heads * shape.l]
    words += mask[1:] if mask else ()
    factors = (scale * LOG2E,) if mode == "forward" else (scale * LOG2E, scale)
    return packed(words) + pack(f"<{len(factors)}f", *factors)


def _inputs(mode: str) -> str:
    return "qkv" if mode == "forward" else "qkvg"


def plan_merge(shape: Shape, dtype: DType, out: Strides, splits: int, caps: Caps, after: After | None = None) -> Step:
    """Joins the parts of the keys. Bindings: the parts' statistics and sums, what `after` reads, the rows'
    log-sum-exps, the output."""
    rows = shape.batch * shape.heads * shape.l
    kind, read = given(after)
    params = packed([rows, shape.v // 4, splits, shape.l, shape.heads, *out.words()[1:], *read])
    lanes = 1 << (shape.v // 4 - 1).bit_length()
    return Step(_merge_program(dtype, lanes, kind, caps), params, spread(rows, caps))


def mask_kind(mask: DType | None) -> str:
    return "" if mask is None else "bool" if mask.name == "bool" else "add"


def interface(
    mode: str, dtype: DType, mask: DType | None, caps: Caps, split: bool = False
) -> tuple[list[str], list[Binding]]:
    """Parameter fields, and bindings without the outputs."""
    fields = ["l", "n", "s", "e4", "v4", "heads", "ratio", "blocks", "sequences"]
    fields += ["splits", "chunk"] if split else []
    fields += [f"{name}_{part}" for name in _inputs(mode) for part in "obhr"]
    fields += OUT if mode == "forward" else ["rows_total"]
    if mask:
        fields += [f"mask_{part}" for part in "obhrc"]
    fields += ["factor: f32"] if mode == "forward" else ["factor: f32", "scale: f32"]
    bindings: list[Binding] = [(f"{x}_in", "read", elements.array_type(dtype, "v", caps)) for x in _inputs(mode)]
    if mask:
        bindings.append(("mask_in", "read", elements.array_type(mask, "e", caps)))
    bindings.append(("stats", "read_write" if mode == "forward" else "read", "array<f32>"))
    return fields, bindings


@cache
def _program(
    mode, dtype, mask, causal, tile, e_wide, v_wide, whole, few, split, dropout, fused, after: Kind | None, caps
) -> Program:
    more, beside, functions, end = texts(after, caps)
    fields, bindings = interface(mode, dtype, mask, caps, split)
    bindings[-1:-1] = beside
    fields += (DROPOUT if dropout else []) + more
    out = written(after, dtype)
    vector = elements.array_type(out, "v", caps)
    outputs = {"forward": ("out",), "queries": ("dq",), "keys": ("dk", "dv")}[mode]
    bindings += [(name, "read_write", "array<vec4<f32>>" if split else vector) for name in outputs]
    if fused:
        bindings.append(("dq", "read_write", "array<atomic<f32>>"))
    flags = {"q": fused, "c": causal, "p": few, "s": split, "d": dropout}
    tags = (mask.short if mask else "") + "".join(letter for letter, set_ in flags.items() if set_)
    return render_program(
        f"attention_{mode}_{dtype.short}_{tags}{e_wide}x{v_wide}{'' if all(whole) else 'u'}{end}",
        "attention/single.wgsl", fields, bindings, caps,
        declarations=[*elements.wideners((dtype,), caps), *functions], after=after is not None, mode=mode, t=tile,
        causal=causal,
        lanes=caps.kind == "gpu", e_wide=e_wide, v_wide=v_wide, packed=few, split=split, dropout=dropout,
        fused=fused, mask=mask_kind(mask), whole=dict(zip(("p.e4", "p.v4"), whole)),
        read4=lambda x, at: elements.widened(dtype, f"{x}_in[{at}]", caps),
        read_mask=lambda at: elements.read(mask, "mask_in", at, caps),
        write4=lambda to, at, lanes: " ".join(elements.write4(out, to, at, lanes, caps)),
    )  # fmt: skip


@cache
def _merge_program(dtype: DType, lanes: int, after: Kind | None, caps: Caps) -> Program:
    more, beside, functions, end = texts(after, caps)
    out = written(after, dtype)
    bindings = [
        ("part_stats", "read", "array<vec2<f32>>"),
        ("part_out", "read", "array<vec4<f32>>"),
        *beside,
        ("stats", "read_write", "array<f32>"),
        ("out", "read_write", elements.array_type(out, "v", caps)),
    ]
    write = elements.write4(out, "out", "to", ["r.x", "r.y", "r.z", "r.w"], caps)
    return render_program(
        f"attention_merge_{dtype.short}_{lanes}{end}", "attention/merge.wgsl",
        ["rows", "v4", "splits", "l", "heads", *OUT, *more], bindings, caps, declarations=functions,
        after=after is not None, lanes=lanes, write4=" ".join(write),
    )  # fmt: skip


def plan_delta(shape: Shape, dtype: DType, grad: Strides, out: Strides, caps: Caps) -> Step:
    """Bindings: g, o, lse, stats."""
    rows = shape.batch * shape.heads * shape.l
    params = packed([rows, shape.l, shape.heads, shape.v // 4, *grad.words(), *out.words()])
    return Step(_delta_program(dtype, caps), params, spread(-(-rows // 64), caps))


@cache
def _delta_program(dtype: DType, caps: Caps) -> Program:
    vector = elements.array_type(dtype, "v", caps)
    bindings = [
        ("g_in", "read", vector), ("o_in", "read", vector), ("lse", "read", "array<f32>"),
        ("stats", "read_write", "array<f32>"),
    ]  # fmt: skip
    return render_program(
        f"attention_delta_{dtype.short}", "attention/delta.wgsl",
        ["rows", "l", "heads", "v4", "g_o", "g_b", "g_h", "g_r", "out_o", *OUT], bindings, caps,
        declarations=elements.wideners((dtype,), caps),
        read4=lambda x, at: elements.widened(dtype, f"{x}_in[{at}]", caps),
    )  # fmt: skip
