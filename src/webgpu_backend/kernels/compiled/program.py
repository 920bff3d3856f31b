"""Programs of a compiler's text: elementwise work, four elements to a turn, and reductions of rows."""

import re
from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import NamedTuple

from ...dtypes import Unsupported
from ...program import Caps, Program, Step
from ..layout import GROUPS, WORKGROUP, spread
from ..text.render import render_program, render_text
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
    asserted: tuple[str, ...] = ()  # what is said where an assertion does not hold
    reduction: bool = False
    length: int | str = 1
    along: bool = True
    loops: int = 1
    tile: tuple[int, int, int] | None = None
    """Workgroups walk squares of two dimensions: the sizes of the inner one, of a step along the other, and of that."""
    kept: int = 0  # threads of a row that keep their elements from one loop to the next, a constant number of them
    joins: tuple = ()  # names of the states that a row's threads join, each with its fields and their types
    scans: tuple = ()  # and of those that are joined in order: each thread learns what those before it have


class Part(NamedTuple):
    """A source over operands that lie in given places, with so many threads to a row."""

    source: Source
    places: tuple[Place, ...]
    lanes: int


class Piece(NamedTuple):
    """What a step does, enough to do it beside others in one dispatch: so many workgroups, and their parameters."""

    part: Part
    groups: int
    params: bytes


class Interface(NamedTuple):
    """How a part reaches its buffers and its numbers: the operand that each binding shows, bindings and functions as
    text, the fields of the parameters and their layout."""

    bound: tuple[int, ...]
    bindings: tuple[tuple[str, str], ...]  # read or read_write, and the type
    functions: tuple[str, ...]
    fields: tuple[str, ...]
    pack: Struct
    offsets: tuple[int, ...]  # operands whose offset is among the parameters


