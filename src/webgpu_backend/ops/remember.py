"""Operators made of others, planned once: the first call with given metadata runs as written and its dispatches are
kept; later calls make the outputs and record the same dispatches over the new buffers.

Only for functions of tensors whose dispatches follow from metadata and plain arguments alone: no random numbers, no
value read on the host. What cannot be kept (copies outside kernels, windows, buffers of others that are not named with
`keep`) runs as written.
"""

from functools import wraps
from operator import itemgetter
from weakref import WeakValueDictionary, ref

import torch

from .. import tensor as T
from ..program import Window
from ..runtime.errors import BindingTooLarge
from ..runtime.gpu import gpu
from . import hot

_MAX_PLANS = 4096
FAULT_WORDS = 0  # the uid of the block that kernels report bad indices in; no tensor's block has it
_Tensor = torch.Tensor


_constants: WeakValueDictionary = WeakValueDictionary()  # tensors by their blocks


def keep(tensor: torch.Tensor) -> torch.Tensor:
    """Names a tensor that is never written again: plans may read it for as long as its owner has it."""
    _constants[T.block_of(tensor)] = tensor
    return tensor


class _Stale(Exception):
    """The owner of a constant has dropped it, or an output's block is less than what the plan did in it."""


class _Plan:
    """Steps pick buffers by number: the arguments, the outputs, then spaces (sizes needed in between, or constants),
    then the fault words where one of the kernels may set them."""

    __slots__ = ("metas", "spaces", "guarded", "steps", "results")


def remembered(call, unless=None):
    """Decorates an operator's function; keyword arguments are not looked at, so they go the long way, as does all while
    `unless()` holds."""
    plans: dict[tuple, _Plan | None] = {}
    moved: set[tuple] = set()  # the first call uploads what later ones find

    @wraps(call)
    def run(*args, **kwargs):
        key, blocks, known = [], [], T._blocks
        for a in args:
            if isinstance(a, _Tensor):
                block = known[a.data_ptr() >> 40]
                if block is not None:
                    blocks.append(block)
                elif a.is_cpu:
                    return call(*args, **kwargs)
                key += (a.dtype, a.shape, a.stride(), a.storage_offset())
            else:
                key.append(tuple(a) if a.__class__ is list else a)
        if kwargs or (unless is not None and unless()):
            return call(*args, **kwargs)
        if len(blocks) > 1 and len(set(blocks)) < len(blocks):  # which arguments share a buffer decides what is bound
            key.append(tuple([blocks.index(block) for block in blocks]))
        key = tuple(key)
        try:
            plan = plans[key]
        except KeyError:
            if len(plans) >= _MAX_PLANS:
                forget()
            return _traced(call, args, blocks, plans, moved, key)
        if plan is None:
            return call(*args)
        try:
            return _replay(plan, blocks)
        except BindingTooLarge:  # the same view, of a larger buffer
            return call(*args)
        except _Stale:
            del plans[key]
            return call(*args)

    def forget():
        plans.clear()
        moved.clear()

    run.forget = forget
    return run


def _replay(plan: _Plan, blocks: list):
    made, leases = [], []
    for meta, size in plan.metas:
        tensor, block = T.make(meta)
        if block.size < size:
            raise _Stale
        made.append(tensor)
        blocks.append(block)
    for size in plan.spaces:
        if size.__class__ is not int:
            constant = size()
            if constant is None:
                raise _Stale
            blocks.append(T.block_of(constant))
            continue
        lease = T.space(size)
        leases.append(lease)
        blocks.append(lease.block)
    found = None
    if plan.guarded:
        found = gpu().queue.fault_words()
        blocks.append(found.block)
    record = hot.record
    for program, pick, params, grid in plan.steps:
        record(program, pick(blocks), params, grid)
    if found is not None:
        found.watched = True
    results = plan.results
    if results.__class__ is int:
        return made[results]
    return tuple([None if i is None else made[i] for i in results])


def _traced(call, args, blocks: list, plans: dict, moved: set, key: tuple):
    """Runs the call as written and keeps its plan, None where it cannot be had."""
    queue = gpu().queue
    with queue.lock:
        if queue.recording is not None:  # a profile's, or that of an operator around this one
            return call(*args)
        before = _moves(queue)
        queue.recording = steps = []
        try:
            result = call(*args)
        finally:
            queue.recording = None
        if _moves(queue) == before:
            plans[key] = _plan(steps, result, blocks)
        elif key in moved:
            plans[key] = None
        else:
            moved.add(key)
        return result


def _moves(queue) -> tuple[int, ...]:
    return queue.copies, queue.bytes_uploaded, queue.bytes_read


def _plan(steps: list, result, blocks: list) -> _Plan | None:
    results = (result,) if isinstance(result, _Tensor) else result
    numbers = {block: i for i, block in enumerate(blocks)}
    count = len(blocks)  # arguments that share a buffer have a number each
    plan = _Plan()
    plan.metas, places = [], []
    for t in results:
        if t is None:
            places.append(None)
            continue
        meta, size = T.meta(t.shape, t.stride(), t.dtype), 0
        if t.numel():
            block = T.block_of(t)
            if block in numbers or t.storage_offset() or t.untyped_storage().nbytes() != meta.nbytes:
                return None  # an argument or a part of a larger buffer is given back
            # The pool may have given more than was asked for, and steps before may have worked in all of it.
            numbers[block], size = count, block.size
        places.append(len(plan.metas))
        plan.metas.append((meta, size))
        count += 1
    plan.spaces, words = [], None
    for step in steps:
        for block, access in zip(step.buffers, step.program.access):
            if type(block) is Window:
                return None
            if block.uid == FAULT_WORDS:
                words = block
            elif block not in numbers:
                numbers[block] = count
                count += 1
                constant = _constants.get(block)
                if access == "r" and constant is None:
                    return None  # what lives elsewhere
                plan.spaces.append(block.size if constant is None else ref(constant))
    plan.guarded = words is not None
    if words is not None:
        numbers[words] = count
    plan.steps = [
        (step.program, _picker([numbers[block] for block in step.buffers]), step.params, step.grid) for step in steps
    ]
    plan.results = places[0] if isinstance(result, _Tensor) else tuple(places)
    return plan


def _picker(at: list[int]):
    """The function from all blocks to a tuple of those at `at`."""
    return itemgetter(*at) if len(at) > 1 else lambda blocks: (blocks[at[0]],)
