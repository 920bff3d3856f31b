"""Matrix multiplication: which kernel, tile and split a product gets, and its parameters. Integers and text only."""

from dataclasses import replace
from functools import cache
from math import inf

from ...dtypes import COMPLEX64, COMPLEX128, FLOAT32, FLOAT64, INT32, INT64, DType, carrier
from ...program import Caps, Plan, Program, Step
from ..layout import halvings, spread
from ..quantized import formats
from ..quantized.formats import Blocks
from ..text import elements
from ..text.expression import Emitter, literal, wgsl_type
from ..text.numbers import packed
from ..text.render import render_program
from . import digits, few_rows, few_units, halves, measured, padded, tiles, units
from .measured import Choice
from .product import (
    GATHER_FIELDS,
    Matrix,
    Product,
    array_of,
    class_of,
    epilogue_key,
    epilogue_name,
    epilogue_text,
    finisher_bindings,
    numbered,
    scalar_bytes,
    store_mode,
    words_of,
)
from .tiles import Tile, UnitTile

LARGE = 1 << 24  # multiplications from which the software adapter's largest tile repays its compilation (0.4 s)
WORKGROUP = {"gpu": 64, "cpu": 8}  # threads per workgroup of the kernel without workgroup memory
# The same where no cost is known: workgroups (gpu) or threads (cpu).
SPLIT = {"gpu": (128, 256), "cpu": (32, 2048)}
MAX_STEPS = 50000  # loop iterations per thread: one software driver stops at 65,535
MAX_AGAIN = 30000  # of those, for sums of a convolution that are done again
NARROW = 1.25  # what reading numbers of two bytes adds to the time of a tile

SUMS = {"f32": FLOAT32, "i32": INT32, "i64": INT64, "n64": INT64, "c64": COMPLEX64, "c128": COMPLEX128, "f64": FLOAT64}


def plan(product: Product, caps: Caps) -> Plan:
    """Plans a product with at least one output element and k > 0, over a, b, the scales of a quantised b, c, d and e
    (if there are any; c has a place always) and the output."""
    return numbered(_named(product, caps), product.buffers)


def _named(product: Product, caps: Caps) -> Plan:
    q = product
    carry = carrier(q.a.dtype, caps)
    wide = carry not in ("f32", "i32")
    if q.blocks and few_units.serves(q, caps):
        return few_units.plan(q, caps)
    if q.blocks and few_rows.serves(q, caps) and digits.serve(q.blocks.format, q.a.dtype, caps):
        found = digits.plan(digits.of_product(q), caps)
        found.steps[0].bindings = ("a", "b", "s", *(() if q.c is None else ("c",)), "out")
        found.scratch = {}
        return found
    q = _turned(q)
    a_class = class_of(q.a, q.m, q.k)
    b_class = q.gather.kind if q.gather else "q" if q.blocks else class_of(q.b, q.n, q.k)
    tile, parts = (tiles.WIDE, 0) if wide else _tile(q, a_class + b_class, caps)
    if tile is not None and _plain(q, caps):
        choice = measured.choice(product)
        found = choice and _chosen(product, q, a_class + b_class, choice, caps)
        if found is not None:
            return found
    if tile is not None and units.serves(q, caps):
        found = units.choose(q, caps)
        if found is not None and found[0] < _cost(q, tile, parts) * NARROW:
            return _laid(product, q, a_class, b_class, *found[1:], caps)
    if tile is not None and tile.bk and halves.serves(q, caps):
        found = halves.plan(q, _cost(q, tile, parts) * NARROW, caps)
        if found is not None:
            return found
    if tile is not None and tile.bk and padded.serves(q, a_class + b_class):
        classes = a_class + b_class
        limit = _cost(q, tile, parts) * padded.ODD ** padded.odd(classes)
        found = _padded(q, classes, limit, caps)
        if found is not None:
            return found
    if wide:
        a_class, b_class = a_class.upper(), b_class if q.gather else b_class.upper()
    return _laid(product, q, a_class, b_class, tile, parts, caps)


def _turned(q: Product) -> Product:
    """The product, or its transpose where that has few rows."""
    few = q.n < q.m and q.n <= few_rows.ROWS and not q.gather and not q.blocks
    return q.swapped() if few else q


def _plain(q: Product, caps: Caps) -> bool:
    return carrier(q.a.dtype, caps) in ("f32", "i32") and not (q.gather or q.blocks or q.summed)


