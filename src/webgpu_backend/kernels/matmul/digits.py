"""Products of few rows with weights that are whole numbers: activations become digits of eight bits, so that four
products and their sum are one instruction. A workgroup makes them itself, and then takes one tile of columns after the
other: how its threads lie, and how much of the rows it holds.

One dispatch takes several weights of the same rows: results stand one after the other (`joined`), or are made into one,
element by element. It computes the norm of its rows too, and what follows."""

from dataclasses import dataclass
from functools import cache
from struct import pack
from typing import NamedTuple

from ...dtypes import DType
from ...program import Caps, Plan, Program, Step
from ..layout import halvings, spread
from ..quantized import formats
from ..quantized.formats import FORMATS, PIECE, Blocks
from ..text import elements
from ..text.by_index import function
from ..text.expression import Emitter
from ..text.numbers import packed
from ..text.render import render_program
from .few_rows import Lay, folding
from .product import Matrix, Product, array_of, store_mode

DIGITS = 2  # of an activation: 15 bits and a sign, relative to the largest of 32
HELD = 40 << 10  # bytes of workgroup memory for activations at most
HELD_BY_PIECE = PIECE * DIGITS + 12  # of one row, with its level and sums
UNITS = 132  # of a large card: each has one workgroup, since every workgroup makes digits anew
BUSY = 90  # of them that should have work
LEAST = 8  # threads of a column, and a subgroup's on the smallest of GPUs
SHARE = 2  # pieces of k that each of them should have
MANY = 8192  # columns

# By rows: columns of a thread, whether its next pieces are read before these are multiplied, and the most threads. What
# is small is done when its first weights are there: more threads with less to do each are quicker then.
SHAPES = {1: (2, False, 1024), 2: (2, False, 512), 4: (2, False, 512), 8: (2, False, 512)}
LONG = (4, True, 256)  # eight rows of many columns


class Weight(NamedTuple):
    """n rows of codes from piece number `place` on, which are dense, and their scales."""

    n: int
    place: int
    blocks: Blocks


@dataclass(frozen=True)
class Digits:
    """Rows of `a` times each of the weights, of one format and scales alike. `before` is an expression of an element a,
    of what its row is divided by, as r, and of the element of `norm` that belongs to it, w. `after` is one of the
    results v0, v1, ... of one place and of the `others` there, o0, o1, ...; with `joined` of one result v0, and of the
    other that its weight has, o0."""

    m: int
    k: int
    a: Matrix
    weights: tuple[Weight, ...]
    out: Matrix
    others: tuple[Matrix, ...] = ()
    after: str = "v0"
    joined: bool = True
    before: str = ""
    norm: Matrix | None = None
    eps: float = 0.0

    @property
    def paired(self) -> int:
        """Weights whose results meet."""
        return 1 if self.joined else len(self.weights)


def serve(format: str, dtype: DType, caps: Caps) -> bool:
    """15 bits are more than numbers of two bytes have, and less than those of four. Sums cross lanes of a subgroup."""
    return FORMATS[format].whole and caps.dots and caps.subgroups and dtype.name in ("float16", "bfloat16")


def of_product(q: Product) -> Digits:
    """A product, which has nothing but a summand beside it."""
    others, after = ((), "v0") if q.c is None else ((q.c,), "v0 + o0")
    return Digits(q.m, q.k, q.a, (Weight(q.n, q.b.offset, q.blocks),), q.out, others, after)


