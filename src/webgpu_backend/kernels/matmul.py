"""Matrix multiplication: which kernel, tile and split a product gets, and its parameters. Integers and text only.

Both operands are seen as rows of length k: `a` has m rows, `b` has n rows (the columns of the right-hand matrix).
A row-major and a transposed operand differ only in their strides, so neither is ever copied.
"""

from dataclasses import dataclass
from functools import cache
from struct import pack
from typing import NamedTuple

from ..dtypes import COMPLEX64, FLOAT32, FLOAT64, INT32, INT64, DType, carrier
from ..program import Caps, Program
from . import elements
from .expression import Emitter, literal, wgsl_type
from .layout import spread
from .pointwise import PACKERS, _scalar_fields, _scalar_text
from .render import render


class Tile(NamedTuple):
    """A row of the tuning table. `bk` 0: no workgroup memory, each thread reads for itself."""

    bm: int  # rows of the output per workgroup (per thread without workgroup memory)
    bn: int
    bk: int  # depth of the tile in workgroup memory
    tm: int  # rows and columns per thread
    tn: int
    buffers: int = 1  # 2: the next tile is stored while this one is used
    warp: int = 4  # of 32 threads that run together, how many lie along the rows


# The tuning table: candidates by adapter class, largest first. The first tile with enough workgroups is taken.
TILES = {
    "gpu": (Tile(128, 128, 16, 8, 8), Tile(64, 64, 16, 8, 4), Tile(32, 32, 16, 4, 4)),
    "cpu": (Tile(16, 8, 0, 16, 8), Tile(8, 8, 0, 8, 8), Tile(4, 8, 0, 4, 8), Tile(1, 8, 0, 1, 8)),
}
# Enough workgroups (gpu) or threads (cpu) to fill the adapter.
ENOUGH = {"gpu": 128, "cpu": 32}
LARGE = 1 << 26  # multiplications from which the software adapter's largest tile repays its compilation (0.4 s)
# Types that no vector instruction serves: a small tile of scalars per thread.
WIDE = Tile(2, 4, 0, 2, 4)
# Outputs of few rows on a GPU: most rows; (threads along k, threads of four columns) of a workgroup.
VECTOR_ROWS = 8
VECTOR_SHAPE = {"k": (32, 4), "r": (8, 32)}
VECTOR_ENOUGH = 512  # such workgroups are short
WORKGROUP = {"gpu": 64, "cpu": 8}  # threads per workgroup of the kernel without workgroup memory
SPLIT_DEPTH = {"gpu": 256, "cpu": 2048}  # a split of k is at least this long
MAX_STEPS = 50000  # loop iterations per thread: one software driver stops at 65,535


class Matrix(NamedTuple):
    """An operand: element strides of its rows, of k (of n for outputs), and of the two batch dimensions."""

    dtype: DType
    offset: int
    row: int
    col: int
    outer: int = 0
    inner: int = 0


class Gather(NamedTuple):
    """The right operand of a convolution: an image seen through a window. Three numbers per spatial dimension.

    Its rows are output positions and k counts (channel, tap); with `kind` "t" the window moves over the output
    instead (a transposed convolution), with "w" rows are (channel, tap) and k counts positions (weight gradients).
    """

    kind: str  # g, t or w; u is t where the window moves by one
    sizes: tuple[int, int, int]  # of the image
    strides: tuple[int, int, int, int]  # of its channels and dimensions, in elements
    positions: tuple[int, int, int]
    window: tuple[int, int, int]
    step: tuple[int, int, int]
    padding: tuple[int, int, int]
    dilation: tuple[int, int, int]

    @property
    def flat(self) -> bool:
        """The outermost dimension is one tap that every position meets: nothing to check there."""
        inside = (self.positions[0] - 1) * self.step[0] < self.sizes[0]
        return self.window[0] == 1 and self.padding[0] == 0 and inside

    def words(self) -> list[int]:
        steps = (*self.step, *self.padding, *self.dilation)
        return [*self.sizes, *self.strides, *self.positions[1:], *self.window, *steps]


_GATHER = [
    "x_d", "x_h", "x_w", "xs_c", "xs_d", "xs_h", "xs_w", "pos_h", "pos_w", "win_d", "win_h", "win_w",
    "step_d", "step_h", "step_w", "pad_d", "pad_h", "pad_w", "dil_d", "dil_h", "dil_w",
]  # fmt: skip