@dataclass(frozen=True)
class Kernel:
    """A program for buffers that lie in given places, and how its parameters are laid out."""

    program: Program
    part: Part
    interface: Interface
    share: int  # elements or rows of a workgroup

    @property
    def bound(self) -> tuple[int, ...]:
        return self.interface.bound

    def step(self, caps: Caps, count: int, sizes: tuple, offsets: list[int], site: tuple) -> Step:
        values = [*sizes, *[offsets[i] for i in self.interface.offsets], *site]
        params, groups = self.interface.pack.pack(*values), -(-count // self.share)
        usual = threads(self.part.source, caps) == WORKGROUP[caps.kind]
        meaning = Piece(self.part, groups, params) if usual else None
        return Step(self.program, params or bytes(4), spread(groups, caps), meaning=meaning)


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


def threads(source: Source, caps: Caps) -> int:
    """Of a workgroup."""
    return TILE * TILE // 4 if source.tile else WORKGROUP[caps.kind]


def _turns(source: Source, caps: Caps) -> int:
    """Of each thread."""
    return 1 if source.reduction or source.tile else GROUPS[caps.kind]


@cache
def interface(source: Source, places: tuple[Place, ...], caps: Caps) -> Interface:
    operands = source.operands
    bindings, functions, bound = [], [], []
    for number in range(1 + max([p.binding for p in places])):
        own = [i for i, p in enumerate(places) if p.binding == number]
        mode = access.mode_of([operands[i] for i in own], [places[i] for i in own], caps)
        written = any([operands[i].written for i in own])
        kind = access.array_type(operands[own[0]].dtype, mode, caps)
        bindings.append(("read_write" if written else "read", kind))
        bound.append(own[0])
        for i in own:
            functions += access.functions(operands[i], places[i], mode, caps)
    offsets = tuple([i for i, p in enumerate(places) if p.offset])
    sizes = [s if ":" in s else f"{s}: i32" for s in source.sizes]
    fields = [*sizes, *[f"{operands[i].name}_o: u32" for i in offsets]]
    sites = ["site", *[f"assertion{k}" for k in range(len(source.asserted))]] if source.guarded else []
    fields += [f"{name}: u32" for name in sites]
    pack = Struct("<" + "".join(["f" if s.endswith("f32") else "i" for s in sizes]) + "I" * (len(offsets) + len(sites)))
    return Interface(tuple(bound), tuple(bindings), tuple(functions), tuple(fields), pack, offsets)


@cache
def kernel(source: Source, places: tuple[Place, ...], lanes: int, caps: Caps) -> Kernel:
    """The kernel of a source over operands in these places, with so many threads to a row."""
    part, own = Part(source, places, lanes), interface(source, places, caps)
    if len(own.bindings) + source.guarded > caps.max_bindings:
        raise Unsupported(
            f"webgpu: a compiled kernel over {len(own.bindings)} buffers, where {caps.max_bindings} can be bound"
        )
    if own.pack.size > _MOST_BYTES:
        raise Unsupported("webgpu: a compiled kernel with too many sizes")
    made = program(source.name, (part,), (tuple(range(len(own.bindings))),), caps)
    if source.tile:
        return Kernel(made, part, own, TILE * TILE)
    workgroup = threads(source, caps)
    share = workgroup // lanes if source.reduction else workgroup * _turns(source, caps) * (4 if source.fours else 1)
    return Kernel(made, part, own, share)


@cache
def program(name: str, parts: tuple[Part, ...], shown: tuple[tuple[int, ...], ...], caps: Caps) -> Program:
    """The program of parts that run beside one another. `shown` says which binding each of a part's own is. Behind the
    parts' parameters stand the workgroups at which all but the last of them end: one text serves all sizes."""
    bindings: dict[int, tuple] = {}
    texts, fields = [], []
    for number, (part, places) in enumerate(zip(parts, shown)):
        own = interface(part.source, part.places, caps)
        bindings.update({n: (f"memory_{n}", *b) for n, b in zip(places, own.bindings)})
        suffix = f"_{number}" if len(parts) > 1 else ""
        texts.append(_part_text(part, own, places, suffix, caps))
        fields += [_suffixed(f, suffix) for f in own.fields]
    ends = [f"end_{number}" for number in range(len(parts) - 1)]
    fields += [f"{end}: i32" for end in ends]
    return render_program(
        name,
        "compiled/kernel.wgsl",
        fields or ["unused"],
        [bindings[n] for n in range(len(bindings))],
        caps,
        guarded=any([p.source.guarded for p in parts]),
        parts=texts,
        ends=ends,
        workgroup=threads(parts[0].source, caps),
    )


def _suffixed(field: str, suffix: str) -> str:
    name, _, type_ = field.partition(":")
    return f"{name}{suffix}:{type_}"


_DECLARED = re.compile(r"^ *(?:fn|struct|var<workgroup>) (\w+)", re.M)


def _part_text(part: Part, own: Interface, shown: tuple[int, ...], suffix: str, caps: Caps) -> str:
    """A part's functions, whose names end in `suffix`."""
    source, count = part.source, part.source.count
    text = render_text(
        "compiled/reduction.wgsl" if source.reduction else "compiled/pointwise.wgsl",
        caps=caps,
        accessors=own.functions,
        source=source,
        lanes=part.lanes,
        tile=TILE,
        near=_near(source, part.lanes, caps),
        count=count if isinstance(count, int) else f"p.{count}",
        body=source.body.split("\n"),
        workgroup=threads(source, caps),
        groups=_turns(source, caps),
    )
    text = re.sub(r"\bmemory_(\d+)\b", lambda m: f"memory_{shown[int(m[1])]}", text)
    if not suffix:
        return text
    text = re.sub(r"\bp\.(\w+)", rf"p.\1{suffix}", text)
    names = "|".join(dict.fromkeys(_DECLARED.findall(text)))
    return re.sub(rf"\b({names})\b", rf"\1{suffix}", text)
