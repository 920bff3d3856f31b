"""Operators made of others, planned once: the first call with given metadata runs as written and its dispatches are
kept; later calls make the outputs and record the same dispatches over the new buffers.

Only for functions of tensors whose dispatches follow from metadata and plain arguments alone: no value read on the
host. Random numbers are drawn anew. What cannot be kept (copies outside kernels, windows, buffers of others that are
not named with `keep`) runs as written.
"""

from functools import wraps
from operator import itemgetter
from typing import NamedTuple
from weakref import WeakSet, WeakValueDictionary, ref

import torch
from torch.autograd.graph import increment_version

from .. import tensor as T
from ..kernels.fuse import Step, fuse
from ..program import Window
from ..runtime.errors import BindingTooLarge
from ..runtime.gpu import gpu
from . import hot
from .philox import DEFAULT, STREAMS, Drawn, Philox

_MAX_PLANS = 4096
_MOST_GRAPHS = 64  # plans of one graph, which may have a thousand steps each
_FEW_PLANS = 8  # so many are made of it at first sight, others when their sizes come again
FAULT_WORDS = 0  # the uid of the block that kernels report bad indices in; no tensor's block has it
_OFFSET = (1 << 40) - 1  # the part of a data pointer that is bytes from its block's start
_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter


_constants: WeakValueDictionary = WeakValueDictionary()  # tensors by their blocks
_kept = [0]  # how many there have been: what makes one is no part of a plan
_functions: WeakSet = WeakSet()  # all that remember


def keep(tensor: torch.Tensor) -> torch.Tensor:
    """Names a tensor that is never written again: plans may read it for as long as its owner has it."""
    _constants[T.block_of(tensor)] = tensor
    _kept[0] += 1
    return tensor


class _Stale(Exception):
    """The owner of a constant has dropped it."""


class _Plan:
    """Steps pick buffers by number: the arguments, the outputs, then spaces (sizes needed in between, or constants),
    then the fault words where one of the kernels may set them."""

    __slots__ = ("metas", "spaces", "guarded", "steps", "draws", "written", "tails", "ends", "results", "single")


class _View(NamedTuple):
    """A result that lies in an argument's storage or in that of another result, counted in this order; without a size
    it is the argument."""

    source: int
    size: tuple[int, ...] | None = None
    stride: tuple[int, ...] = ()
    offset: int = 0


class _Value(NamedTuple):
    """A result that is no tensor."""

    value: object


def remembered(call, unless=None, graph=False):
    """Decorates an operator's function; keyword arguments are not looked at, so they go the long way, as does all while
    `unless()` holds. In a whole `graph` elementwise steps are fused, and arguments that are written get a new version,
    which torch gives those of operators.
    """
    plans: dict[tuple, _Plan | None] = {}
    moved: set[tuple] = set()  # the first call uploads or makes what later ones find

    @wraps(call)
    def run(*args, **kwargs):
        key, blocks, known = [], [], T._blocks
        for a in args:
            if isinstance(a, _Tensor):
                place = a.data_ptr()
                block = known[place >> 40]
                if graph and block is not None and a.__class__ is _Parameter:
                    blocks.append(block)
                    key.append(place & _OFFSET)  # sizes and strides are the graph's: its caller has compared them
                    continue
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
            if plan is not None and plan.tails is not None and [blocks[i].nbytes for i in plan.tails] != plan.ends:
                key = (key, *[blocks[i].nbytes for i in plan.tails])
                plan = plans[key]
        except KeyError:
            if graph and len(plans) >= _FEW_PLANS and key not in moved:  # sizes that are new each time are not planned
                moved.add(key)
                return call(*args)
            if len(plans) >= (_MOST_GRAPHS if graph else _MAX_PLANS):
                forget()
            return _traced(call, args, blocks, plans, moved, key, graph)
        if plan is None:
            return call(*args)
        try:
            return _replay(plan, args, blocks)
        except BindingTooLarge:  # the same view, of a larger buffer
            return call(*args)
        except _Stale:
            del plans[key]
            return call(*args)

    def forget():
        plans.clear()
        moved.clear()

    run.forget = forget
    _functions.add(run)
    return run


def forget_all() -> None:
    """For who changes what plans rely on, as tests do."""
    for function in _functions:
        function.forget()