def _chosen(product: Product, q: Product, classes: str, choice: Choice, caps: Caps) -> Plan | None:
    """The plan of a choice, if this product can have it."""
    if choice.way in ("tiled", "units"):
        return _laid(product, q, *classes, choice.tile, choice.parts, caps)
    if choice.way == "halves":
        return halves.plan(q, inf, caps, (choice.tile,)) if halves.serves(q, caps) else None
    return _padded(q, classes, inf, caps, choice) if padded.serves(q, classes) else None


def choices(product: Product, caps: Caps) -> list[Choice]:
    """What a product could be computed by, what should take the least time first; nothing where there is no choice."""
    q = _turned(product)
    if not _plain(q, caps):
        return []
    usual = _tile(q, class_of(q.a, q.m, q.k) + class_of(q.b, q.n, q.k), caps)[0]
    if usual is None:
        return []
    if caps.kind == "cpu":
        others = [tile for tile in tiles.CPU if tile.bm <= _power(q.m) and tile is not usual]
        return [Choice("tiled", tile) for tile in (usual, *others)]
    return [choice for _, choice in sorted(_priced(q, caps, tiles.every()))]


def microseconds(product: Product, caps: Caps) -> float | None:
    """What a product on a GPU should take; None where that is not known, as of few rows."""
    q = _turned(product)
    if not _plain(q, caps) or _tile(q, class_of(q.a, q.m, q.k) + class_of(q.b, q.n, q.k), caps)[0] is None:
        return None
    return min([cost for cost, _ in _priced(q, caps, tiles.tuning())])


def _priced(q: Product, caps: Caps, table: tiles.Tuning) -> list[tuple[float, Choice]]:
    """The ways of a product with a table's tiles, and the microseconds that each should take."""
    classes = class_of(q.a, q.m, q.k) + class_of(q.b, q.n, q.k)
    found = _estimates(q, classes, caps, "tiled", table.tiles)
    if padded.serves(q, classes) and (copied := padded.padded(q, classes, caps)) is not None:
        found = [(cost * padded.ODD ** padded.odd(classes), choice) for cost, choice in found]
        made = _estimates(copied.product, copied.classes, caps, "padded", table.tiles)
        found += [(cost + padded.cost(copied), choice) for cost, choice in made]
    if halves.serves(q, caps):
        found = [(cost * NARROW, choice) for cost, choice in found]
        found += [(halves.cost(q, t), Choice("halves", t)) for t in halves.rows(caps, table.halves)]
    if units.serves(q, caps):
        found += [(cost, Choice("units", *rest)) for cost, *rest in units.priced(q, caps, table.matrices)]
    return found


def _estimates(q: Product, classes: str, caps: Caps, way: str, rows: tuple) -> list[tuple[float, Choice]]:
    """Each tile with the parts of k that suit it, and the microseconds that should take."""
    fitting = _rows(q, classes, caps, rows)
    found = [tiles.choose([t], q.m, q.n, q.k, q.outer * q.inner) for t in fitting]
    return [(cost, Choice(way, tile, parts)) for cost, tile, parts in found]


def _cost(q: Product, tile: Tile, parts: int) -> float:
    return tiles.cost(tile, max(parts, 1), q.m, q.n, q.k, q.outer * q.inner)


def _padded(q: Product, classes: str, limit: float, caps: Caps, choice: Choice | None = None) -> Plan | None:
    """A plan over padded copies of the operands, if that should take less than `limit` microseconds."""
    found = padded.padded(q, classes, caps)
    if found is None:
        return None
    tile, parts = choice[1:] if choice else _tile(found.product, found.classes, caps)
    if tile is None or _cost(found.product, tile, parts) + padded.cost(found) >= limit:
        return None
    made = _laid(found.product, found.product, *found.classes, tile, parts, caps)
    names = {name: f"p{name}" for name in found.work}
    for step in made.steps:
        step.bindings = tuple(names.get(x, x) for x in step.bindings)
    work = {names[name]: count * q.a.dtype.size for name, count in found.work.items()}
    return Plan((found.step, *made.steps), work | made.scratch)


