"""Dispatches that are encoded again and again as they are: the same programs over the same buffers.

Whatever `Queue.record` looks up and checks for a dispatch is the same each time, so it is done once. A tape holds for
as long as the queue's bind groups and pipelines are those it was made with (`Queue.epoch`).
"""

from typing import Any

from ..program import Step
from . import faults, spares
from .blocks import unbroken
from .loop import Entries

# Dispatches of the first batch that a replay submits, and how many more each later one has. A GPU takes a little longer
# for a dispatch than the host, which also pays for each batch.
FIRST = 32
MORE = 16


class Tape:
    __slots__ = ("log", "entries", "watched", "epoch", "replays")

    def __init__(self, log: list, entries: Entries, watched: dict[str, bytes], epoch: int):
        self.log = log  # as in `refusal`
        self.entries = entries
        self.watched = watched  # programs that may report a bad index, and their parameters
        self.epoch = epoch
        self.replays = 0


def tape_of(queue: Any, dispatches: list[tuple[Step, tuple, bytes]]) -> Tape | None:
    """A tape of these dispatches, all of which have been recorded before. None where one is not encoded in the same
    way each time: a copy by a command, parameters in the uniform ring."""
    entries, watched = [], {}
    with queue.lock:
        for step, buffers, params in dispatches:
            pipeline = queue.compiled.get(step.program)
            group = None if pipeline is None else pipeline.groups.get(buffers)
            if group is None or not pipeline.immediate or step.moved is not None:
                return None
            entries.append((pipeline.handle, group, params, step.grid))
            if pipeline.guarded:
                watched[pipeline.name] = params
        return Tape(dispatches, Entries(entries), watched, queue.epoch)


def replay(queue: Any, tape: Tape) -> bool:
    """Does a tape behind all that is recorded; False where it does not hold any more, or somebody watches each
    dispatch."""
    with queue.lock:
        if tape.epoch != queue.epoch or queue.recording is not None:
            return False
        tape.replays += 1
        if not queue.spares.submit(tape):
            if tape.epoch != queue.epoch:  # something was refused and done again meanwhile
                return False
            _encode_all(queue, tape)
        if queue.hands_over and tape.replays >= spares.REPLAYS:
            queue.spares.want(tape)
        for name, params in tape.watched.items():
            faults.watch(queue.watched, name, params)
    return True


def _encode_all(queue: Any, tape: Tape) -> None:
    """Encodes a tape into the open batch, and into others as that is full."""
    try:
        done, left = 0, len(tape.log)
        if not queue.more:
            queue.limit, queue.more = max(queue.limit, FIRST), MORE
        while left:
            encoder = queue.pass_ or queue._begin()
            count = min(left, max(queue.limit - queue.count, 1))
            _encode(queue, encoder, tape, done, count)
            done, left = done + count, left - count
            if queue.count >= queue.limit:
                queue.grow()
                queue.pass_on()
    except BaseException:
        queue.pass_ = queue.bound = None  # as in record
        raise


def _encode(queue: Any, encoder, tape: Tape, first: int, count: int) -> None:
    queue.encode()
    queue.bound = None
    queue.log += tape.log if count == len(tape.log) else tape.log[first : first + count]
    queue.count += count
    tape.entries.encode(encoder, first, count)


unbroken.add(_encode.__code__)
unbroken.add(Entries.encode.__code__)