def _replay(plan: _Plan, args: tuple, blocks: list):
    made, leases = [], []
    for meta in plan.metas:
        tensor, block = T.make(meta)
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
    if plan.written and max(block.size for block in blocks) > gpu().caps.max_binding:
        raise BindingTooLarge("a graph's arguments")  # before anything is written
    record = hot.record
    for program, pick, params, grid in plan.steps if plan.draws is None else _drawn(plan):
        record(program, pick(blocks), params, grid)
    if found is not None:
        found.watched = True
    results = plan.results
    if results.__class__ is int:
        return made[results]
    if results.__class__ is list:
        return _given(plan, args, made)
    return tuple([None if i is None else made[i] for i in results])


def _drawn(plan: _Plan):
    """The steps, with random numbers of this call's own."""
    draws, places = plan.draws
    taken = [stream.take(elements) for stream, elements in draws]
    for step, (program, pick, params, grid) in enumerate(plan.steps):
        if step in places:
            at, draw = places[step]
            params = params[:at] + taken[draw] + params[at + len(taken[draw]) :]
        yield program, pick, params, grid


def _given(plan: _Plan, args: tuple, made: list) -> tuple:
    """Results that are more than tensors of their own; arguments that were written get a new version."""
    tensors = [a for a in args if isinstance(a, _Tensor)]
    for i in plan.written:
        increment_version(tensors[i])
    tensors += made
    count = len(tensors) - len(made)
    results = []
    for result in plan.results:
        if result.__class__ is int:
            result = tensors[count + result]
        elif result.__class__ is _View:
            whole = result.size is None
            result = tensors[result.source] if whole else T.as_strided(tensors[result.source], *result[1:])
        elif result.__class__ is _Value:
            result = result.value
        results.append(result)
    return results[0] if plan.single else tuple(results)


def _traced(call, args, blocks: list, plans: dict, moved: set, key: tuple, graph: bool):
    """Runs the call as written and keeps its plan, None where it cannot be had."""
    queue = gpu().queue
    with queue.lock:
        if queue.recording is not None:  # a profile's, or that of an operator around this one
            return call(*args)
        before = _moves(queue)
        queue.recording = steps = []
        Philox.draws = draws = []
        taken = []  # blocks, each with the number of steps before it
        try:
            with T.watched(lambda block: taken.append((len(steps), block))):
                result = call(*args)
        finally:
            queue.recording = Philox.draws = None
        if _moves(queue) == before:
            plans[key] = _plan(steps, taken, draws, result, args, blocks, graph)
        elif key in moved:
            plans[key] = None
        else:
            moved.add(key)
        return result


def _moves(queue) -> tuple[int, ...]:
    return queue.copies, queue.bytes_uploaded, queue.bytes_read, _kept[0]


def _plan(steps: list, taken: list, draws: list, result, args: tuple, blocks: list, graph: bool) -> _Plan | None:
    """Buffers are named by their block and how often it had been taken: a block serves many tensors, one at a time."""
    names: dict = {block: (block, 0) for block in blocks}
    homes = {(block, 0): i for i, block in enumerate(blocks)}  # arguments that share a buffer have a number each
    named, words, taken = [], None, iter([*taken, (len(steps), None)])
    before, block = next(taken)
    for i, step in enumerate(steps):
        while before <= i and block is not None:
            names[block] = (block, 1 + names.get(block, (block, 0))[1])
            before, block = next(taken)
        for buffer in step.buffers:
            if type(buffer) is Window:
                return None
            if buffer.uid == FAULT_WORDS:
                words = buffer
        bound = tuple([names.get(buffer, (buffer, 0)) for buffer in step.buffers])
        named.append(Step(step.program, bound, step.params, step.grid))
    while block is not None:
        names[block] = (block, 1 + names.get(block, (block, 0))[1])
        _, block = next(taken)
    plan = _Plan()
    plan.metas = []
    if not _keep_results(plan, names, homes, len(blocks), result, args):
        return None
    if graph:
        named = fuse(named, {n for s in named for n in s.buffers if n[1] and n not in homes}, gpu().caps)
    plan.spaces = []
    if not _place(plan, named, homes, words, len(blocks) + len(plan.metas)):
        return None
    plan.guarded = words is not None
    plan.steps = [(s.program, _picker([homes[n] for n in s.buffers]), s.params, s.grid) for s in named]
    plan.draws = _places(named, draws) if draws else None
    if draws and plan.draws is None:
        return None
    written = {n for s in named for n in s.written}
    # What lies behind an argument in its storage says how its end may be written.
    plan.tails = [i for i, block in enumerate(blocks) if (block, 0) in written] or None
    plan.ends = [blocks[i].nbytes for i in plan.tails or ()]
    plan.written = []
    if graph:
        tensors = [a for a in args if isinstance(a, _Tensor)]
        plan.written = [i for i, t in enumerate(tensors) if t.numel() and (T.block_of(t), 0) in written]
    if plan.written and plan.results.__class__ is not list:
        plan.results = [plan.results] if plan.results.__class__ is int else list(plan.results)
    return plan


