"""Graphs: functions of many operators, whose steps are planned together and fused."""

from collections.abc import Callable

import torch

from .. import tensor as T
from ..kernels.layout import span
from ..kernels.pointwise.fuse import fuse
from ..program import Plan
from ..runtime import gpu as runtime
from ..runtime.errors import BindingTooLarge
from ..runtime.faults import called
from .cache import cache
from .operator import Operator, identify
from .places import elsewhere, moved
from .run import Stale, Tapes, execute

_MOST = 64  # plans of one graph, which may have a thousand steps each
_MOST_HELD = 16  # places of arguments that are known of one graph
_FEW = 8  # so many are made of it at first sight, others when their sizes come again


class Shared(Exception):
    """A graph would write to memory that another of its arguments sees."""


class Outgrown(BindingTooLarge):
    """A graph whose sizes change met a tensor larger than one binding, and has written nothing that others see."""


class _Held:
    """The plan of a call whose arguments are at these places. It holds while they look as they did, which `guards`
    compares at once, and the pool has put no other block there."""

    __slots__ = ("plan", "bound", "alone", "guards", "generation", "tapes", "ends")

    def __init__(self, plan: Plan, tensors: list, bound: list, arguments: int):
        self.plan = plan
        self.bound = bound
        self.alone = arguments == len(tensors)  # no sizes among them
        self.guards = T.Guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        self.generation = T.generation()
        self.tapes = Tapes(plan, len(bound))
        # What lies behind an argument in its storage says how its end may be written.
        self.ends = [(bound[i], nbytes) for i, nbytes in zip(plan.written, plan.ends)]

    def still(self, tensors) -> bool:
        if self.generation != T.generation() or not self.guards.check(*tensors):
            return False
        return all([block.nbytes == nbytes for block, nbytes in self.ends])


_data_ptr = torch.Tensor.data_ptr


def _places(args: tuple) -> tuple:
    """Where the tensors among a graph's arguments are, and what else it is called with."""
    try:
        return tuple(map(_data_ptr, args))
    except TypeError:  # sizes among them
        return tuple([a.data_ptr() if isinstance(a, torch.Tensor) else (a.__class__, str(a)) for a in args])


def planned_graph(function: Callable, apart: tuple[int, ...] = (), fewer: Callable = fuse) -> Callable:
    """The function of a graph, whose arguments may be written. They get a new version then. `apart` are
    arguments that it writes and takes for granted that no other one sees: calls where one does are refused. `fewer`
    makes fewer steps of those that are planned."""
    graph = Operator("graph", function, writes=True, graph=fewer)
    plans, seen, held = graph.plans, set(), cache.notes()

    def call(*args):
        places = _places(args)
        known = held.get(places)
        if known is not None and not runtime.several:
            tensors = args if known.alone else [a for a in args if isinstance(a, torch.Tensor)]
            if known.still(tensors):
                try:
                    with called():
                        return execute(known.plan, known.bound[:], tensors, tapes=known.tapes)
                except (BindingTooLarge, Stale):
                    held.clear()
        if runtime.several:
            try:
                other = elsewhere(args, {}, "graph")
            except RuntimeError:
                return function(*args)  # tensors of several devices: operator by operator
            if other is not None:
                return moved(call, other, args, {})
        key, tensors, bound, draws = identify(args, graph=True)
        key = tuple(key)
        plan = plans.get(key)
        if plan is not None and None not in bound and len(set(bound)) == len(bound):
            if not plan.written or [bound[i].nbytes for i in plan.written] == list(plan.ends):
                if len(held) >= _MOST_HELD:
                    held.clear()
                held[places] = _Held(plan, tensors, bound, len(args))
                try:
                    with called():
                        return execute(plan, bound[:], tensors, b"", draws)
                except (BindingTooLarge, Stale):
                    return graph.large(key, tensors, bound, args, {})
        if apart and _seen_twice(args, apart):
            raise Shared
        if plan is not None and plan.written:
            key = (*key, *[bound[i].nbytes for i in plan.written])
        if len(plans) >= _FEW and key not in seen and key not in plans:  # sizes that are new each time are not planned
            seen.add(key)
            return function(*args)
        if len(plans) >= _MOST:
            plans.clear()
            seen.clear()
        return graph.miss(key, tensors, bound, args, {})

    call.operator = graph
    return call


def _seen_twice(args: tuple, apart: tuple[int, ...]) -> bool:
    """Whether elements of these arguments lie between those of another one."""
    spans = {}
    for i, a in enumerate(args):
        if isinstance(a, torch.Tensor) and a.numel():
            first, last = span(a.shape, a.stride(), a.storage_offset())
            spans[i] = (T.block_of(a), first * a.element_size(), last * a.element_size())
    for i in apart:
        block, first, last = spans.get(i, (None, 0, 0))
        if any([b is block and start < last and first < end for j, (b, start, end) in spans.items() if j != i]):
            return True
    return False
