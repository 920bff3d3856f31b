"""Stable sorting of rows: blocks are sorted in workgroup memory (or registers), then merged pairwise; a GPU sorts long
rows by digits of eight bits instead. Elements travel as keys of one or two words with their index;
`element.wgsl` says how values become keys."""

from functools import cache

from ...dtypes import INT64, UINT16, UINT32, UINT64, DType, Unsupported
from ...program import Caps, Step
from ..text import by_index
from ..text.by_index import Kernel, interface
from ..text.render import render_program

WORKGROUP = {"gpu": 256, "cpu": 16}
SPAN = {"gpu": 4, "cpu": 64}  # elements that a thread merges
REGISTERS = 8
LONGEST = 8192
QUICK = {"gpu": 128, "cpu": LONGEST}  # a sort of at most so many elements leaves equal values as std::sort does
SPLIT = 63  # segments that a thread splits alone
SHORT = 63  # rows that are selected from by the CPU's own algorithm, which is another one from 64 on
FEW = 17  # of which so many are sorted by insertion
FIELDS = ("groups", "blocks", "length", "inner", "flip", "stride", "keep", "width", "span")
_NETWORK = (
    (0, 1), (2, 3), (4, 5), (6, 7), (0, 2), (1, 3), (4, 6), (5, 7), (1, 2), (5, 6), (0, 4), (1, 5), (2, 6), (3, 7),
    (2, 4), (3, 5), (1, 2), (3, 4), (5, 6),
)  # fmt: skip


def words(dtype: DType) -> int:
    """Key words of a dtype."""
    if dtype.name == "complex64":
        raise Unsupported("webgpu: complex values have no order")
    return 2 if dtype.size == 8 else 1


def stored(dtype: DType) -> DType:
    """How values are read: float64 is only moved and its bits compared, so every adapter can sort it."""
    return UINT64 if dtype.name == "float64" else dtype


def _key(dtype: DType) -> str:
    """The carrier whose values become keys."""
    return "f64" if dtype.name == "float64" else dtype.carrier


def _pairs(key_words: int) -> str:
    """An array of keys with their indices."""
    return "array<vec2<u32>>" if key_words == 1 else "array<vec4<u32>>"


def block_for(length: int, key_words: int, caps: Caps) -> int:
    """Elements that the first pass sorts."""
    if caps.kind == "cpu" or length <= REGISTERS:
        return REGISTERS
    largest = 1024 if key_words == 1 else 512
    return next((b for b in (64, 256) if length <= b), largest)


def team_for(length: int, caps: Caps) -> int:
    """Threads that sort a row as std::sort does: none has more than 32 elements."""
    each, most = (32, 256) if caps.kind == "cpu" else (1, 512)
    team = 8
    while team * each < length and team < most:
        team *= 2
    return min(team, caps.workgroup_size)


def capacity(dtype: DType, length: int, caps: Caps) -> int:
    """Elements for which there is room in workgroup memory, in a word each; 0: they stay in a buffer."""
    if dtype.size > 2:
        return 0
    return next((c for c in (1024, 4096, LONGEST) if length <= c and 4 * c + 8192 <= caps.workgroup_bytes), 0)


def plan_quick(source: DType, rows: int, length: int, inner: int, flip: int, offset: int, caps: Caps) -> Step:
    """Rows of `source` sorted by a team of threads each, as std::sort does it. Binds the values, the pairs, and where
    there is no room in workgroup memory, work of the pairs' size."""
    kernel = _quick(source, team_for(length, caps), capacity(source, length, caps), caps)
    return kernel.step(caps, rows, 1, length, inner, flip, length, 0, 0, 0, offset)


@cache
def _quick(source: DType, team: int, capacity: int, caps: Caps) -> Kernel:
    bits = {"float16": UINT16, "bfloat16": UINT16}.get(source.name, source) if capacity else stored(source)
    face = interface((("a", bits),), (), "", FIELDS, caps)
    names = ("b_out",) if capacity else ("b_out", "b_work")
    program = render_program(
        f"sort_quick{team}_{capacity}_{source.short}", "sort/quick.wgsl", face.fields,
        [*face.bindings, *((name, "read_write", _pairs(words(source))) for name in names)], caps,
        kind="quick", source=True, words=words(source), workgroup=team, key=_key(source), packed=bool(capacity),
        capacity=capacity, infinity={"float16": 0x7C00, "bfloat16": 0x7F80}.get(source.name, 0),
        signed=source.name in ("int8", "int16"), longest=LONGEST, short=SPLIT, most=LONGEST // (SPLIT + 1) + 1,
        **face.accessors,
    )  # fmt: skip
    return Kernel(program, face.pack, 1)


