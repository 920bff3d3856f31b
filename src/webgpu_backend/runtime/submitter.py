"""A thread that finishes and submits full batches. What wgpu does there (checks, barriers, the driver's own commands)
is as much work as recording, in native calls that let the interpreter go: meanwhile the caller records the next batch.
"""

import atexit
from queue import SimpleQueue
from threading import Condition, Thread
from typing import Any

AHEAD = 2  # batches that may wait: memory is bounded, and a device that is slower than its caller holds it up


class Submitter:
    """Batches in the order they were handed over. The callers hold the queue's lock, the thread never takes it."""

    def __init__(self, submit):
        self._submit = submit  # (encoder, dispatches) -> None
        self._jobs: SimpleQueue = SimpleQueue()
        self._changed = Condition()
        self._handed = self._done = 0
        self._error: Exception | None = None
        self._thread: Thread | None = None

    def hand(self, encoder: Any, batch: int) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._work, name="webgpu-submit", daemon=True)
            self._thread.start()
            atexit.register(self._drain)
        if self._handed - self._done >= AHEAD:
            self._until(AHEAD - 1)
        self._handed += 1
        self._jobs.put((encoder, batch))
        if self._error is not None:
            self.wait()

    def wait(self) -> None:
        """Until every batch is submitted; raises what one of them failed with."""
        if self._handed != self._done:
            self._until(0)
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def forget(self) -> None:
        """In a forked child, which has no such thread."""
        self._handed = self._done = 0
        self._changed = Condition()
        self._jobs, self._thread = SimpleQueue(), None

    def _until(self, left: int) -> None:
        with self._changed:
            while self._handed - self._done > left:
                self._changed.wait()

    def _drain(self) -> None:
        if self._thread is not None:
            self._until(0)

    def _work(self) -> None:
        while True:
            encoder, batch = self._jobs.get()
            try:
                self._submit(encoder, batch)
            except Exception as error:  # noqa: BLE001
                self._error = self._error or error
            with self._changed:
                self._done += 1
                self._changed.notify_all()
