"""Stable sorting of rows: blocks are sorted in workgroup memory (or registers), then merged pairwise. Elements travel
as keys of one or two words with their index; `kernels/wgsl/sort.wgsl` says how values become keys."""

from functools import cache
from struct import Struct

from ..dtypes import UINT64, DType, Unsupported
from ..program import Caps, Program
from .indexed import operands
from .layout import spread
from .render import render

WORKGROUP = {"gpu": 256, "cpu": 16}
SPAN = {"gpu": 4, "cpu": 64}  # elements that a thread merges
REGISTERS = 8
LONGEST = 8192  # a sort of at most so many elements leaves equal values as std::sort does
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
    each, most = (32, 256) if caps.kind == "cpu" else (8, 512)
    team = 8
    while team * each < length and team < most:
        team *= 2
    return min(team, caps.workgroup_size)


def grid_of(groups: int, kind: str, caps: Caps) -> tuple[int, int, int]:
    return spread(groups if kind in ("block", "quick") else -(-groups // WORKGROUP[caps.kind]), caps)


@cache
def program(kind: str, source: DType | None, key_words: int, block: int, caps: Caps) -> tuple[Program, Struct]:
    """`source`: the dtype to make keys of; None: pairs come from an earlier pass."""
    reads = (("a", raw(source)),) if source is not None else ()
    head, access, packer = operands(reads, (), "", FIELDS, caps)
    pair = "vec2<u32>" if key_words == 1 else "vec4<u32>"
    if source is None:
        head += f"@group(0) @binding(0) var<storage, read> b_pairs: array<{pair}>;\n"
    head += f"@group(0) @binding(1) var<storage, read_write> b_out: array<{pair}>;\n"
    if kind == "quick":
        head += f"@group(0) @binding(2) var<storage, read_write> b_work: array<{pair}>;\n"
    key = "" if source is None else "f64" if source.name == "float64" else source.carrier
    workgroup = min(block // 2, WORKGROUP["gpu"]) if kind == "block" else WORKGROUP[caps.kind]
    template = "sort.wgsl"
    if kind == "quick":
        template, workgroup = "sort_quick.wgsl", block
    text = render(
        template, caps, head=head, kind=kind, key=key, words=key_words, source=source is not None, block=block,
        workgroup=workgroup, longest=LONGEST, network=_NETWORK, **access,
    )  # fmt: skip
    name = f"sort_{kind}{block}_{source.short if source else f'pairs{key_words}'}"
    return Program(name, text, "rww" if kind == "quick" else "rw", packer.size), packer
