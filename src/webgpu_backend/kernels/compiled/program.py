"""Programs of a compiler's text: elementwise work, four elements to a turn, and reductions of rows."""

from dataclasses import dataclass
from functools import cache
from struct import Struct

from ...dtypes import Unsupported
from ...program import Caps, Program, Step
from ..layout import GROUPS, WORKGROUP, spread
from ..text.render import render_program
from . import access
from .access import Operand, Place

TILE = 32  # the side of a square that a workgroup walks, four elements to a thread
_MOST_BYTES = 256  # of parameters


@dataclass(frozen=True)
class Source:
    """What a kernel computes. `sizes` are parameters that a call brings along, whole numbers or `name: f32`; `count`
    gives the elements (or rows) of a call, a number or the name of a size.

    `functions` are what its text calls beside the library. Elementwise text is `body` for one `xindex`, after `loads`
    of four elements and before `stores` of four, or for one element a turn (`fours` is false). A reduction's `body` is
    all of it: `loops` over `length` elements, a number or the name of a size, which are neighbours in memory `along`
    the row or across rows.
    """

    name: str
    operands: tuple[Operand, ...]
    sizes: tuple[str, ...]
    count: int | str
    body: str
    functions: str = ""
    loads: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    fours: bool = True
    whole: bool = False
    guarded: bool = False
    reduction: bool = False
    length: int | str = 1
    along: bool = True
    loops: int = 1
    tile: tuple[int, int, int] | None = None
    """Workgroups walk squares of two dimensions: the sizes of the inner one, of a step along the other, and of that."""
    kept: int = 0  # threads of a row that keep their elements from one loop to the next, a constant number of them
    joins: tuple = ()  # names of the states that a row's threads join, each with its fields and their types


@dataclass(frozen=True)
class Kernel:
    """A program for buffers that lie in given places, and how its parameters are laid out."""

    program: Program
    bound: tuple[int, ...]  # the operand that each binding shows
    pack: Struct
    offsets: tuple[int, ...]  # operands whose offset is among the parameters
    share: int  # elements or rows of a workgroup

    def step(self, caps: Caps, count: int, sizes: tuple, offsets: list[int], site: tuple) -> Step:
        values = [*sizes, *[offsets[i] for i in self.offsets], *site]
        return Step(self.program, self.pack.pack(*values), spread(-(-count // self.share), caps))


_SHARE = {"gpu": (16, 16), "cpu": (512, 4096)}  # elements of a row for each of its threads, along and across
_MOST_TURNS = 50_000  # a software driver silently leaves a thread's loops after 65,535 of them


_LOADS = {True: 20, False: 8}  # of four elements, which a thread has on their way at the same time; see `lanes_kept`
_BUSY = 65536  # threads that fill a GPU


def longest_kept(once: bool, caps: Caps) -> int:
    """The longest row that a workgroup keeps in registers."""
    return 4 * _LOADS[True] * WORKGROUP[caps.kind] if once else 4096


def lanes_kept(length: int, rows: int, once: bool, caps: Caps) -> int:
    """How many threads share a row whose elements lie side by side, each with a constant number of them, the same for
    all where that may be. Rows that are walked `once` are bound by loads: many to a thread, and few threads to join."""
    most = 1
    while most < WORKGROUP[caps.kind] and most * _SHARE[caps.kind][0] < length:
        most *= 2
    options = [most >> n for n in range(8) if (most >> n) * 4 * _LOADS[once] >= length] or [most]
    even = [n for n in options if length % (4 * n) == 0] or options
    enough = [n for n in even if once and n >= caps.lanes and n * rows >= _BUSY]
    return min(enough, default=max(even))


def lanes_of(source: Source, count: int, length: int, caps: Caps) -> int:
    """How many threads share a row, of `count` that have `length` elements."""
    if source.kept:
        return source.kept
    most, share = WORKGROUP[caps.kind], _SHARE[caps.kind][not source.along]
    lanes = 1
    while lanes < most and lanes * share < length and (source.along or lanes * count < 65536):
        lanes *= 2
    if not source.along and count >= 16:
        lanes = min(lanes, most // 16)
    if caps.kind == "cpu":
        while source.loops * length > lanes * _MOST_TURNS:
            lanes *= 2
        if lanes > most:
            raise Unsupported(f"webgpu: a compiled reduction of {length} elements on a software adapter")
    return lanes


_SHUFFLED = ("f32", "i32", "u32")


def _near(source: Source, lanes: int, caps: Caps) -> int:
    """How many neighbours of a row's threads join without memory."""
    types = [t for _, fields in source.joins for _, t in fields]
    if not caps.subgroups or not source.along or any([t not in _SHUFFLED for t in types]):
        return 1
    return min(lanes, caps.lanes or 1)


@cache
def kernel(source: Source, places: tuple[Place, ...], lanes: int, caps: Caps) -> Kernel:
    """The kernel of a source over operands in these places, with so many threads to a row."""
    operands = source.operands
    bindings, functions, bound = [], [], []
    for number in range(1 + max([p.binding for p in places])):
        own = [i for i, p in enumerate(places) if p.binding == number]
        mode = access.mode_of([operands[i] for i in own], [places[i] for i in own], caps)
        written = any([operands[i].written for i in own])
        kind = access.array_type(operands[own[0]].dtype, mode, caps)
        bindings.append((f"memory_{number}", "read_write" if written else "read", kind))
        bound.append(own[0])
        for i in own:
            functions += access.functions(operands[i], places[i], mode, caps)
    if len(bindings) + source.guarded > caps.max_bindings:
        raise Unsupported(
            f"webgpu: a compiled kernel over {len(bindings)} buffers, where {caps.max_bindings} can be bound"
        )
    offsets = tuple([i for i, p in enumerate(places) if p.offset])
    sizes = [s if ":" in s else f"{s}: i32" for s in source.sizes]
    fields = [*sizes, *[f"{operands[i].name}_o: u32" for i in offsets]]
    fields += ["site: u32"] if source.guarded else []
    pack = Struct(
        "<" + "".join(["f" if s.endswith("f32") else "i" for s in sizes]) + "I" * (len(offsets) + source.guarded)
    )
    if pack.size > _MOST_BYTES:
        raise Unsupported("webgpu: a compiled kernel with too many sizes")
    threads = WORKGROUP[caps.kind]
    groups = GROUPS[caps.kind] if not source.reduction and not source.tile else 1
    if source.tile:
        threads = TILE * TILE // 4
    program = render_program(
        source.name,
        "compiled/reduction.wgsl" if source.reduction else "compiled/pointwise.wgsl",
        fields or ["unused"],
        bindings,
        caps,
        guarded=source.guarded,
        accessors=functions,
        source=source,
        lanes=lanes,
        tile=TILE,
        near=_near(source, lanes, caps),
        count=source.count if isinstance(source.count, int) else f"p.{source.count}",
        body=source.body.split("\n"),
        workgroup=threads,
        groups=groups,
    )  # fmt: skip
    if not fields:
        pack = Struct("<4x")
    if source.tile:
        return Kernel(program, tuple(bound), pack, offsets, TILE * TILE)
    share = threads // lanes if source.reduction else threads * groups * (4 if source.fours else 1)
    return Kernel(program, tuple(bound), pack, offsets, share)
