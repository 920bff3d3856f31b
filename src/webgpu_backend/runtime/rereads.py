"""Reads of a few bytes at a time. A program that looks at one element after the other waits for the device twice: the
second such read of memory that has not changed since the first brings along what lies around it."""

import ctypes
from typing import Any

from .blocks import Block

AROUND = 64 << 10


class Rereads:
    """Owned by the queue, called under its lock."""

    def __init__(self, queue: Any):
        self.queue = queue
        self.forget()

    def forget(self) -> None:
        self.block: Block | None = None
        self.state: tuple | None = None
        self.start = 0
        self.memory = b""

    def read(self, block: Block, offset: int, nbytes: int) -> bytes:
        """The bytes from an offset on, which is a multiple of four."""
        known = self.block is block and self.state is not None and self.state == self._state() and not block.lost
        at = offset - self.start
        if not known or at < 0 or at + nbytes > len(self.memory):
            first, size = offset, (nbytes + 3) & ~3
            if known:
                first = offset & -AROUND
                size = min(AROUND, block.size - first)
            memory = ctypes.create_string_buffer(size)
            self.forget()
            self.queue.read(block, first, ctypes.addressof(memory), size)
            self.block, self.state, self.start, self.memory = block, self._state(), first, memory.raw
            at = offset - first
        return self.memory[at : at + nbytes]

    def _state(self) -> tuple | None:
        """What moves when anything may have been written; None where something is on its way, or to be told."""
        queue = self.queue
        waits = queue.encoder is not None or queue.closed or queue.void or queue.watched or queue.refused is not None
        return None if waits or queue.dead else (queue.submits, queue.bytes_uploaded)
