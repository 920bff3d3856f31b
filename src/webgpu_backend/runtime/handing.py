"""Batches that another thread ends and submits, while the program records the next one.

To end a batch the library goes through all of its commands, which takes longer than recording them. It needs nothing of
Python meanwhile, so where there are cores for it, a thread of its own does this. It takes batches in their order.
Whoever needs them submitted (a wait, a read, an upload) waits for it first. What is wrong with one is dealt with there,
on the thread that asks, and batches behind one that was refused wait for that.
"""

import atexit
import os
from collections import deque
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from .blocks import unbroken
from .errors import DeviceError, DeviceLost
from .native import NULL, classify, error_handler, ffi, lib

FEWEST_CORES = 2
MOST_WAITING = 16  # batches, beyond which the program waits too

_end, _release_pass = lib.wgpuComputePassEncoderEnd, lib.wgpuComputePassEncoderRelease
_finish, _release_encoder = lib.wgpuCommandEncoderFinish, lib.wgpuCommandEncoderRelease
_submit, _release_command = lib.wgpuQueueSubmit, lib.wgpuCommandBufferRelease


def pays(kind: str) -> bool:
    return kind == "gpu" and (os.cpu_count() or 1) >= FEWEST_CORES


class Batch:
    """A batch that is recorded, and what came of it: what the library says where it refuses it, or where it cannot
    submit it."""

    __slots__ = ("encoder", "passes", "log", "count", "refused", "unsubmitted", "submitted")

    def __init__(self, encoder, passes: list, log: list, count: int):
        self.encoder = encoder
        self.passes = passes  # the open one, if any
        self.log = log
        self.count = count
        self.refused: tuple[str, str] | None = None
        self.unsubmitted: DeviceError | None = None
        self.submitted = False

    def end(self, queue: Any) -> bool:
        """Ends and submits it; whether all went well."""
        if queue.dead:
            self.unsubmitted = DeviceLost(queue.dead)
            return False
        for open_ in self.passes:
            _end(open_)
            _release_pass(open_)
        error_handler.capture("batch")
        command = _finish(self.encoder, NULL)
        self.refused = error_handler.release("batch")
        _release_encoder(self.encoder)
        if self.refused is not None:
            return False
        error_handler.capture("submit")
        _submit(queue.queue, 1, ffi.new("WGPUCommandBuffer[]", [command]))
        late = error_handler.release("submit")
        _release_command(command)
        if late is not None:
            self.unsubmitted = classify(late[0], f"submitting a batch: {late[1]}")
        self.submitted = late is None
        return self.submitted


class Hand:
    """The thread, and what it has to do. All but `_work` is called under the queue's lock."""

    def __init__(self, queue: Any):
        self.queue = queue
        self.waiting: deque[Batch] = deque()  # in order; the thread takes away those that are done
        self._calls: SimpleQueue = SimpleQueue()  # True: look at what is waiting; a lock to release then; None: the end
        self._stopped = False  # a batch has failed: the thread does no more
        self._thread: Thread | None = None

    def start(self) -> None:
        self._thread = Thread(target=self._work, name="webgpu-submit", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            while self.waiting and not self._stopped:
                batch = self.waiting[0]
                try:
                    well = batch.end(self.queue)
                except BaseException as error:  # told where somebody waits
                    well, batch.unsubmitted = False, DeviceError(f"submitting a batch: {error!r}")
                if well:
                    self.waiting.popleft()
                self._stopped = not well
            if call is not True:
                call.release()
            spares = self.queue.spares
            while spares.due and self._calls.empty() and not self._stopped:
                try:
                    spares.make()
                except BaseException as error:
                    spares.due.clear()
                    self.queue.refused = DeviceError(f"ending the commands of a replay: {error!r}")

    def _end(self) -> None:
        self._calls.put(None)
        self._thread.join()

    def give(self, batch: Batch) -> None:
        self.waiting.append(batch)
        self._calls.put(True)  # were this one lost in an interrupt, the next would do

    def wake(self) -> None:
        """Has it look at what is due (`spares`)."""
        if self._thread is None:
            self.start()
        self._calls.put(True)

    def wait(self) -> None:
        """Until all batches are submitted. Those behind one that was refused are, after that was done again."""
        queue = self.queue
        if queue.dead:  # perhaps in a child process, where there is no such thread
            self.waiting.clear()
            raise DeviceLost(queue.dead)
        reached = Lock()
        reached.acquire()
        self._calls.put(reached)
        reached.acquire()
        if self.waiting and queue.encoder is not None:  # what is open now comes after them
            self.waiting.append(_taken(queue))
        while self.waiting or queue.void:
            if queue.void:
                queue._repeat(*queue.void.pop())
            else:
                self._take()
        self._stopped = False

    def _take(self) -> None:
        """One that the thread has left, the first of which has failed."""
        batch, queue = self.waiting.popleft(), self.queue
        if batch.refused is None and batch.unsubmitted is None:
            batch.end(queue)
        if batch.refused is not None:
            queue.void.append((batch.log, batch.count, *batch.refused))
        if batch.unsubmitted is not None:
            raise batch.unsubmitted


def pass_on(queue: Any) -> None:
    """Has what is recorded submitted, by and by."""
    if not queue._opened or not can_hand_over(queue):
        queue.flush()
    else:
        hand_over(queue)


def can_hand_over(queue: Any) -> bool:
    """Whether the thread may submit what is recorded."""
    able = queue.hands_over and not queue.ring.used and queue.recording is None
    return able and not (queue._alone or queue.closed or queue.void)


def hand_over(queue: Any) -> Batch | None:
    """The open batch, which the thread has now; None where it is submitted already."""
    hand = queue._hand
    if hand._thread is None:
        hand.start()
    if len(hand.waiting) >= MOST_WAITING:
        hand.wait()
    return None if queue.encoder is None else _hand_over(queue)


def _hand_over(queue: Any) -> Batch:
    batch = _taken(queue)
    queue._hand.give(batch)
    return batch


def _taken(queue: Any) -> Batch:
    """The open batch, which the queue has no more. Calls nothing but the constructor after it is encoded: no interrupt
    comes in between."""
    queue.encode()
    batch = Batch(queue.encoder, queue._opened, queue.log[:], queue.count)
    queue._opened = []
    queue.encoder = queue.pass_ = queue.bound = None
    queue._submitted += queue.count
    queue.submits += 1
    queue.count = queue._arena_used = 0
    del queue.log[:]
    return batch


unbroken.update(f.__code__ for f in (Batch.__init__, Batch.end, Hand.give, Hand._take, _hand_over, _taken))
