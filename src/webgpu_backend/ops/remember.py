"""Operators made of others, planned once: the first call with given metadata runs as written and its dispatches are
kept; later calls make the outputs and record the same dispatches over the new buffers.

Only for functions of tensors whose dispatches follow from metadata and plain arguments alone: no random numbers, no
value read on the host. What cannot be kept (copies outside kernels, windows, aliased arguments, constants kept by
others) runs as written.
"""

from functools import wraps

import torch

from .. import tensor as T
from ..program import Window
from ..runtime.errors import BindingTooLarge
from ..runtime.gpu import gpu

_MAX_PLANS = 4096
FAULT_WORDS = 0  # the uid of the block that kernels report bad indices in; no tensor's block has it
_Tensor = torch.Tensor


class _Plan:
    """Steps name buffers by number: the arguments, then the outputs, then what is needed in between."""

    __slots__ = ("metas", "spaces", "steps", "results")


def remembered(call):
    """Decorates an operator's function; keyword arguments are not looked at, so they go the long way."""
    plans: dict[tuple, _Plan | None] = {}

    @wraps(call)
    def run(*args, **kwargs):
        key, blocks = [], []
        for a in args:
            if isinstance(a, _Tensor):
                if a.is_cpu or not a.numel():
                    return call(*args, **kwargs)
                key.append((a.dtype, a.shape, a.stride(), a.storage_offset()))
                blocks.append(T.block_of(a))
            else:
                key.append(tuple(a) if a.__class__ is list else a)
        if kwargs or len(set(blocks)) < len(blocks):
            return call(*args, **kwargs)
        key = tuple(key)
        try:
            plan = plans[key]
        except KeyError:
            if len(plans) >= _MAX_PLANS:
                plans.clear()
            return _traced(call, args, blocks, plans, key)
        if plan is None:
            return call(*args)
        try:
            return _replay(plan, blocks)
        except BindingTooLarge:  # the same view, of a larger buffer
            return call(*args)

    return run


def _replay(plan: _Plan, blocks: list):
    made, leases = [], []
    for meta in plan.metas:
        tensor, block = T.make(meta)
        made.append(tensor)
        blocks.append(block)
    pool = T._pool
    for size in plan.spaces:
        lease = pool.take(size, size)
        leases.append(lease)
        blocks.append(lease.block)
    queue = gpu().queue
    for program, at, params, grid, guarded in plan.steps:
        bound = tuple([blocks[i] for i in at])
        if guarded:
            queue.record_guarded(program, bound, params, grid)
        else:
            queue.record(program, bound, params, grid)
    results = plan.results
    if results.__class__ is int:
        return made[results]
    return tuple([None if i is None else made[i] for i in results])


def _traced(call, args, blocks: list, plans: dict, key: tuple):
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
        plans[key] = _plan(steps, result, blocks) if _moves(queue) == before else None
        return result


def _moves(queue) -> tuple[int, ...]:
    return queue.copies, queue.bytes_uploaded, queue.bytes_read


def _plan(steps: list, result, blocks: list) -> _Plan | None:
    results = (result,) if isinstance(result, _Tensor) else result
    numbers = {block: i for i, block in enumerate(blocks)}
    plan = _Plan()
    plan.metas, places = [], []
    for t in results:
        if t is None:
            places.append(None)
            continue
        meta = T.meta(t.shape, t.stride(), t.dtype)
        if not t.numel():
            places.append(len(plan.metas))
            plan.metas.append(meta)
            numbers[object()] = len(numbers)
            continue
        block = T.block_of(t)
        if block in numbers or t.storage_offset() or t.untyped_storage().nbytes() != meta.nbytes:
            return None  # an argument or a part of a larger buffer is given back
        places.append(len(plan.metas))
        plan.metas.append(meta)
        numbers[block] = len(numbers)
    plan.spaces, plan.steps = [], []
    for step in steps:
        bound = step.buffers
        if any(type(block) is Window for block in bound):
            return None
        guarded = bound[-1].uid == FAULT_WORDS
        bound = bound[:-1] if guarded else bound
        for block, access in zip(bound, step.program.access):
            if block not in numbers:
                if access == "r":
                    return None  # a constant that lives elsewhere
                numbers[block] = len(numbers)
                plan.spaces.append(block.size)
        plan.steps.append((step.program, tuple([numbers[b] for b in bound]), step.params, step.grid, guarded))
    plan.results = places[0] if isinstance(result, _Tensor) else tuple(places)
    return plan
