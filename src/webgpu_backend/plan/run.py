"""Running plans: the tensors that a plan makes, then its steps over this call's buffers.

`record`, `make` and `blocks` are what generated short forms see; all three change while a plan is made (see
`outline.py`), and when the device is opened.
"""

from operator import itemgetter
from threading import get_ident
from typing import NamedTuple

import torch
from torch.autograd import forward_ad  # noqa: F401  for the short forms
from torch.autograd.graph import increment_version

from .. import env
from .. import tensor as T
from ..program import Plan, Step, Window
from ..runtime import gpu as runtime
from ..runtime.errors import BindingTooLarge
from ..runtime.gpu import gpu

make, space = T.make, T.space
grad_enabled, transforms_active = torch.is_grad_enabled, torch._C._are_functorch_transforms_active
PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
NUMBERS = frozenset((int, float, bool, complex))
planning = None  # the plan in the making, if any


def _first_record(step: Step, buffers: tuple, params: bytes) -> None:
    connect()
    record(step, buffers, params)


record = _first_record
blocks = T.UNCONNECTED


def connect() -> None:
    """Binds the short forms to the device, at first use."""
    global record, blocks
    if not runtime.several:
        queue = gpu().queue
        record, blocks = queue.record_and_wait if env.BLOCKING else queue.record, gpu().pool.blocks
    if runtime.several:  # perhaps since a moment ago
        separate()


def _record_here(step: Step, buffers: tuple, params: bytes) -> None:
    """To the current device."""
    queue = gpu().queue
    (queue.record_and_wait if env.BLOCKING else queue.record)(step, buffers, params)


def separate() -> None:
    """A second device is about to be there: from now on every call asks for its own."""
    global record, blocks
    record, blocks = _record_here, T.UNCONNECTED


def ensure_connected() -> None:
    if record is _first_record:
        connect()


def disconnect() -> None:
    """After a fork: the next call asks for the device again."""
    global record, blocks, planning
    record, blocks, planning = _first_record, T.UNCONNECTED, None


def place() -> int:
    """What plans' keys have of the device that they are for, where there are several."""
    return gpu().index if runtime.several else 0


def planning_here():
    """The plan that this thread makes, or None."""
    return planning if planning is not None and planning.thread == get_ident() else None


class View(NamedTuple):
    """A result that lies in an argument's memory or in that of an output, counted in this order; without a size it is
    the argument."""

    source: int
    size: tuple[int, ...] | None = None
    stride: tuple[int, ...] = ()
    offset: int = 0


class Value(NamedTuple):
    """A result that is no tensor."""

    value: object


class Stale(Exception):
    """The owner of a constant that a plan reads has dropped it."""


def finish(plan: Plan, arguments: int) -> Plan:
    """Gets a plan ready to run: how each step picks its buffers, and whether there is nothing to it but one step, from
    the arguments to an output or from the others to those that are written."""
    plan.picks = tuple([(step, _picker(step.bindings)) for step in plan.steps])
    plan.simple = plan.pick = None
    if len(plan.steps) == 1 and plan.draws is None and not plan.scratch and plan.steps[0].turned is None:
        read = tuple([i for i in range(arguments) if i not in plan.written])
        made = len(plan.outputs) == 1 and plan.results == 0 and not plan.written
        if plan.steps[0].bindings == (*read, *plan.written, *([arguments] if made else [])):
            if made or (plan.written and not plan.outputs):
                plan.simple = plan.steps[0]
        if made:
            plan.pick = plan.picks[0][1]
    return plan


_MOST_PACKED = 64


def with_number(plan: Plan, value) -> bytes:
    """The parameters of a simple plan with one number; those of the numbers seen last are kept."""
    params = plan.simple.params + plan.packers[0](value)
    if value:  # 0.0 and -0.0 are one key
        if len(plan.packed) >= _MOST_PACKED:
            plan.packed.clear()
        plan.packed[value] = params
    return params


def _picker(places: tuple):
    """The function from all buffers to a step's own."""
    if any([p.__class__ is tuple for p in places]):
        return lambda found: tuple([_part(found, p) for p in places])
    if len(places) == 1:
        (one,) = places
        return lambda found: (found[one],)
    return itemgetter(*places) if places else lambda found: ()


def _part(found: list, place):
    return Window(found[place[0]], place[1], place[2]) if place.__class__ is tuple else found[place]


_way = 0


def params_of(step: Step) -> bytes:
    """A step over more memory than a cache holds walks it the other way than the one before."""
    global _way
    if step.turned is None or planning is not None:
        return step.params
    _way ^= 1
    return step.turned if _way else step.params


