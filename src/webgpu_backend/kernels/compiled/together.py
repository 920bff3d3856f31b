"""Steps of a graph that do not wait for one another, as one dispatch: each has workgroups of its own.

A dispatch costs the host and the GPU some microseconds whatever it does. So small kernels that a compiler wrote are put
beside others, which may come before or after them in the graph where nothing that they read or write is in between.
"""

from itertools import accumulate
from struct import pack

from ...program import Caps, Step, Window
from ..layout import WORKGROUP, spread
from ..pointwise.fuse import fuse
from .program import Part, Piece, interface, program

_MOST_PARTS = 16
_MOST_PARAMETERS = 128  # bytes: what every adapter with immediates takes
_MOST_TEXT = 100_000
_MOST_WRITTEN = 1 << 20  # bytes of the buffers that a kernel writes to; it would not be short, nor may those wait
_WORDS = ("f32", "i32", "u32", "bool")
_FAR = 128  # places in the order of steps that are looked at


def fewer(steps: list[tuple[Step, tuple]], drawn: dict, passing: set, caps: Caps) -> tuple[list, dict]:
    """Fewer steps that do the same: see `fuse`, whose arguments these are."""
    steps, drawn = fuse(steps, drawn, passing, caps)
    groups = _grouped([_One(step, buffers, drawn.get(i)) for i, (step, buffers) in enumerate(steps)], caps)
    ones = [group.ones[0] if len(group.ones) == 1 else group.together(caps) for group in groups]
    return [(one.step, one.buffers) for one in ones], {
        i: one.draw for i, one in enumerate(ones) if one.draw is not None
    }


class _One:
    """A step over buffers, and its draw."""

    def __init__(self, step: Step, buffers: tuple, draw=None):
        self.step = step
        self.buffers = buffers
        self.draw = draw
        blocks = [b.block if type(b) is Window else b for b in buffers]
        self.written = {b for b, access in zip(blocks, step.program.access) if access == "w"}
        self.read = set(blocks)

    @property
    def small(self) -> bool:
        """Whether it is put beside others."""
        written = sum([b.nbytes for b in self.written])
        return isinstance(self.step.meaning, Piece) and self.draw is None and written <= _MOST_WRITTEN


class _Group:
    """Steps of one dispatch, and how it binds their buffers: those that several only read are bound once."""

    def __init__(self, one: _One, caps: Caps):
        self.ones: list[_One] = []
        self.buffers: list = []
        self.places: dict = {}
        self.shown: list[tuple[int, ...]] = []
        self.open = one.small
        if self.open:
            self.add(one, *self._bound(one, caps))
        else:
            self.ones.append(one)

    def _bound(self, one: _One, caps: Caps) -> tuple[list, list]:
        """The bindings of a step, by their number or as what is to be bound."""
        part = one.step.meaning.part
        shown, added = [], []
        for buffer, (access, type_) in zip(one.buffers, interface(part.source, part.places, caps).bindings):
            key = (buffer, type_) if access == "read" else object()
            if key not in self.places:
                self.places[key] = len(self.buffers) + len(added)
                added.append((key, buffer))
            shown.append(self.places[key])
        for key, _ in added:
            del self.places[key]
        return shown, added

    def add(self, one: _One, shown: list, added: list) -> None:
        for key, buffer in added:
            self.places[key] = len(self.buffers)
            self.buffers.append(buffer)
        self.shown.append(tuple(shown))
        self.ones.append(one)

    def takes(self, one: _One, caps: Caps) -> bool:
        """Whether a step fits beside these, which it then is."""
        if not self.open or len(self.ones) == _MOST_PARTS:
            return False
        pieces = [o.step.meaning for o in (*self.ones, one)]
        shown, added = self._bound(one, caps)
        guarded = any([p.part.source.guarded for p in pieces])
        if (
            len(self.buffers) + len(added) + guarded > caps.max_bindings
            or sum([len(p.params) + 4 for p in pieces]) - 4 > _MOST_PARAMETERS
            or sum([len(p.part.source.body) for p in pieces]) > _MOST_TEXT
            or sum([_shared_bytes(p.part, caps) for p in pieces]) > caps.workgroup_bytes
        ):
            return False
        self.add(one, shown, added)
        return True

    def together(self, caps: Caps) -> _One:
        pieces = [one.step.meaning for one in self.ones]
        made = program(_name(pieces), tuple([p.part for p in pieces]), tuple(self.shown), caps)
        *ends, total = accumulate([p.groups for p in pieces])
        params = b"".join([p.params for p in pieces]) + pack(f"<{len(ends)}i", *ends)
        return _One(Step(made, params, spread(total, caps)), tuple(self.buffers))


def _name(pieces: list[Piece]) -> str:
    """The first one's, with the numbers that the others' names end in."""
    first, *rest = [p.part.source.name for p in pieces]
    return "+".join([first, *[name.rpartition("_")[2] for name in rest]])


def _shared_bytes(part: Part, caps: Caps) -> int:
    """Of a workgroup's memory, at most."""
    states = (*part.source.joins, *part.source.scans)
    types = [type_ for _, fields in states for _, type_ in fields]
    return sum([WORKGROUP[caps.kind] * (4 if t in _WORDS else 8) for t in types])


def _grouped(ones: list[_One], caps: Caps) -> list[_Group]:
    """Each step in the first dispatch that has a place for it, after all whose results it needs or whose memory it
    changes."""
    groups: list[_Group] = []
    written: dict = {}  # the dispatch that last writes to a buffer, and that uses it
    used: dict = {}
    for one in ones:
        least = 1 + max([written.get(b, -1) for b in one.read], default=-1)
        least = max([least, *[1 + used.get(b, -1) for b in one.written]])
        near = range(least, min(len(groups), least + _FAR)) if one.small else ()
        at = next((i for i in near if groups[i].takes(one, caps)), len(groups))
        if at == len(groups):
            groups.append(_Group(one, caps))
        for b in one.read:
            used[b] = max(at, used.get(b, -1))
        for b in one.written:
            written[b] = max(at, written.get(b, -1))
    return groups