@dataclass(frozen=True)
class Product:
    """out[o, i] = act(alpha * a[o, i] b[o, i]^T + beta * c[o, i]); with `summed`, added up over the inner batch i."""

    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    out: Matrix
    c: Matrix | None = None
    outer: int = 1
    inner: int = 1
    summed: bool = False
    alpha: object = 1
    beta: object = 1
    act: str = ""
    gather: Gather | None = None  # how to read b, whose strides then are of its batches only

    def swapped(self) -> "Product":
        """The transposed product, which is the same numbers."""
        flip = lambda x: x and x._replace(row=x.col, col=x.row)  # noqa: E731
        return Product(
            self.n, self.m, self.k, self.b, self.a, flip(self.out), flip(self.c), self.outer, self.inner, self.summed,
            self.alpha, self.beta, self.act,
        )  # fmt: skip


class Step(NamedTuple):
    """A dispatch; `bindings` names its buffers: a, b, c, out, or part (the partial sums of a split)."""

    program: Program
    bindings: tuple[str, ...]
    params: bytes
    grid: tuple[int, int, int]


class Plan(NamedTuple):
    steps: tuple[Step, ...]
    part: tuple[int, DType] | None  # elements and dtype of the partial sums


SUMS = {"f32": FLOAT32, "i32": INT32, "i64": INT64, "n64": INT64, "c64": COMPLEX64, "f64": FLOAT64}