class Tapes:
    """A plan's steps as they were recorded over some buffers, for runs that have the same ones again. Those of its
    arguments are always the same; which others a run has follows from what is free, so that few are seen."""

    MOST = 8
    __slots__ = ("found", "arguments", "turns")

    def __init__(self, plan: Plan, arguments: int):
        self.found: dict = {}  # None: seen once
        self.arguments = arguments
        self.turns = len([step for step in plan.steps if step.turned is not None]) & 1

    def run(self, plan: Plan, bound: list) -> None:
        """Does the steps of the plan, whose buffers these are."""
        global _way
        if planning is not None or env.BLOCKING:
            _record_steps(plan, bound)
            return
        key = (_way, *bound[self.arguments :])
        found, queue = self.found.get(key), gpu().queue
        if found is not None and queue.replay(found):
            _way ^= self.turns
            return
        dispatches = _record_steps(plan, bound)
        if key in self.found:
            self.found[key] = queue.tape_of(dispatches)
        else:
            if len(self.found) >= self.MOST:
                self.found.clear()
            self.found[key] = None


def _record_steps(plan: Plan, bound: list) -> list[tuple[Step, tuple, bytes]]:
    """Records the steps one by one; returns what was recorded."""
    dispatches = []
    for step, pick in plan.picks:
        dispatches.append((step, pick(bound), params_of(step)))
        record(*dispatches[-1])
    return dispatches


def execute(plan: Plan, bound: list, tensors=(), numbers: bytes = b"", draws: tuple = (), tapes: Tapes | None = None):
    """Runs a plan: `bound` are the buffers of `tensors`, to which the plan's own are added; `numbers` follow the
    parameters of its steps, `draws` are places in random streams that the call brings along, `tapes` are for runs over
    these very buffers."""
    made = []
    for meta in plan.outputs:
        tensor, block = make(meta)
        made.append(tensor)
        bound.append(block)
    if plan.scratch:
        held = [_held(size, bound) for size in plan.scratch]  # noqa: F841  until the end
    if plan.written and plan.whole and len(plan.steps) > 1 and _largest(bound) > gpu().caps.max_binding:
        raise BindingTooLarge("an argument that is written")  # before anything is
    if plan.draws is not None:
        _execute_drawn(plan, bound, draws)
    elif tapes is not None:
        tapes.run(plan, bound)
    elif numbers:
        for step, pick in plan.picks:
            record(step, pick(bound), params_of(step) + numbers)
    else:
        for step, pick in plan.picks:
            record(step, pick(bound), step.params if step.turned is None else params_of(step))
    results = plan.results
    if results.__class__ is int:
        return made[results]
    if results.__class__ is tuple:
        return tuple([None if i is None else made[i] for i in results])
    return results.of(plan, tensors, made)


def _largest(bound: list) -> int:
    return max([block.size for block in bound if block is not None])


def _held(size, bound: list):
    if size.__class__ is not int:
        constant = size()
        if constant is None:
            raise Stale
        bound.append(T.block_of(constant))
        return constant
    lease = space(size)
    bound.append(lease.block)
    return lease


def _execute_drawn(plan: Plan, bound: list, given: tuple) -> None:
    """With random numbers of this run's own."""
    sources, places = plan.draws
    taken = [given[s] if s.__class__ is int else s[0].take(s[1]) for s in sources]
    for k, (step, pick) in enumerate(plan.picks):
        place = places.get(k)
        if place is None:
            record(step, pick(bound), params_of(step))
        else:
            taken[place[0]].after(place[1]).record(step, pick(bound))


class Results:
    """Results that are more than new tensors: one, or several in a list or a tuple. `counted`: arguments that were
    written get a new version, which torch itself gives those of operators."""

    __slots__ = ("places", "kind", "counted")

    def __init__(self, places: list, kind: type | None, counted: bool):
        self.places = places
        self.kind = kind
        self.counted = counted

    def of(self, plan: Plan, tensors, made: list):
        if self.counted and plan.written:
            increment_version([tensors[i] for i in plan.written])
        all_ = [*tensors, *made]
        found = [self._one(place, all_, len(tensors)) for place in self.places]
        return found[0] if self.kind is None else self.kind(found)

    @staticmethod
    def _one(place, all_: list, arguments: int):
        kind = place.__class__
        if kind is int:
            return all_[arguments + place]
        if kind is View:
            source = all_[place.source]
            return source if place.size is None else T.as_strided(source, *place[1:])
        return place.value if kind is Value else None
