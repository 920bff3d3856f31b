"""Graphs: functions of many operators, whose steps are planned together and fused."""

from collections.abc import Callable

import torch

from .. import tensor as T
from ..kernels.layout import span
from ..kernels.pointwise.fuse import fuse
from ..runtime import gpu as runtime
from ..runtime.errors import BindingTooLarge
from ..runtime.faults import called
from .operator import Operator, identify
from .places import elsewhere, moved
from .run import Stale, execute

_MOST = 64  # plans of one graph, which may have a thousand steps each
_FEW = 8  # so many are made of it at first sight, others when their sizes come again


class Shared(Exception):
    """A graph would write to memory that another of its arguments sees."""


def planned_graph(function: Callable, apart: tuple[int, ...] = ()) -> Callable:
    """The function of a graph, whose arguments may be written. They get a new version then. `apart` are
    arguments that it writes and takes for granted that no other one sees: calls where one does are refused."""
    graph = Operator("graph", function, writes=True, graph=fuse)
    plans, seen = graph.plans, set()

    def call(*args):
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
            # What lies behind an argument in its storage says how its end may be written.
            if not plan.written or [bound[i].nbytes for i in plan.written] == list(plan.ends):
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