def _laid(
    product: Product, q: Product, a_class: str, b_class: str, tile: Tile | UnitTile | None, parts: int, caps: Caps
) -> Plan:
    """The dispatches of `q`, which is `product` or its transpose; without a tile by the kernel of few rows."""
    carry = carrier(q.a.dtype, caps)
    vector, by_units = tile is None, isinstance(tile, UnitTile)
    if not vector and not tile.bk and tile.tm < 4:
        a_class = a_class.replace("r", "R")  # fewer rows than a vector has lanes
    batch = q.outer * (1 if q.summed else q.inner)
    if vector:
        a_class, b_class, lay, tiles_n = _few(q, a_class, b_class, caps)
        tiles_m = 1
    else:
        tiles_m, tiles_n = -(-q.m // tile.bm), -(-q.n // tile.bn)
    splits, chunk = _splits(q, parts, batch * tiles_m * tiles_n, few_rows.SPLIT if vector else SPLIT[caps.kind])
    total = batch * splits * tiles_m * tiles_n

    epilogue = "none" if splits > 1 else epilogue_key(q)
    target = q.out if splits == 1 else _parts(q, q is product, carry)
    store = store_mode(target, q.n, caps)
    scales = units.scaled(q) if by_units else ()
    program = _program(
        "few_rows" if vector else "units" if by_units else "tiled" if tile.bk else "direct",
        q.a.dtype, q.b.dtype, target.dtype, q.finishers[0] if epilogue != "none" else (None, None),
        a_class, b_class, store, epilogue, q.act if epilogue != "none" else "",
        (_power(q.m), lay) if vector else tile, q.summed, bool(q.gather and q.gather.flat),
        q.gather is not None and carry in ("f32", "f64"),
        not vector and tile.bk and _whole(q, tile, splits, chunk),
        q.blocks and Blocks(q.blocks.format, q.blocks.dtype), scales, caps,
    )  # fmt: skip
    words = [q.m, q.n, q.k, q.inner, tiles_m, tiles_n, total, splits, chunk]
    words += words_of(q.a, a_class) + words_of(q.b, b_class) + words_of(target, store)
    words.append(batch * q.m * q.n // (4 if store == "v" else 1))
    tail = b""
    operands = {"a": "a", "b": "b"} if q is product else {"a": "b", "b": "a"}
    steps, work, more = units.powers(q, operands, caps) if scales else ([], {}, [])
    words += more
    bindings = [*operands.values(), *(("s",) if q.blocks else ()), *work]
    if epilogue != "none":
        tail = scalar_bytes(q, epilogue, carry)
        words += [word for x in q.finishing for word in words_of(x)]
        bindings += q.finishers[1]
    params = packed(words) + tail
    if q.gather:
        params += packed(q.gather.words())
    if q.blocks:
        params += packed(q.blocks.words())
    groups = total if vector or tile.bk else -(-total // WORKGROUP[caps.kind])
    bindings.append("part" if splits > 1 else "out")
    steps.append(Step(program, params, spread(groups, caps), tuple(bindings)))
    if splits > 1:
        work["part"] = splits * batch * q.m * q.n * SUMS[carry].size
        steps.append(_finish(product, splits, batch, carry, caps))
    return Plan(tuple(steps), work)


def _parts(q: Product, straight: bool, carry: str) -> Matrix:
    """Partial sums: laid out as a contiguous output, one after the other."""
    step, size = (q.n, 1) if straight else (1, q.m), q.m * q.n
    return Matrix(SUMS[carry], 0, *step, size * (1 if q.summed else q.inner), 0 if q.summed else size)


def _few(q: Product, a_class: str, b_class: str, caps: Caps) -> tuple[str, str, few_rows.Lay, int]:
    """How few rows are multiplied: the classes of operands, how threads lie, and workgroups along n."""
    rows = _power(q.m)
    a_class, b_class = few_rows.classes(q, a_class, b_class)
    lay = few_rows.lay(b_class, rows, q.n, q.k, caps)
    return a_class, b_class, lay, -(-q.n // lay.columns)


def _tile(q: Product, classes: str, caps: Caps) -> tuple[Tile | None, int]:
    """The tile, None for the kernel of few rows; and into how many parts k is cut, 0 where that follows the grid."""
    batch = q.outer * (1 if q.summed else q.inner)
    if caps.kind == "gpu":
        if q.gather and q.m <= 8:
            return Tile(_power(q.m), 4, 0, _power(q.m), 4), 0  # few channels a group: nothing to share between threads
        if few_rows.serves(q, caps):
            return None, 0
        rows = _rows(q, classes, caps, tiles.tuning().tiles)
        depth = q.k * q.inner if q.summed else q.k
        _, tile, parts = tiles.choose(rows, q.m, q.n, depth, batch)
        return tile, 0 if q.summed else parts
    work = q.outer * q.inner * q.m * q.n * q.k
    rows = [t for t in tiles.CPU if t.bm <= _power(q.m) and (t.bm < 16 or work >= LARGE)]
    for tile in rows[:-1]:
        if batch * -(-q.m // tile.bm) * -(-q.n // tile.bn) >= SPLIT["cpu"][0]:
            return tile, 0
    return rows[-1], 0


def _rows(q: Product, classes: str, caps: Caps, rows: tuple[Tile, ...]) -> list[Tile]:
    """Those of a table's tiles that a product can have."""
    found = [t for t in rows if tiles.fits(t, caps) and not (q.summed and t.slices > 1)] or [tiles.LEAST]
    if set(classes) - {"k", "r", "q"}:
        # Addresses of single elements take the registers that a large tile of a thread needs.
        found = [t for t in found if t.tm * t.tn <= 64] or found
    return found


def _power(n: int) -> int:
    """The least power of two that is not less than n."""
    return 1 << (n - 1).bit_length()


def _splits(q: Product, parts: int, groups: int, fill: tuple[int, int]) -> tuple[int, int]:
    """How many parts the sum is cut into, and the length of one: of k, or of the summed batch."""
    length = q.inner if q.summed else q.k
    weight = q.k if q.summed else 1
    if not parts:
        enough, least = fill
        parts = max(1, min(-(-enough // groups), length // max(1, least // weight)))
    # A thread may step by single elements at the end of each row of k.
    most = max(1, (MAX_STEPS * 2 - (MAX_AGAIN if q.gather else 0)) // weight)
    parts = max(parts, -(-length // most))
    chunk = max(1, -(-length // parts))
    if not q.summed:
        chunk = -(-chunk // 64) * 64  # whole tiles, whole vectors
    return -(-length // chunk), chunk


def _whole(q: Product, tile: Tile, splits: int, chunk: int) -> bool:
    """No tile of any team passes the end of k."""
    depth = tile.bk * tile.slices
    return q.k % depth == 0 and (splits == 1 or q.summed or chunk % depth == 0)


_HEAD = ["m", "n", "k", "inner", "tiles_m", "tiles_n", "total", "splits", "chunk"]


@cache
def _program(
    kind, a_dtype, b_dtype, out_dtype, finishers, a_class, b_class, store, epilogue, act, tile, summed, flat, repairs,
    whole, blocks, scales, caps,
) -> Program:  # fmt: skip
    carry, gather = carrier(a_dtype, caps), b_class in "gtuw"
    more, functions = epilogue_text(epilogue, act, carry, finishers, caps)
    fields = [*_HEAD, *(f"{x}_{s}" for x in "ab" for s in ("o", "r", "k", "b", "i"))]
    fields += [f"o_{s}" for s in ("o", "m", "n", "b", "i", "s")]
    fields += [*(f"e{x}_{s}" for x in scales for s in "bi"), *more]
    fields += [*(GATHER_FIELDS if gather else ()), *(formats.FIELDS if blocks else ())]
    dtypes = {"a": a_dtype, "b": b_dtype}
    bindings = [(f"{x}_in", "read", array_of(dtypes[x], c, caps)) for x, c in (("a", a_class), ("b", b_class))]
    if blocks:
        bindings[1:] = formats.bindings(blocks, caps)
    bindings += [(f"e{x}_in", "read", "array<f32>") for x in scales]
    bindings += finisher_bindings(finishers, caps)
    bindings.append(("out", "read_write", elements.array_type(out_dtype, store, caps)))
    words = replace(caps, f16=False) if b_class in "8o" else caps
    half = units.halves(dtypes, blocks) if kind == "units" else ""
    if kind == "few_rows":
        rows, lay = tile
        names = few_rows.names(lay, rows, b_class, caps)
        names["widened"] = lambda x, word, half: _widened(dtypes[x], word, half, caps)
        tag = f"v{rows}"
    else:
        names = dict(t=tile, workgroup=WORKGROUP[caps.kind], wide=carry not in ("f32", "i32"), gather=gather, flat=flat)
        names |= dict(repairs=repairs, turns=MAX_AGAIN if caps.kind == "cpu" else 0)
        names |= dict(whole=whole, halving=halvings(tile.slices))
        names |= units.registers(half, wgsl_type(carry), literal(0, carry))
        tag = f"{tile.bm}x{tile.bn}" + (f"x{tile.slices}" if tile.slices > 1 else "")
    if kind == "units":
        names |= units.names(tile, half, scales, caps)
        tag = f"units_{tag}"
    if blocks:
        names |= formats.names(blocks, caps)
        tag = f"{blocks.format}_{blocks.dtype.short}_{tag}"
    operands = f"{a_dtype.short}{a_class}_{b_dtype.short}{b_class}_{out_dtype.short}{store}"
    return render_program(
        f"matmul_{tag}_{operands}_{epilogue_name(epilogue, act)}", f"matmul/{kind}.wgsl", fields, bindings, caps,
        declarations=[*elements.wideners((a_dtype, b_dtype), words), *functions],
        type=wgsl_type(carry), zero=literal(0, carry), finishes=bool(functions),
        a_class=a_class, b_class=b_class, store=store, summed=summed,
        read=lambda x, at: f"{x}_in[{at}]" if x in half else elements.read(dtypes[x], f"{x}_in", at, caps),
        read4=lambda x, at: f"{x}_in[{at}]" if x in half else elements.widened(dtypes[x], f"{x}_in[{at}]", caps),
        write=lambda at, value: elements.write(out_dtype, "out", at, value, caps),
        write4=lambda at, lanes: " ".join(elements.write4(out_dtype, "out", at, lanes, caps)),
        mad=lambda acc, a, b: _mad(carry, acc, a, b, caps),
        **names,
    )  # fmt: skip


def _widened(dtype: DType, word: str, half: str, caps: Caps) -> str:
    """What was read of an operand along k, or half of eight elements of it, as a vector of carriers."""
    return f"widen_{dtype.short}({word}.{half})" if half else elements.widened(dtype, word, caps)


def _mad(carry: str, acc: str, a: str, b: str, caps: Caps) -> str:
    emitter = Emitter(dict.fromkeys(("acc", "a", "b"), carry), {"acc": acc, "a": a, "b": b}, caps.i64)
    return f"{acc} = {emitter.expression('acc + a * b', carry)};"


def _finish(product: Product, splits: int, batch: int, carry: str, caps: Caps) -> Step:
    """The sum of a split's parts, with the epilogue."""
    epilogue = epilogue_key(product)
    dtypes, names = product.finishers
    count = batch * product.m * product.n
    vector = count % 4 == 0 and carry in ("f32", "i32")
    program = _finish_program(product.out.dtype, dtypes, epilogue, product.act, carry, vector, caps)
    inner = 1 if product.summed else product.inner
    words = [product.m, product.n, inner, count, splits, product.out.offset // 4]
    words += [word for x in product.finishing for word in words_of(x)]
    params = packed(words) + scalar_bytes(product, epilogue, carry)
    return Step(program, params, spread(-(-count // 256), caps), ("part", *names, "out"))


@cache
def _finish_program(out_dtype, finishers, epilogue, act, carry, vector, caps) -> Program:
    part = SUMS[carry]
    more, functions = epilogue_text(epilogue, act, carry, finishers, caps)
    bindings = [("part", "read", elements.array_type(part, "v" if vector else "e", caps))]
    bindings += finisher_bindings(finishers, caps)
    bindings.append(("out", "read_write", elements.array_type(out_dtype, "v", caps)))
    return render_program(
        f"matmul_finish_{carry}_{out_dtype.short}_{epilogue_name(epilogue, act)}", "matmul/finish.wgsl",
        ["m", "n", "inner", "count", "splits", "o_o", *more], bindings, caps, declarations=functions,
        type=wgsl_type(carry), zero=literal(0, carry), finishes=bool(functions), vector=vector,
        add=Emitter({"x": carry, "y": carry}, {}, caps.i64).expression("x + y", carry),
        read=elements.read(part, "part", "at", caps),
        write4=" ".join(elements.write4(out_dtype, "out", "g + p.o_o", ["r0", "r1", "r2", "r3"], caps)),
    )  # fmt: skip
