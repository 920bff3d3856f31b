"""Commands of tapes that are ended before they are asked for.

To end a batch takes the library ten times as long as to submit it, and meanwhile the GPU has nothing to do. What a tape
encodes is the same each time. So the thread that ends batches (`handing`) also ends those of a tape's next replay. It
begins when the program waits, as it does for each token of a text: then the GPU is busy with this replay, and nobody
else wants the interpreter. Where nobody waits, the GPU has other work, and what is short is ended as soon as it is
submitted: neither gets any. Such commands keep what they use alive: they go when a bind group or a pipeline does
(`Queue.epoch`).
"""

from collections import deque
from threading import Lock
from typing import Any

from .blocks import unbroken
from .native import NULL, error_handler, lib

MOST = 32  # tapes that have some at a time: a text that grows is in other memory now and then
REPLAYS = 2  # after so many a tape is thought to be replayed again
LEAST = 64  # dispatches

_create = lib.wgpuDeviceCreateCommandEncoder
_begin, _end = lib.wgpuCommandEncoderBeginComputePass, lib.wgpuComputePassEncoderEnd
_release_pass, _release_encoder = lib.wgpuComputePassEncoderRelease, lib.wgpuCommandEncoderRelease
_finish, _release = lib.wgpuCommandEncoderFinish, lib.wgpuCommandBufferRelease


class Spares:
    def __init__(self, queue: Any):
        self.queue = queue
        self.ready: dict = {}  # commands by their tapes, those made last at the end
        self.wanted: deque = deque(maxlen=MOST)  # tapes
        self.due: deque = deque()  # those that the thread is at
        self.lock = Lock()  # bind groups and pipelines stay while it is held, and so does `ready`

    def want(self, tape) -> None:
        """Asks for one, unless there is one. Called under the queue's lock."""
        if len(tape.log) >= LEAST and tape not in self.ready and tape not in self.wanted:
            self.wanted.append(tape)

    def begin(self) -> None:
        """Has the thread make what is wanted. Called under the queue's lock, before a wait."""
        if not self.wanted:
            return
        self.due.extend(self.wanted)
        self.wanted.clear()
        self.queue._hand.wake()

    def make(self) -> None:
        """One that is due. Called on the thread."""
        tape, queue = self.due[0], self.queue
        with self.lock:
            holds = tape.epoch == queue.epoch and tape not in self.ready and not queue.dead
            if holds:  # once they are encoded, the encoder holds the bind groups and pipelines
                encoder = _create(queue.device, NULL)
                opened = _begin(encoder, NULL)
                tape.entries.encode(opened, 0, len(tape.log))
        if holds:
            _end(opened)
            _release_pass(opened)
            error_handler.capture("batch")
            command = _finish(encoder, NULL)
            refused = error_handler.release("batch")
            _release_encoder(encoder)
            with self.lock:
                if refused is None and tape.epoch == queue.epoch:
                    self.ready[tape] = command
                    if len(self.ready) > MOST:
                        command = self.ready.pop(next(iter(self.ready)))
                    else:
                        command = None
            if command is not None:  # it would be refused again: the way without a spare tells whom
                _release(command)
        self.due.popleft()

    def submit(self, tape) -> bool:
        """Submits a tape's commands behind all that is recorded; False where none are ready."""
        queue = self.queue
        if tape not in self.ready or queue._alone or queue.dead:
            return False
        if queue._hand.waiting:
            queue._hand.wait()
        if queue.encoder is not None:
            queue._close()
        if queue.void:  # that was refused
            queue.flush()
        if not self._close(tape):
            return False
        queue._submit()
        queue.log.clear()
        return True

    def _close(self, tape) -> bool:
        """Puts them with those to be submitted."""
        with self.lock:
            command = self.ready.pop(tape, None)
        if command is None:
            return False
        self.queue.closed.append(command)
        self.queue._submitted += len(tape.log)
        self.queue.submits += 1
        return True

    def clear(self) -> None:
        """Bind groups or pipelines are about to go; the queue's epoch has moved."""
        if self.queue.dead:  # perhaps in a child process, where a thread that is not there may hold the lock
            return
        with self.lock:
            gone, self.ready = self.ready, {}
        for command in gone.values():
            _release(command)


unbroken.update(f.__code__ for f in (Spares.make, Spares._close, Spares.clear))