def _place(plan: _Plan, steps: list, homes: dict, words, count: int) -> bool:
    """Gives every other buffer a space, which the next one of its size takes over after its last step."""
    last = {name: i for i, step in enumerate(steps) for name in step.buffers}
    free: dict[int, list[int]] = {}
    for i, step in enumerate(steps):
        for name, access in zip(step.buffers, step.program.access):
            block = name[0]
            if name in homes or block is words:
                continue
            constant = None if name[1] else _constants.get(block)
            if access == "r" and constant is None:
                return False  # what lives elsewhere
            if constant is None and free.get(block.size):
                homes[name] = free[block.size].pop()
                continue
            homes[name] = count + len(plan.spaces)
            plan.spaces.append(block.size if constant is None else ref(constant))
        for name in dict.fromkeys(step.buffers):
            at = homes.get(name, -1) - count
            if last[name] == i and at >= 0 and plan.spaces[at].__class__ is int:
                free.setdefault(name[0].size, []).append(homes[name])
    if words is not None:
        homes[words, 0] = count + len(plan.spaces)
    return True


def _keep_results(plan: _Plan, names: dict, homes: dict, first: int, result, args: tuple) -> bool:
    """Says of each result what it is; False where a later call could not make it."""
    arguments = [a for a in args if isinstance(a, _Tensor)]
    known = {(T.block_of(a), 0): i for i, a in reversed([*enumerate(arguments)]) if a.numel()}
    places, plain = [], True
    for t in (result,) if isinstance(result, _Tensor) else result:
        if t is None:
            places.append(None)
            continue
        if not isinstance(t, _Tensor):
            places.append(_Value(t))
            plain = False
            continue
        if not t.numel() and t.device.type != T.NAME:
            return False
        block = T.block_of(t) if t.numel() else None
        name = names.get(block, (block, 0))
        view = (tuple(t.shape), t.stride(), t.storage_offset())
        if name in known:
            source = known[name]
            base = arguments[source] if source < len(arguments) else None
            if (plan.metas[source - len(arguments)].dtype if base is None else base.dtype) != t.dtype:
                return False
            places.append(_View(source) if t is base else _View(source, *view))
            plain = False
            continue
        if block is not None and not name[1]:
            return False  # a tensor of somebody else
        meta, number = T.meta(t.shape, t.stride(), t.dtype), len(plan.metas)
        if block is not None:
            homes[name], known[name] = first + number, len(arguments) + number
        if block is not None and (t.storage_offset() or t.untyped_storage().nbytes() != meta.nbytes):
            meta = T.meta((t.untyped_storage().nbytes() // t.element_size(),), None, t.dtype)
            places.append(_View(len(arguments) + number, *view))
            plain = False
        else:
            places.append(number)
        plan.metas.append(meta)
    plan.single = isinstance(result, _Tensor)
    plan.results = (places[0] if plan.single else tuple(places)) if plain else places
    return True


def _places(steps: list, draws: list):
    """The draws, and by step where its own stands in the parameters; None where one is not found."""
    known = (DEFAULT, *STREAMS.values())  # the CPU's generators seed a stream for one call
    places = {i: (step.params.at, step.params.draw) for i, step in enumerate(steps) if type(step.params) is Drawn}
    found = {draw for _, draw in places.values()} == set(range(len(draws)))
    return (draws, places) if found and all(stream in known for stream, _ in draws) else None


def _picker(at: list[int]):
    """The function from all blocks to a tuple of those at `at`."""
    return itemgetter(*at) if len(at) > 1 else lambda blocks: (blocks[at[0]],)
