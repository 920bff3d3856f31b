"""Streams of random words, and places in them."""

import threading
from struct import Struct

from ..program import Step
from . import run

MASK = (1 << 64) - 1
DEFAULT_SEED = 67280421310721  # torch's own, for a process that sets none
BYTES = 16
_pack = Struct("<QQ").pack


class Draw:
    """A place in a stream: its key, and the counter to begin with."""

    __slots__ = ("seed", "offset")

    def __init__(self, seed: int, offset: int):
        self.seed = seed
        self.offset = offset

    def after(self, elements: int) -> "Draw":
        """The place so many elements further on."""
        if not elements:
            return self
        return Draw(self.seed, (self.offset + elements // 4) & MASK)

    def filled(self, step: Step) -> bytes:
        """The step's parameters with this place in them."""
        params, at = step.params, step.draw
        return params[:at] + _pack(self.seed, self.offset) + params[at + BYTES :]

    def record(self, step: Step, buffers: tuple) -> None:
        run.record(step, buffers, self.filled(step))


class PlannedDraw:
    """A place that each run of the plan in the making takes anew: the `number`-th of its draws."""

    __slots__ = ("planning", "number", "elements")

    def __init__(self, planning, number: int, elements: int = 0):
        self.planning = planning
        self.number = number
        self.elements = elements

    def after(self, elements: int) -> "PlannedDraw":
        return PlannedDraw(self.planning, self.number, self.elements + elements)

    def record(self, step: Step, buffers: tuple) -> None:
        self.planning.record(step, buffers, step.params, (self.number, self.elements))


class Philox:
    """A stream of random words: a key, and how many counters have been used."""

    lasting = True  # it outlives the call that draws from it

    def __init__(self, seed: int = DEFAULT_SEED):
        self.lock = threading.Lock()
        self.restart(seed)

    def restart(self, seed: int) -> None:
        self.seed = int(seed) & MASK
        self.offset = 0

    def take(self, elements: int) -> Draw | PlannedDraw:
        """The place of so many elements, which are now used."""
        planning = run.planning_here()
        if planning is not None:
            return planning.draw(self, elements)
        with self.lock:
            offset = self.offset
            self.offset = (offset + -(-elements // 4)) & MASK
        return Draw(self.seed, offset)
