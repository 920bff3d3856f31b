"""Making a plan of an operator's function: it runs once over outlines, tensors that have metadata and no memory, and
the steps that it asks for become the plan.

Nothing is computed meanwhile and no device memory is used. So a plan follows from metadata, numbers and capabilities
alone, and it is whole before any of it runs. A function that looks at a value cannot be planned; it runs as written.
"""

from threading import RLock, get_ident
from weakref import WeakValueDictionary, ref

import torch

from .. import tensor as T
from ..program import Plan, Step, Window
from ..runtime.blocks import Block
from ..runtime.errors import BindingTooLarge
from ..runtime.gpu import gpu
from . import run
from .draws import Draw, PlannedDraw
from .run import Results, Value, View

_Tensor = torch.Tensor
lock = RLock()


class _Nowhere:
    """Stands for the pool of a device's blocks without memory, and for their queue."""

    bytes_live = 0

    def __init__(self, index: int):
        self.index = index
        self.queue = self
        self.descriptions: list[tuple] = []
        self.free: list[int] = []  # uids of blocks that no tensor has any more

    def write(self, block: Block, offset: int, address: int, nbytes: int) -> None:
        """An upload to a tensor without memory."""
        planning = run.planning_here()
        if planning is None:
            raise T.Unplannable("the values of a tensor")
        planning.upload(block, offset, address, nbytes)


_nowheres: dict[int, _Nowhere] = {}  # by device