def plan(product: Product, caps: Caps) -> Plan:
    """Plans a product with at least one output element and k > 0."""
    q = product
    carry = carrier(q.a.dtype, caps)
    wide = carry not in ("f32", "i32")
    if q.n < q.m and q.n <= VECTOR_ROWS and not q.gather:
        q = q.swapped()
    a_class = _class(q.a, q.m, q.k)
    b_class = q.gather.kind if q.gather else _class(q.b, q.n, q.k)
    if wide:
        a_class, b_class = a_class.upper(), b_class if q.gather else b_class.upper()
    tile = WIDE if wide else _tile(q, b_class, caps)
    vector = tile is None
    if not vector and not tile.bk and tile.tm < 4:
        a_class = a_class.replace("r", "R")  # fewer rows than a vector has lanes
    batch = q.outer * (1 if q.summed else q.inner)
    if vector:
        along_k, along_n = VECTOR_SHAPE[b_class.lower()]
        tiles_m, tiles_n = 1, -(-q.n // (along_n * 4))
    else:
        tiles_m, tiles_n = -(-q.m // tile.bm), -(-q.n // tile.bn)
    splits, chunk = _splits(q, tile, batch * tiles_m * tiles_n, caps)
    total = batch * splits * tiles_m * tiles_n

    epilogue = "none" if splits > 1 else _epilogue_key(q)
    target = q.out
    if splits > 1:
        # Partial sums: laid out as a contiguous output, one after the other.
        rows = (q.m, q.n)
        step = (q.n, 1) if q is product else (1, q.m)
        size = rows[0] * rows[1]
        target = Matrix(SUMS[carry], 0, *step, size * (1 if q.summed else q.inner), 0 if q.summed else size)
    store = _store_mode(target, q.n, caps)
    program = _program(
        "vector" if vector else "tiled" if tile.bk else "direct",
        q.a.dtype, q.b.dtype, target.dtype, q.c.dtype if q.c and epilogue != "none" else None,
        a_class, b_class, store, epilogue, q.act if epilogue != "none" else "",
        min(_power(q.m), VECTOR_ROWS) if vector else tile, q.summed, bool(q.gather and q.gather.flat), caps,
    )  # fmt: skip
    words = [q.m, q.n, q.k, q.inner, tiles_m, tiles_n, total, splits, chunk]
    words += _words(q.a, a_class == "k", a_class == "r") + _words(q.b, b_class == "k", b_class == "r")
    words += _words(target, store == "v", False)
    words.append(batch * q.m * q.n // (4 if store == "v" else 1))
    tail = b""
    bindings = ["a", "b"] if q is product else ["b", "a"]
    if epilogue != "none":
        tail = _scalars(q, epilogue, carry)
        if q.c is not None:
            words += _words(q.c, False, False)
            bindings.append("c")
    params = pack(f"<{len(words)}I", *words) + tail
    if q.gather:
        params += pack(f"<{len(_GATHER)}I", *q.gather.words())
    groups = total if vector or tile.bk else -(-total // WORKGROUP[caps.kind])
    bindings.append("part" if splits > 1 else "out")
    steps = [Step(program, tuple(bindings), params, spread(groups, caps))]
    part = None
    if splits > 1:
        part = (splits * batch * q.m * q.n, SUMS[carry])
        steps.append(_finish(product, splits, batch, carry, caps))
    return Plan(tuple(steps), part)


def _class(x: Matrix, rows: int, k: int) -> str:
    """k or r: four elements at once along k or along the rows; K or R: one by one, neighbours along k or rows."""
    batches = x.outer % 4 == 0 and x.inner % 4 == 0 and x.offset % 4 == 0
    if x.col == 1 and k % 4 == 0 and batches and (x.row % 4 == 0 or rows == 1):
        return "k"
    if x.row == 1 and rows % 4 == 0 and batches and (x.col % 4 == 0 or k == 1):
        return "r"
    return "K" if x.col <= x.row or rows == 1 else "R"


def _tile(q: Product, b_class: str, caps: Caps) -> Tile | None:
    batch = q.outer * (1 if q.summed else q.inner)
    if caps.kind == "cpu":
        work = q.outer * q.inner * q.m * q.n * q.k
        large = work >= (LARGE // 4 if q.gather else LARGE)  # more rows share what a gather costs
        choices = [t for t in TILES["cpu"] if t.bm <= _power(q.m) and (t.bm < 16 or large)]
    else:
        if q.gather and q.m <= 8:
            return Tile(_power(q.m), 4, 0, _power(q.m), 4)  # few channels a group: nothing to share between threads
        if q.m <= VECTOR_ROWS and not q.summed and q.k >= 64:
            return None
        choices = [t for t in TILES["gpu"] if _fits(t, caps)]
    for tile in choices[:-1]:
        if batch * -(-q.m // tile.bm) * -(-q.n // tile.bn) >= ENOUGH[caps.kind]:
            return tile
    return choices[-1]


def _fits(tile: Tile, caps: Caps) -> bool:
    threads = (tile.bm // tile.tm) * (tile.bn // tile.tn)
    return threads <= caps.workgroup_size and tile.buffers * 4 * tile.bk * (tile.bm + tile.bn) <= caps.workgroup_bytes


def _power(n: int) -> int:
    """The least power of two that is not less than n."""
    return 1 << (n - 1).bit_length()


def _splits(q: Product, tile: Tile | None, groups: int, caps: Caps) -> tuple[int, int]:
    """How many parts the sum is cut into, and the length of one: of k, or of the summed batch."""
    length = q.inner if q.summed else q.k
    weight = q.k if q.summed else 1
    wanted = -(-(ENOUGH[caps.kind] if tile else VECTOR_ENOUGH) // groups)
    depth = max(1, SPLIT_DEPTH[caps.kind] // weight)
    parts = max(1, min(wanted, length // depth))
    most = max(1, MAX_STEPS * 2 // weight)  # a thread may step by single elements at the end of each row of k
    parts = max(parts, -(-length // most))
    chunk = max(1, -(-length // parts))
    if not q.summed:
        chunk = -(-chunk // 64) * 64  # whole tiles, whole vectors
    return -(-length // chunk), chunk


def _store_mode(out: Matrix, n: int, caps: Caps) -> str:
    batches = out.outer % 4 == 0 and out.inner % 4 == 0 and out.offset % 4 == 0
    if out.col == 1 and n % 4 == 0 and out.row % 4 == 0 and batches:
        return "v"
    return elements.element_mode(out.dtype, caps, written=True)


def _words(x: Matrix, along_col: bool, along_row: bool) -> list[int]:
    """Offset and strides as the kernel counts them: in groups of four where it reads such groups."""
    unit = 4 if along_col or along_row else 1
    row = x.row if along_row else x.row // unit
    col = x.col if along_col else x.col // unit
    return [x.offset // unit, row, col, x.outer // unit, x.inner // unit]


def _epilogue_key(q: Product) -> str:
    if q.c is None:
        return "scaled" if q.alpha != 1 else "plain"
    return "bias_scaled" if q.alpha != 1 or q.beta != 1 else "bias"


def _scalars(q: Product, epilogue: str, carry: str) -> bytes:
    if not epilogue.endswith("scaled"):
        return b""
    return PACKERS[carry](q.alpha) + (PACKERS[carry](q.beta) if q.c is not None else b"")


_HEAD = ["m", "n", "k", "inner", "tiles_m", "tiles_n", "total", "splits", "chunk"]
_ACTS = {"": "", "relu": "max(r, 0.0)", "gelu": "0.5 * r * (1.0 + erf(r * 0.7071067811865476))"}


def _epilogue(epilogue: str, act: str, carry: str, c_dtype: DType | None, caps: Caps):
    """Parameter fields and the function that finishes one element."""
    if epilogue == "none":
        return [], [], ""
    fields, texts, types = [], {}, {"v": carry}
    if c_dtype is not None:
        fields += [f"c_{s}: u32" for s in ("o", "m", "n", "b", "i")]
        types["c"] = carry
    names = ["alpha"] + (["beta"] if c_dtype is not None else []) if epilogue.endswith("scaled") else []
    for name in names:
        fields += _scalar_fields(name, carry)
        texts[name] = _scalar_text(name, carry)
        types[name] = carry
    source = {
        "plain": "v",
        "scaled": "v * alpha",
        "bias": "v + c",
        "bias_scaled": "v * alpha + c * beta",
    }[epilogue]
    if act:
        source = f"r = {source}\n{_ACTS[act]}"
    body = Emitter(types, texts, caps.i64).program(source, [("out0", carry)])
    lines = []
    if c_dtype is not None:
        lines = ["let at = p.c_o + m * p.c_m + n * p.c_n + ob * p.c_b + ib * p.c_i;"]
        lines.append(f"let c = {elements.read(c_dtype, 'c_in', 'at', caps)};")
    if epilogue == "plain" and not act:
        return [], "", ""
    function = "\n    ".join([*lines, *body, "return out0;"])
    t = wgsl_type(carry)
    return fields, function, f"fn epilogue(v: {t}, m: u32, n: u32, ob: u32, ib: u32) -> {t}"


@cache
def _program(
    kind, a_dtype, b_dtype, out_dtype, c_dtype, a_class, b_class, store, epilogue, act, tile, summed, flat, caps
) -> Program:
    carry = carrier(a_dtype, caps)
    fields = [f"{f}: u32" for f in _HEAD]
    fields += [f"{x}_{s}: u32" for x in "ab" for s in ("o", "r", "k", "b", "i")]
    fields += [f"o_{s}: u32" for s in ("o", "m", "n", "b", "i", "s")]
    more, function, signature = _epilogue(epilogue, act, carry, c_dtype, caps)
    fields += more
    if b_class in "gtuw":
        fields += [f"{f}: u32" for f in _GATHER]
    bindings = [
        ("a_in", "read", elements.array_type(a_dtype, _decl(a_class), caps)),
        ("b_in", "read", elements.array_type(b_dtype, _decl(b_class), caps)),
    ]
    if c_dtype is not None:
        bindings.append(("c_in", "read", elements.array_type(c_dtype, "e", caps)))
    bindings.append(("out", "read_write", elements.array_type(out_dtype, "v" if store == "v" else store, caps)))
    names = dict(
        fields=fields, bindings=bindings, carrier=carry, type=wgsl_type(carry), zero=literal(0, carry),
        function=function, signature=signature, epilogue=epilogue, act=act, widen=_widen((a_dtype, b_dtype), caps),
        a_class=a_class, b_class=b_class, store=store, summed=summed,
        read=lambda x, at: elements.read(a_dtype if x == "a" else b_dtype, f"{x}_in", at, caps),
        read4=lambda x, at: _read4(a_dtype if x == "a" else b_dtype, f"{x}_in", at, caps),
        write=lambda at, value: elements.write(out_dtype, "out", at, value, caps),
        write4=lambda at, lanes: " ".join(elements.write4(out_dtype, "out", at, lanes, caps)),
        mad=lambda acc, a, b: _mad(carry, acc, a, b, caps),
    )  # fmt: skip
    if kind == "vector":
        along_k, along_n = VECTOR_SHAPE[b_class.lower()]
        names |= dict(rows=tile, along_k=along_k, along_n=along_n)
        tag = f"v{tile}"
    else:
        names |= dict(t=tile, workgroup=WORKGROUP[caps.kind], wide=carry not in ("f32", "i32"))
        names |= dict(gather=b_class in "gtuw", flat=flat)
        tag = f"{tile.bm}x{tile.bn}"
    wgsl = render(f"matmul_{kind}.wgsl", caps, **names)
    name = f"matmul_{tag}_{a_dtype.short}{a_class}_{b_dtype.short}{b_class}_{out_dtype.short}{store}_{epilogue}{act}"
    access = "".join("r" if x == "read" else "w" for _, x, _ in bindings)
    return Program(name, wgsl, access, 4 * len(fields))


def _decl(class_: str) -> str:
    return "v" if class_ in "kr" else "e"


def _read4(dtype: DType, var: str, group: str, caps: Caps) -> str:
    """Four elements as one vector expression; `group` is evaluated once."""
    lines, _ = elements.read4(dtype, var, group, "x", caps)
    if len(lines) == 1:
        return lines[0].removeprefix("let x = ").removesuffix(";")
    raw = lines[0].removeprefix("let x_w = ").removesuffix(";")
    return f"widen_{dtype.short}({raw})"


def _widen(dtypes, caps: Caps) -> list[str]:
    """The functions that `_read4` calls: packed words to a vector of carriers."""
    found = {}
    for dtype in dtypes:
        lines, _ = elements.read4(dtype, "b", "g", "x", caps)
        if len(lines) == 2 and lines[0].startswith("let x_w"):
            word = "vec2<u32>" if dtype.size == 2 else "u32"
            body = lines[1].removeprefix("let x = ").removesuffix(";").replace("x_w", "w")
            found[dtype.short] = f"fn widen_{dtype.short}(w: {word}) -> vec4<{dtype.carrier}> {{ return {body}; }}"
    return list(found.values())


def _mad(carry: str, acc: str, a: str, b: str, caps: Caps) -> str:
    types = {"acc": carry, "a": carry, "b": carry}
    emitter = Emitter(types, {"acc": acc, "a": a, "b": b}, caps.i64)
    line = emitter.program("acc + a * b", [("x", carry)])[-1]
    return f"{acc} = {line.removeprefix('let x = ')}"


def _finish(product: Product, splits: int, batch: int, carry: str, caps: Caps) -> Step:
    """The sum of a split's parts, with the epilogue."""
    epilogue = _epilogue_key(product)
    c = product.c
    program = _finish_program(product.out.dtype, c.dtype if c else None, epilogue, product.act, carry, caps)
    count = batch * product.m * product.n
    inner = 1 if product.summed else product.inner
    words = [product.m, product.n, inner, count, splits, product.out.offset // 4]
    if c is not None:
        words += _words(c, False, False)
    params = pack(f"<{len(words)}I", *words) + _scalars(product, epilogue, carry)
    bindings = ("part", "c", "out") if c is not None else ("part", "out")
    return Step(program, bindings, params, spread(-(-count // 256), caps))


@cache
def _finish_program(out_dtype, c_dtype, epilogue, act, carry, caps) -> Program:
    part = SUMS[carry]
    more, function, signature = _epilogue(epilogue, act, carry, c_dtype, caps)
    fields = [f"{f}: u32" for f in ("m", "n", "inner", "count", "splits", "o_o")] + more
    bindings = [("part", "read", elements.array_type(part, "e", caps))]
    if c_dtype is not None:
        bindings.append(("c_in", "read", elements.array_type(c_dtype, "e", caps)))
    bindings.append(("out", "read_write", elements.array_type(out_dtype, "v", caps)))
    add = Emitter({"x": carry, "y": carry}, {}, caps.i64).program("x + y", [("z", carry)])[-1]
    wgsl = render(
        "matmul_finish.wgsl", caps,
        fields=fields, bindings=bindings, type=wgsl_type(carry), zero=literal(0, carry), function=function, widen=(),
        signature=signature, add=add.removeprefix("let z = ").removesuffix(";"),
        read=elements.read(part, "part", "at", caps),
        write4=" ".join(elements.write4(out_dtype, "out", "g + p.o_o", ["r0", "r1", "r2", "r3"], caps)),
    )  # fmt: skip
    access = "".join("r" if x == "read" else "w" for _, x, _ in bindings)
    return Program(f"matmul_finish_{carry}_{out_dtype.short}_{epilogue}{act}", wgsl, access, 4 * len(fields))
