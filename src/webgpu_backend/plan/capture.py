"""Capturing: what a thread asks for is not done but kept, over the very buffers it was asked for, to be done again and
again. A captured region is a plan like any other; its buffers are those of one run.
"""

from threading import RLock, get_ident

from .. import tensor as T
from ..program import Plan, Step, Window
from ..runtime import gpu as runtime
from ..runtime.blocks import Block
from ..runtime.errors import BindingTooLarge
from ..runtime.faults import called
from ..runtime.gpu import gpu
from . import run
from .draws import PlannedDraw

lock = RLock()
_held: dict[Block, list] = {}  # blocks that captures need: their own free list, and how many captures
_returned: list[int] = []  # uids of such blocks whose tensors are gone


class Capture:
    """A region in the making, and then its plan."""

    def __init__(self):
        self.thread: int | None = None
        self.gpu = gpu()
        self.lasting = True
        self.steps: list[tuple[Step, tuple]] = []
        self.drawn: dict[int, tuple[int, int]] = {}
        self.sources: list = []
        self.free: dict[int, list[int]] = {}  # blocks of this capture whose tensors are gone, by size
        self.blocks: list[Block] = []  # all that it binds, or has given to tensors
        self.plan: Plan | None = None
        self.bound: list[Block] = []
        self.tapes: run.Tapes | None = None

    # -- what the region's operators meet

    def take(self, nbytes: int, size: int) -> Block:
        """A block of the capture's own: nobody else gets it while the capture is there."""
        if get_ident() != self.thread:
            return self.take_real(nbytes, size)
        free = self.free.setdefault(size, [])
        if free:
            block = self.gpu.pool.blocks[free.pop()]
            block.nbytes = nbytes
            self.gpu.pool.bytes_live += nbytes
            return block
        block = self.take_real(nbytes, size)
        self._hold(block)
        block.heap = free
        return block

    def record(self, step: Step, buffers: tuple, params: bytes, draw=None) -> None:
        if get_ident() != self.thread:
            self.record_real(step, buffers, params)
            return
        limit = self.gpu.caps.max_binding
        for buffer in buffers:
            if buffer is None:
                raise T.two_devices(step.program.name)
            if buffer.size > limit:
                raise BindingTooLarge(f"{step.program.name}: a tensor of {buffer.size} bytes does not fit one binding")
        if draw is not None:
            self.drawn[len(self.steps)] = draw
        where = step.draw if draw is not None else None
        kept = Step(step.program, params, step.grid, (), where, moved=step.moved)
        self.steps.append((kept, buffers))

    def draw(self, stream, elements: int) -> PlannedDraw:
        self.sources.append((stream, elements))
        return PlannedDraw(self, len(self.sources) - 1)

    def left(self) -> BaseException:
        return RuntimeError(
            f"webgpu: a region that is captured stays on one device, here {T.NAME}:{self.gpu.index}: capture a graph "
            "for each device"
        )

    def _hold(self, block: Block) -> None:
        if block in self.blocks:
            return
        self.blocks.append(block)
        entry = _held.setdefault(block, [block.heap, 0])
        entry[1] += 1
        if entry[1] == 1:
            block.heap = _returned

    # -- beginning and end

    def begin(self) -> None:
        if run.planning is not None:
            raise RuntimeError("webgpu: a graph is being captured already, or an operator is being planned")
        lock.acquire()
        run.ensure_connected()
        self.thread = get_ident()
        self.take_real, self.record_real = T.taker(), run.record
        T.set_taker(self.take)
        T.forbid(
            "webgpu: a region that is captured cannot read a tensor's values, bring some from the host or resize a "
            "storage: nothing is computed until the graph is replayed"
        )
        run.record, run.planning = self.record, self

    def end(self) -> None:
        T.set_taker(self.take_real)
        T.forbid(None)
        run.record, run.planning = self.record_real, None
        self.thread = None
        lock.release()
        self._finish()

    def _finish(self) -> None:
        """The plan over the buffers as they are."""
        places: dict[Block, int] = {}
        for step, buffers in self.steps:
            step.bindings = tuple([self._place(b, places) for b in buffers])
        self.bound = list(places)
        for block in self.bound:
            self._hold(block)
        plan = Plan(tuple([step for step, _ in self.steps]))
        plan.draws = (tuple(self.sources), self.drawn) if self.drawn else None
        self.plan = run.finish(plan, len(self.bound))
        self.tapes = run.Tapes(plan, len(self.bound))
        self.steps = []

    @staticmethod
    def _place(buffer, places: dict):
        block = buffer.block if type(buffer) is Window else buffer
        place = places.setdefault(block, len(places))
        return (place, buffer.offset, buffer.size) if type(buffer) is Window else place

    def replay(self) -> None:
        if self.plan is None:
            raise RuntimeError("webgpu: replay() of a graph that was not captured")
        with called():
            if runtime.several:
                with runtime.on(self.gpu.index):
                    run.execute(self.plan, self.bound[:], tapes=self.tapes)
            else:
                run.execute(self.plan, self.bound[:], tapes=self.tapes)

    def release(self) -> None:
        """Gives back what the capture needed."""
        pool, own = self.gpu.pool, {uid for free in self.free.values() for uid in free}
        for block in self.blocks:
            entry = _held[block]
            entry[1] -= 1
            if entry[1]:
                continue
            del _held[block]
            block.heap = entry[0]
            if block.uid in _returned:
                _returned.remove(block.uid)
                pool.give(block)
            elif block.uid in own:
                pool.give(block)
        self.blocks, self.bound, self.plan, self.tapes, self.free = [], [], None, None, {}