def lay(rows: int, n: int, k: int, caps: Caps, paired: int = 1) -> Lay:
    """As many columns side by side as leave most units work, four of each weight whose results meet at least; and
    threads along k as far as there are some left and k has pieces for them."""
    wide, ahead, threads = LONG if rows == 8 and n >= MANY else SHAPES[rows]
    wide = max(wide, paired)
    threads = min(threads, caps.workgroup_size)
    crews, along = threads // LEAST, LEAST
    while wide * crews > 4 * paired and _tiles(n, wide * crews) < BUSY:
        crews //= 2
    while 2 * along * crews <= threads and 2 * along * SHARE <= k // PIECE:
        along *= 2
    while True:
        lanes = min(along, 32, caps.lanes)
        found = Lay(wide, lanes, crews, along // lanes, 1, ahead)
        if held(found, rows, caps) or along == LEAST:
            return found
        along //= 2


def _tiles(n: int, columns: int) -> int:
    return -(-n // columns)


def held(lay: Lay, rows: int, caps: Caps) -> int:
    """Pieces of every row in workgroup memory at a time: what all threads of a column take at once, some times."""
    step = lay.along_k * lay.teams * lay.unroll
    free = min(caps.workgroup_bytes - lay.bytes(rows) - 4 * rows * _squares(lay, caps), HELD)
    return free // (rows * HELD_BY_PIECE) // step * step


def _squares(lay: Lay, caps: Caps) -> int:
    """Sums of squares of a row, one of each subgroup."""
    return lay.threads // min(lay.threads, 32, caps.lanes)


def groups(lay: Lay, rows: int, tiles: int, k: int, caps: Caps) -> int:
    """Workgroups: one for each unit, or one for each tile where k is not held whole."""
    if k > held(lay, rows, caps) * PIECE:
        return tiles
    return -(-tiles // -(-tiles // UNITS))


def plan(q: Digits, caps: Caps) -> Plan:
    """One dispatch over a, the norm, codes and scales of each weight, the others and the output."""
    rows, count = 1 << (q.m - 1).bit_length(), len(q.weights)
    found = lay(rows, sum([w.n for w in q.weights]), q.k, caps, q.paired)
    tiles = [_tiles(w.n, found.columns // q.paired) for w in q.weights[: 1 if q.paired > 1 else count]]
    firsts = [sum(tiles[:i]) for i in range(len(tiles))]
    columns = [sum([w.n for w in q.weights[:i]]) for i in range(len(tiles))]
    scattered = any([w.n % 4 for w in q.weights])
    store = store_mode(q.out, 1 if scattered else q.weights[0].n, caps)
    blocks = q.weights[0].blocks
    program = _program(
        rows, found, q.a.dtype, q.out.dtype, store, count, q.joined, tuple([c.dtype for c in q.others]), q.after,
        q.before, q.norm.dtype if q.norm else None, Blocks(blocks.format, blocks.dtype), caps,
    )  # fmt: skip
    unit = 4 if store == "v" else 1
    total = groups(found, rows, sum(tiles), q.k, caps)
    words = [q.m, q.k, total, sum(tiles), q.a.offset // 4, q.a.row // 4, q.out.offset // unit, q.out.row // unit]
    words += [blocks.group, blocks.shift, blocks.zero]
    for i, w in enumerate(q.weights):
        words += [w.n, w.place, w.blocks.offset, w.blocks.row]
        if q.joined and i:
            words += [firsts[i], columns[i]]
    for c in q.others:
        words += [c.offset, c.row, c.col]
    params = packed(words)
    if q.before:
        params += packed([q.norm.offset // 4 if q.norm else 0]) + pack("<f", q.eps)
    return Plan((Step(program, params, spread(total, caps), tuple(range(len(program.access)))),))


@cache
def _program(rows, lay, a_dtype, out_dtype, store, count, joined, others, after, before, norm, blocks, caps) -> Program:
    fields = ["m", "k", "groups", "tiles", "a_o", "a_r", "o_o", "o_m", "s_g", "s_shift", "s_z"]
    bindings = [("a_in", "read", array_of(a_dtype, "k", caps))]
    if norm:
        bindings.append(("w_in", "read", array_of(norm, "k", caps)))
    for i in range(count):
        fields += [f"n{i}", f"b_o{i}", f"s_o{i}", f"s_n{i}"]
        fields += [f"tile{i}", f"first{i}"] if joined and i else []
        bindings += formats.bindings(blocks, caps, str(i))
    for i, dtype in enumerate(others):
        fields += [f"c{i}_o", f"c{i}_m", f"c{i}_n"]
        bindings.append((f"c{i}_in", "read", elements.array_type(dtype, "e", caps)))
    fields += ["w_o", "eps: f32"] if before else []
    bindings.append(("out", "read_write", elements.array_type(out_dtype, store, caps)))
    fold = folding([f"c{i}_{j}" for i in range(rows) for j in range(lay.wide)], lay.along_k)
    f, lanes = FORMATS[blocks.format], lay.threads // _squares(lay, caps)
    dtypes = {"a": a_dtype, "w": norm}
    tag = f"{count}{'j' if joined else 'p'}" * (count > 1) + "n" * bool(before)
    return render_program(
        f"matmul_{blocks.format}_{blocks.dtype.short}_v{rows}_{a_dtype.short}k_i32d{tag}_{out_dtype.short}{store}",
        "matmul/digits.wgsl", fields, bindings, caps,
        declarations=[*elements.wideners((a_dtype, *([norm] if norm else [])), caps),
                      *_functions(count, joined, others, after, before, norm, caps)],
        l=lay, rows=rows, count=count, joined=joined, paired=1 if joined else count, before=before, norm=norm,
        store=store, folding=fold.lines, folded=fold.values, spare=fold.spare,
        lanes=lanes, masks=halvings(lanes),
        digits=DIGITS, held=held(lay, rows, caps), limit=127 * 257 if DIGITS == 2 else 127,
        summed_up=bool(f.low or f.offsets),
        read4=lambda x, at: elements.widened(dtypes[x], f"{x}_in[{at}]", caps),
        write=lambda at, value: elements.write(out_dtype, "out", at, value, caps),
        write4=lambda at, lanes: " ".join(elements.write4(out_dtype, "out", at, lanes, caps)),
        **formats.names(blocks, caps, [str(i) for i in range(count)]),
    )  # fmt: skip


def _functions(count, joined, others, after, before, norm, caps: Caps) -> list[str]:
    """What is done to an element before and after."""
    results = [f"v{i}" for i in range(1 if joined else count)]
    lines, read = [], {}
    for i, dtype in enumerate(others):
        at = f"p.c{i}_o + m * p.c{i}_m + n * p.c{i}_n"
        read[i] = f"let at = {at}; o{{}} = {elements.read(dtype, f'c{i}_in', 'at', caps)};"
    if joined and others:
        lines = ["var o0: f32;"]
        branches = [f"if (which == {i}u) {{ {text.format(0)} }}" for i, text in read.items()]
        lines.append(" else ".join(branches))
    else:
        lines = [f"var o{i}: f32; {{ {text.format(i)} }}" for i, text in read.items()]
    names = results + [f"o{i}" for i in range(min(len(others), 1) if joined else len(others))]
    lines += Emitter(dict.fromkeys(names, "f32"), {}, caps.i64).program(after, [("out0", "f32")])
    arguments = ", ".join([*[f"{v}: f32" for v in results], "m: u32", "n: u32", "which: u32"])
    body = "\n    ".join([*lines, "return out0;"])
    found = [f"fn after({arguments}) -> f32 {{\n    {body}\n}}"]
    if before:
        found.append(
            function("before", before, dict.fromkeys(("a", "r", "w") if norm else ("a", "r"), "f32"), "f32", caps)
        )
    return found