RADIX = 1 << 19  # rows of at least so many elements are sorted by digits
BLOCKS = 256  # workgroups of a pass, or a few more
LEAST = 2048  # elements of a block
RADIX_FIELDS = ("groups", "blocks", "length", "inner", "flip", "span", "shift", "turn")


def digits(dtype: DType) -> range:
    """The first bits of the digits in which keys of a dtype differ."""
    first, last = {"float16": (8, 32), "bfloat16": (16, 32), "uint8": (0, 8), "bool": (0, 8), "uint16": (0, 16)}.get(
        dtype.name, (0, 32 * words(dtype))
    )
    return range(first, last, 8)


def by_digits(rows: int, length: int, caps: Caps) -> tuple[int, int] | None:
    """Blocks of a row and their elements where a GPU sorts by digits."""
    if caps.kind != "gpu" or not caps.subgroups or caps.workgroup_size < 512 or length < RADIX:
        return None
    span = max(-(-length * rows // BLOCKS), LEAST)
    return -(-length // span), span


def plan_radix(
    kind: str, source: DType, rows: int, length: int, inner: int, flip: int, blocks: int, span: int, shift: int,
    turn: int, offset: int, caps: Caps,
) -> Step:  # fmt: skip
    """A pass of a sort by digits: `count` and `scatter` for the digit at `shift`, pass number `turn`, and `settle`
    after all of them. Binds the values, two buffers of pairs, flags of the passes, and (but to settle) counts."""
    groups = rows * length if kind == "settle" else rows * blocks
    return _radix(kind, source, caps).step(caps, groups, blocks, length, inner, flip, span, shift, turn, offset)


@cache
def _radix(kind: str, source: DType, caps: Caps) -> Kernel:
    face = interface((("a", stored(source)),), (), "", RADIX_FIELDS, caps)
    access = "read_write" if kind == "count" else "read"
    bindings = [*face.bindings, *((name, "read_write", _pairs(words(source))) for name in ("b_one", "b_two"))]
    bindings.append(("b_flags", access, "array<u32>"))
    if kind != "settle":
        bindings.append(("b_counts", access, "array<u32>" if kind == "count" else "array<vec4<u32>>"))
    program = render_program(
        f"sort_{kind}_{source.short}", "sort/radix.wgsl", face.fields, bindings, caps,
        kind=kind, key=_key(source), words=words(source), source=True, **face.accessors,
    )  # fmt: skip
    return Kernel(program, face.pack, 256 if kind == "settle" else 1)


def plan(kind: str, source: DType | None, key_words: int, block: int, numbers: tuple[int, ...], caps: Caps) -> Step:
    """One pass over rows. `numbers` are those of FIELDS, and the offset of the values where keys are made of them;
    without a `source` pairs come from an earlier pass. Binds what is read, and pairs."""
    return _kernel(kind, source, key_words, block, caps).step(caps, *numbers)


@cache
def _kernel(kind: str, source: DType | None, key_words: int, block: int, caps: Caps) -> Kernel:
    face = interface((("a", stored(source)),) if source is not None else (), (), "", FIELDS, caps)
    pairs = _pairs(key_words)
    bindings = face.bindings if source is not None else [("b_pairs", "read", pairs)]
    workgroup = min(block // 2, WORKGROUP["gpu"]) if kind == "block" else WORKGROUP[caps.kind]
    program = render_program(
        f"sort_{kind}{block}_{source.short if source else f'pairs{key_words}'}", "sort/sort.wgsl", face.fields,
        [*bindings, ("b_out", "read_write", pairs)], caps,
        kind=kind, key="" if source is None else _key(source), words=key_words, source=source is not None, block=block,
        workgroup=workgroup, network=_NETWORK, **face.accessors,
    )  # fmt: skip
    return Kernel(program, face.pack, 1 if kind == "block" else workgroup)


def kernel_of_values(kind: str, dtype: DType, caps: Caps) -> Kernel:
    """The values and indices that sorted pairs of a dtype stand for: `take`, or of one of each row (`median` and
    `nanmedian`)."""
    floating = dtype.carrier in ("f32", "f64")
    return by_index.kernel(
        f"sort_{kind}",
        "sort/take.wgsl",
        (("a", stored(dtype)), ("pairs", UINT32)),
        (("values", stored(dtype)), ("indices", INT64)),
        ("length", "inner", "stride", "count", "first"),
        caps,
        names=(("kind", kind), ("words", words(dtype)), ("floating", floating), ("index_dtype", INT64)),
    )