class Planning:
    """A plan in the making, on one thread."""

    def __init__(self):
        device = gpu()
        self.thread = get_ident()
        self.caps = device.caps
        self.pool = device.pool
        self.nowhere = _nowheres.setdefault(device.index, _Nowhere(device.index))
        self.steps: list[tuple[Step, tuple]] = []
        self.drawn: dict[int, tuple[int, int]] = {}  # by step: which draw, and how many elements into it
        self.sources: list = []
        self.made: list[Block] = []
        self.dead: list[int] = []
        self.lasting = True  # the plan may be kept

    # -- what the function sees

    def take(self, nbytes: int, size: int) -> Block:
        """A block without memory; other threads get real ones."""
        if get_ident() != self.thread:
            return self.take_real(nbytes, size)
        if nbytes > self.caps.max_buffer:
            return self.take_real(nbytes, size)  # raises
        free = self.nowhere.free
        block = self.pool.blocks[free.pop()] if free else self.pool.adopt(Block(None, 0, pool=self.nowhere))
        block.size, block.nbytes, block.heap = min(size, self.caps.max_buffer), nbytes, self.dead
        self.made.append(block)
        return block

    def record(self, step: Step, buffers: tuple, params: bytes, draw=None) -> None:
        if get_ident() != self.thread:
            self.record_real(step, buffers, params)
            return
        limit = self.caps.max_binding
        for buffer in buffers:
            if buffer is None:
                raise T.two_devices(step.program.name)
            if buffer.size > limit:
                raise BindingTooLarge(
                    f"{step.program.name}: a tensor of {buffer.size} bytes does not fit one binding "
                    f"(the adapter's limit is {limit} bytes)"
                )
        turned = step.turned
        if turned is not None:
            turned += params[len(step.params) :]
        if draw is not None:
            self.drawn[len(self.steps)] = draw
        where = step.draw if draw is not None else None
        kept = Step(step.program, params, step.grid, (), where, turned, step.meaning, step.moved)
        self.steps.append((kept, buffers))

    def draw(self, stream, elements: int) -> PlannedDraw:
        if not stream.lasting:
            raise T.Unplannable("a stream made for one call")
        self.sources.append((stream, elements))
        return PlannedDraw(self, len(self.sources) - 1)

    def left(self) -> BaseException:
        return T.Unplannable("another device")

    def upload(self, block: Block, offset: int, address: int, nbytes: int) -> None:
        """The host's bytes are no part of a plan."""
        raise T.Unplannable("the values of a tensor")

    # -- outlines of arguments

    def outline(self, tensor: torch.Tensor, block: Block) -> tuple[torch.Tensor, Block]:
        """A tensor that looks like this one, on a block of its own that looks like `block`."""
        shape, stride, offset = tensor.shape, tensor.stride(), tensor.storage_offset()
        meta = T.meta(shape, stride, tensor.dtype)
        if offset or meta.nbytes != block.nbytes:
            base, own = T.make(T.meta((-(-block.nbytes // tensor.element_size()),), None, tensor.dtype))
            outline = T.reinterpret(base, tuple(shape), stride, offset)
        else:
            outline, own = T.make(meta)
        own.size, own.nbytes = block.size, block.nbytes
        return _marked(outline, tensor), own

    # -- beginning and end

    def __enter__(self):
        lock.acquire()
        run.ensure_connected()
        self.take_real, self.record_real, self.outer = T.taker(), run.record, run.planning
        T.set_taker(self.take)
        run.record, run.planning = self.record, self
        return self

    def __exit__(self, *_):
        T.set_taker(self.take_real)
        run.record, run.planning = self.record_real, self.outer
        lock.release()

    def release(self) -> None:
        """Blocks whose tensors are gone serve the next plan."""
        for block in self.made:
            block.heap = self.nowhere.free
        self.nowhere.free += self.dead


class _Suspended:
    """Inside, this thread works for real, plan or no plan."""

    def __enter__(self):
        self.planning = run.planning_here()
        if self.planning is not None:
            self.planning.thread = None

    def __exit__(self, *_):
        if self.planning is not None:
            self.planning.thread = get_ident()


_constants: WeakValueDictionary = WeakValueDictionary()  # tensors by their blocks


def constant(make) -> torch.Tensor:
    """A tensor that is never written again, made by `make()` for real: plans may read it for as long as its owner has
    it."""
    with _Suspended():
        tensor = make()
    _constants[T.block_of(tensor)] = tensor
    return tensor


def not_lasting() -> None:
    """What is planned now has an effect beyond its steps (a warning): it is planned anew at each call."""
    planning = run.planning_here()
    if planning is not None:
        planning.lasting = False


# -- from steps to a plan


def plan_of(function, args: tuple, kwargs: dict, tensors: list, bound: list, shared: bool = False, graph=None):
    """The plan of a call: `tensors` are those among its arguments and `bound` their blocks (None for no elements).

    With `shared`, tensors on one block have one outline: for functions that write to their arguments. `graph` makes
    fewer steps of many.
    """
    with Planning() as planning:
        try:
            outlines, blocks = _outlines(planning, tensors, bound, shared)
            draws = [a for a in args if a.__class__ is Draw]
            planning.sources += range(len(draws))
            inputs, places = iter([t for t in outlines if t is not None]), iter(range(len(draws)))
            swapped = [
                PlannedDraw(planning, next(places)) if a.__class__ is Draw else _swapped(a, inputs) for a in args
            ]
            result = function(*swapped, **{k: _swapped(v, inputs) for k, v in kwargs.items()})
            return _Maker(planning, outlines, blocks).plan(result, graph), planning.lasting
        finally:
            planning.release()


def _outlines(planning: Planning, tensors: list, bound: list, shared: bool) -> tuple[list, list]:
    """An outline for each tensor, and their blocks; what has no elements stands for itself."""
    some = [block for block in bound if block is not None]
    shared = shared and len(set(some)) < len(some)
    outlines: list[_Tensor] = []
    blocks: list = []
    bases: dict[Block, tuple] = {}
    for tensor, block in zip(tensors, bound):
        outline, own = tensor, None
        if block is not None and shared:
            if block not in bases:
                bases[block] = T.make(T.meta((block.nbytes,), None, torch.uint8))
                bases[block][1].size = block.size
            base, own = bases[block]
            whole = T.reinterpret(base, (block.nbytes // tensor.element_size() * tensor.element_size(),), (1,), 0)
            typed = whole.view(tensor.dtype)
            outline = _marked(
                T.reinterpret(typed, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()), tensor
            )
        elif block is not None:
            outline, own = planning.outline(tensor, block)
        outlines.append(outline)
        blocks.append(own)
    return outlines, blocks


def _marked(outline: _Tensor, tensor: _Tensor) -> _Tensor:
    """With the tensor's bits that say conjugated or negated."""
    if tensor.is_conj():
        torch._C._set_conj(outline, True)
    if tensor.is_neg():
        torch._C._set_neg(outline, True)
    return outline


def _swapped(value, outlines):
    """An argument with its tensors replaced, in order."""
    if isinstance(value, _Tensor):
        return next(outlines)
    if value.__class__ in (list, tuple) and any([isinstance(v, _Tensor) for v in value]):
        return value.__class__([_swapped(v, outlines) for v in value])
    return value


class _Maker:
    """Names the buffers of recorded steps by their places in a plan."""

    def __init__(self, planning: Planning, arguments: list, blocks: list):
        self.planning = planning
        self.arguments = arguments
        self.count = len(blocks)
        self.known = {block: i for i, block in reversed([*enumerate(blocks)]) if block is not None}
        self.homes: dict = dict(self.known)
        self.blocks = blocks
        self.outputs: list = []

    def plan(self, result, graph) -> Plan:
        planning = self.planning
        results = self._results(result)
        steps = [(step, buffers) for step, buffers in planning.steps]
        drawn = dict(planning.drawn)
        if graph is not None:
            own = set(planning.made) - set(self.homes)
            steps, drawn = graph(steps, drawn, own, planning.caps)
        plan = Plan(())
        plan.scratch = tuple(self._spaces(steps))
        plan.steps = tuple([self._placed(step, buffers) for step, buffers in steps])
        plan.outputs = tuple(self.outputs)
        plan.draws = (tuple(planning.sources), drawn) if drawn else None
        written = {_block(b) for step, buffers in steps for b in _written(step, buffers)}
        plan.written = tuple([i for i, block in enumerate(self.blocks) if block in written])
        plan.ends = tuple([self.blocks[i].nbytes for i in plan.written])
        plan.whole = all([b is None or b.size <= planning.caps.max_binding for b in self.blocks])
        if graph is not None and plan.written:
            results = results if results.__class__ is Results else _general(results)
            results.counted = True
        plan.results = results
        return run.finish(plan, self.count)

    def _results(self, result):
        """What each result is, as runs of the plan return it."""
        single = not isinstance(result, (list, tuple))
        places = [self._result(t) for t in ((result,) if single else result)]
        if all([p is None or p.__class__ is int for p in places]) and result is not None and type(result) is not list:
            return places[0] if single else tuple(places)
        return Results(places, None if single else type(result), False)

    def _result(self, t):
        if t is None:
            return None
        if isinstance(t, (list, tuple)):
            raise T.Unplannable("lists among the results")
        if not isinstance(t, _Tensor):
            return Value(t)
        if t.device.type != T.NAME or t.is_conj() or t.is_neg():
            raise T.Unplannable("a result that is no plain tensor of the device")
        for i, argument in enumerate(self.arguments):
            if t is argument:
                return View(i)
        block = T.block_of(t) if t.numel() else None
        view = (tuple(t.shape), t.stride(), t.storage_offset())
        if block in self.known and block is not None:
            source = self.known[block]
            base = self.arguments[source] if source < self.count else self.outputs[source - self.count]
            if base.dtype != t.dtype:
                raise T.Unplannable("a result that sees another's memory as another dtype")
            return View(source, *view)
        if block is not None and block.handle is not None:
            raise T.Unplannable("a result that is somebody else's")
        meta, number = T.meta(t.shape, t.stride(), t.dtype), len(self.outputs)
        place = number
        if block is not None:
            self.homes[block] = self.known[block] = self.count + number
            if t.storage_offset() or block.nbytes != meta.nbytes:
                meta = T.meta((block.nbytes // t.element_size(),), None, t.dtype)
                place = View(self.count + number, *view)
        self.outputs.append(meta)
        return place

    def _spaces(self, steps: list) -> list:
        """Gives every other buffer a space, which the next one of its size takes over after its last step."""
        first = self.count + len(self.outputs)
        last = {_block(b): i for i, (_, buffers) in enumerate(steps) for b in buffers}
        spaces: list = []
        free: dict[int, list[int]] = {}
        for i, (_, buffers) in enumerate(steps):
            for buffer in buffers:
                block = _block(buffer)
                if block in self.homes:
                    continue
                if block.handle is not None:
                    constant = _constants.get(block)
                    if constant is None:
                        raise T.Unplannable("memory that is neither an argument nor a constant")
                    self.homes[block] = first + len(spaces)
                    spaces.append(ref(constant))
                elif free.get(block.size):
                    self.homes[block] = free[block.size].pop()
                else:
                    self.homes[block] = first + len(spaces)
                    spaces.append(block.size)
            for block in dict.fromkeys(map(_block, buffers)):
                at = self.homes[block] - first
                if last[block] == i and at >= 0 and spaces[at].__class__ is int:
                    free.setdefault(block.size, []).append(self.homes[block])
        return spaces

    def _placed(self, step: Step, buffers: tuple) -> Step:
        homes = self.homes
        step.bindings = tuple([(homes[b.block], b.offset, b.size) if type(b) is Window else homes[b] for b in buffers])
        return step


def _general(results) -> Results:
    single = results.__class__ is int
    return Results([results] if single else list(results), None if single else tuple, False)


def _block(buffer):
    return buffer.block if type(buffer) is Window else buffer


def _written(step: Step, buffers: tuple) -> list:
    return [b for b, access in zip(buffers, step.program.access) if access == "w"]
