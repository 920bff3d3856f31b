"""Operators: a function over tensors, planned at the first call with given metadata and run from its plan at the
others."""

from collections.abc import Callable
from functools import wraps

import torch

from .. import tensor as T
from ..dtypes import Unsupported
from ..program import Plan
from ..runtime.errors import BindingTooLarge
from . import run
from .cache import cache
from .draws import Draw, PlannedDraw
from .outline import plan_of
from .places import elsewhere, moved, several
from .run import Stale, execute

UID_BITS = T.UID_BITS
_OFFSET = (1 << UID_BITS) - 1  # the part of a data pointer that is bytes from its block's start
_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_DRAWS = (Draw, PlannedDraw)
_MOST_UNPLANNED = 4096
# Views that are resolved when they are read.
_LAZY = (torch._C.DispatchKey.Conjugate, torch._C.DispatchKey.Negative)
_excluded = torch._C._dispatch_tls_is_dispatch_key_excluded
_exclude = torch._C._dispatch_tls_set_dispatch_key_excluded


class Operator:
    """A function that is planned: it may have other ways to go where its kernel refuses. `writes`: it changes
    arguments. `graph`: it is many operators, whose steps that function makes fewer. `gradient` is called where
    something is differentiated. `returned`: the arguments, by number, that are the result.
    """

    def __init__(
        self,
        name: str,
        call: Callable,
        writes: bool = False,
        graph=None,
        gradient=None,
        returned: tuple[int, ...] | None = None,
    ):
        self.name = name
        self.call = call
        self.writes = writes
        self.graph = graph
        self.gradient = gradient
        self.returned = returned
        self.plans = cache.table(name)
        self.form: Callable | None = None  # what torch calls
        self._unplanned = cache.marks()  # keys of calls that run as written

    def direct(self, args: tuple, kwargs: dict):
        """The function as it is written."""
        return self._called(*args, **kwargs)

    def _called(self, *args, **kwargs):
        """What it makes of a conjugated or negated view is read as such, also inside of torch's modes and subclasses,
        where torch does not look at that any more."""
        hidden = [key for key in _LAZY if _excluded(key)]
        if not hidden:
            return self.call(*args, **kwargs)
        for key in hidden:
            _exclude(key, False)
        try:
            return self.call(*args, **kwargs)
        finally:
            for key in hidden:
                _exclude(key, True)

    # -- what a short form hands over

    odd = traced = direct

    def graded(self, args: tuple, kwargs: dict):
        return self.gradient(*args, **kwargs)

    def resolved(self, args: tuple, kwargs: dict):
        """Conjugated and negated views as tensors of their own."""
        plain = [a.resolve_conj().resolve_neg() if isinstance(a, _Tensor) else a for a in args]
        return self.form(*plain, **kwargs)

    def miss(self, key: tuple, tensors: list, bound: list, args: tuple, kwargs: dict):
        """A call without a plan, or one of whose tensors no block was found."""
        if kwargs.get("device") is not None:  # perhaps the first that names another device
            other = elsewhere(args, kwargs, self.name)
            if other is not None:
                return moved(self.form, other, args, kwargs)
        if run.planning_here() is not None:
            return self.direct(args, kwargs)
        for tensor, block in zip(tensors, bound):
            if block is None and tensor is not None and (tensor.device.type != T.NAME or tensor.numel()):
                return self.direct(args, kwargs)
        if self.writes:
            key = _with_aliases(key, bound)
        plan = self.plans.get(key) or self._planned(key, tensors, bound, args, kwargs)
        if plan is None:
            return self.direct(args, kwargs)
        try:
            return self._execute(plan, tensors, bound, args, kwargs)
        except (BindingTooLarge, Stale):
            return self.large(key, tensors, bound, args, kwargs)

    def large(self, key: tuple, tensors: list, bound: list, args: tuple, kwargs: dict):
        """A tensor that no single binding holds: a plan for buffers of just these sizes."""
        if run.planning_here() is not None:
            return self.direct(args, kwargs)
        self.plans.pop(key, None)  # perhaps a constant is gone
        key = (*key, *[None if block is None else block.size for block in bound])
        plan = self.plans.get(key) or self._planned(key, tensors, bound, args, kwargs)
        try:
            return self.direct(args, kwargs) if plan is None else self._execute(plan, tensors, bound, args, kwargs)
        except Stale:
            self.plans.pop(key, None)
            return self.direct(args, kwargs)

    def _planned(self, key: tuple, tensors: list, bound: list, args: tuple, kwargs: dict) -> Plan | None:
        """A plan, kept for later calls; None where there can be none."""
        if key in self._unplanned:
            return None
        try:
            plan, lasting = plan_of(self._called, args, kwargs, tensors, bound, self.writes, self.graph)
        except (T.Unplannable, Unsupported, BindingTooLarge):
            if len(self._unplanned) >= _MOST_UNPLANNED:
                self._unplanned.clear()
            self._unplanned.add(key)
            return None
        if plan.written and not self.writes:
            raise RuntimeError(f"webgpu: {self.name} writes to an argument that its entry does not name")
        if self.returned is not None:
            plan.results = ()
        if lasting:
            cache.keep(self.plans, key, plan)
        return plan

    def _execute(self, plan: Plan, tensors: list, bound: list, args: tuple, kwargs: dict):
        made = execute(plan, bound[:], tensors, b"", [a for a in args if a.__class__ in _DRAWS])
        if self.returned is None:
            return made
        every = (*args, *kwargs.values())
        found = tuple([every[i] for i in self.returned])
        return found[0] if len(found) == 1 else found or None


