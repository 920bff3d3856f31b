"""Stable sorting of rows: blocks are sorted in workgroup memory (or registers), then merged pairwise; a GPU sorts long
rows by digits of eight bits instead. Elements travel as keys of one or two words with their index;
`element.wgsl` says how values become keys."""

from functools import cache
from struct import Struct

from ...dtypes import UINT16, UINT64, DType, Unsupported
from ...program import Caps, Program
from ..layout import spread
from ..text.by_index import operands
from ..text.render import render

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


def raw(dtype: DType) -> DType:
    """float64 is only moved and its bits compared, so every adapter can sort it."""
    return UINT64 if dtype.name == "float64" else dtype


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


@cache
def quick(source: DType, key_words: int, team: int, capacity: int, caps: Caps) -> tuple[Program, Struct]:
    """A row of `source` sorted by a team of threads as std::sort does it. Bindings: the values, pairs, work."""
    bits = {"float16": UINT16, "bfloat16": UINT16}.get(source.name, source) if capacity else raw(source)
    head, access, packer = operands((("a", bits),), (), "", FIELDS, caps)
    pair = "vec2<u32>" if key_words == 1 else "vec4<u32>"
    for slot, name in enumerate(("b_out",) if capacity else ("b_out", "b_work"), start=1):
        head += f"@group(0) @binding({slot}) var<storage, read_write> {name}: array<{pair}>;\n"
    text = render(
        "sort/quick.wgsl", caps, head=head, kind="quick", source=True, words=key_words, workgroup=team,
        key="f64" if source.name == "float64" else source.carrier, packed=bool(capacity), capacity=capacity,
        infinity={"float16": 0x7C00, "bfloat16": 0x7F80}.get(source.name, 0), signed=source.name in ("int8", "int16"),
        longest=LONGEST, short=SPLIT, most=LONGEST // (SPLIT + 1) + 1, **access,
    )  # fmt: skip
    name = f"sort_quick{team}_{capacity}_{source.short}"
    return Program(name, text, "rw" if capacity else "rww", packer.size), packer


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


@cache
def radix(kind: str, source: DType, caps: Caps) -> tuple[Program, Struct]:
    """`kind`: count, scatter or settle. Bindings: the values, two buffers of pairs, flags of the passes, and
    counts."""
    head, access, packer = operands((("a", raw(source)),), (), "", RADIX_FIELDS, caps)
    key = "f64" if source.name == "float64" else source.carrier
    text = render("sort/radix.wgsl", caps, head=head, kind=kind, key=key, words=words(source), source=True, **access)
    letters = {"count": "rwwww", "scatter": "rwwrr", "settle": "rwwr"}[kind]
    return Program(f"sort_{kind}_{source.short}", text, letters, packer.size), packer


def grid_of(groups: int, kind: str, caps: Caps) -> tuple[int, int, int]:
    return spread(groups if kind == "block" else -(-groups // WORKGROUP[caps.kind]), caps)


@cache
def program(kind: str, source: DType | None, key_words: int, block: int, caps: Caps) -> tuple[Program, Struct]:
    """`source`: the dtype to make keys of; None: pairs come from an earlier pass."""
    reads = (("a", raw(source)),) if source is not None else ()
    head, access, packer = operands(reads, (), "", FIELDS, caps)
    pair = "vec2<u32>" if key_words == 1 else "vec4<u32>"
    if source is None:
        head += f"@group(0) @binding(0) var<storage, read> b_pairs: array<{pair}>;\n"
    head += f"@group(0) @binding(1) var<storage, read_write> b_out: array<{pair}>;\n"
    key = "" if source is None else "f64" if source.name == "float64" else source.carrier
    workgroup = min(block // 2, WORKGROUP["gpu"]) if kind == "block" else WORKGROUP[caps.kind]
    text = render(
        "sort/sort.wgsl", caps, head=head, kind=kind, key=key, words=key_words, source=source is not None, block=block,
        workgroup=workgroup, network=_NETWORK, **access,
    )  # fmt: skip
    name = f"sort_{kind}{block}_{source.short if source else f'pairs{key_words}'}"
    return Program(name, text, "rw", packer.size), packer