def _with_aliases(key: tuple, bound: list) -> tuple:
    """Which arguments share a buffer decides what is bound."""
    some = [b for b in bound if b is not None]
    return key if len(set(some)) == len(some) else (*key, tuple([None if b is None else bound.index(b) for b in bound]))


def planned(function: Callable | None = None, writes: bool = False) -> Callable:
    """Decorates a function over tensors that is no operator of torch's. Its arguments come without names: tensors,
    lists of them, numbers, draws of random streams."""
    if function is None:
        return lambda function: planned(function, writes)
    operator = Operator(function.__qualname__, function, writes)
    plans = operator.plans

    @wraps(function)
    def call(*args):
        if several() and (other := elsewhere(args, {}, operator.name)) is not None:
            return moved(call, other, args, {})
        key, tensors, bound, draws = identify(args)
        if writes:
            key += [None if block is None else block.nbytes for block in bound]
        key = tuple(key)
        plan = plans.get(key)
        if plan is None or None in bound or (writes and len(set(bound)) < len(bound)):
            return operator.miss(key, tensors, bound, args, {})
        try:
            return execute(plan, bound[:], tensors, b"", draws)
        except (BindingTooLarge, Stale):
            return operator.large(key, tensors, bound, args, {})

    call.operator = operator
    return call


def identify(args: tuple, graph: bool = False) -> tuple[list, list, list, list]:
    """What a plan depends on of these arguments, their tensors, the blocks under them, and their random draws. Of a
    `graph`'s parameters only the place counts: whoever calls it has compared their sizes and strides."""
    key, tensors, bound, draws = [run.place()], [], [], []
    blocks = run.blocks
    for a in args:
        kind = a.__class__
        if isinstance(a, _Tensor):
            place = a.data_ptr()
            tensors.append(a)
            bound.append(blocks[place >> UID_BITS])
            if graph and kind is _Parameter and bound[-1] is not None:
                key.append(place & _OFFSET)
                continue
            key += (a.dtype, a.shape, a.stride(), a.storage_offset())
            if a.is_neg() or a.is_conj():
                key.append((a.is_neg(), a.is_conj()))
        elif kind is list or kind is tuple:
            if any([isinstance(t, _Tensor) for t in a]):
                some = [t for t in a if t is not None]
                tensors += some
                bound += [blocks[t.data_ptr() >> UID_BITS] for t in some]
                key += [None if t is None else (t.dtype, t.shape, t.stride(), t.storage_offset()) for t in a]
                key.append(len(a))
            else:
                key.append(tuple(a))
        elif kind is float:
            key += (float, a or str(a))
        elif kind in _DRAWS:
            key.append(Draw)
            draws.append(a)
        else:
            key.append(a)
    return key, tensors, bound, draws
