"""Reads that nobody waits for yet: a few bytes are on their way to the host while the device goes on with what was
recorded after them. `Queue.read` waits until the device has nothing left to do, which then starts anew."""

import struct
from time import sleep
from typing import Any

from . import faults
from .blocks import Block
from .errors import DeviceError, DeviceLost
from .handing import Batch, can_hand_over, hand_over
from .native import NULL, checked, ffi, lib, raise_interrupt, when_mapped

# Seconds between two looks. Others have the core meanwhile; who reads late is in no hurry.
PAUSE = {"gpu": 5e-5, "cpu": 5e-4}


class Late:
    """What a block held at a point of the queue."""

    __slots__ = ("queue", "size", "staging", "nbytes", "watched", "batch", "status", "info", "mapping", "value")

    def __init__(self, queue: Any, size: int, staging: Any, nbytes: int, watched: dict):
        self.queue = queue
        self.size = size  # the class of the staging buffer
        self.staging = staging
        self.nbytes = nbytes
        self.watched = watched  # kernels that may have reported a bad index: their words are behind the bytes
        self.batch: Batch | None = None  # that has the copy, where another thread submits it
        self.status = ffi.new("int *")
        self.info = when_mapped(self.status)
        self.mapping = False
        self.value: bytes | None = None

    def ask(self) -> bool:
        """Whether the bytes are here. Does not wait."""
        if self.value is not None:
            return True
        queue = self.queue
        if queue.dead:
            raise DeviceLost(queue.dead)
        if not self.mapping and not self._map():
            return False
        lib.wgpuDevicePoll(queue.device, 0, NULL)
        raise_interrupt()
        if not self.status[0]:
            return False
        queue._transfer.late.remove(self)
        if self.status[0] != lib.WGPUMapAsyncStatus_Success:
            raise DeviceError(f"reading {self.nbytes} bytes: mapping failed with status {self.status[0]}")
        mapped = lib.wgpuBufferGetConstMappedRange(self.staging, 0, self._end())
        found = bytes(ffi.buffer(ffi.cast("char *", mapped), self._end()))
        lib.wgpuBufferUnmap(self.staging)
        queue._transfer.keep(self.size, self.staging)
        self.value = found[: self.nbytes]
        words = struct.unpack_from(f"<{faults.WORDS}I", found, self.nbytes) if self.watched else (0,)
        if words[0]:
            queue.clear(queue.fault_words(), 0, faults.BYTES)
            raise faults.raised(words, self.watched)
        return True

    def _end(self) -> int:
        return self.nbytes + (faults.BYTES if self.watched else 0)

    def wait(self) -> bytes:
        pause = PAUSE[self.queue.caps.kind]
        while not self.ask():
            sleep(pause)
        return self.value

    def _map(self) -> bool:
        """Asks for the staging buffer, once the copy is submitted: work on a buffer that is asked for is refused."""
        queue = self.queue
        with queue.lock:
            if self.batch is not None:
                failed = self.batch.refused is not None or self.batch.unsubmitted is not None
                if failed or queue._hand._stopped:
                    queue._hand.wait()
                queue.raise_refused()  # also where the copy itself is in a later batch, which is submitted
                if failed:
                    raise DeviceError("what was to be read has been refused, with the batch that it was in")
                if not self.batch.submitted:
                    return False
                self.batch = None
            with checked(f"reading {self.nbytes} bytes"):
                queue._transfer.late.append(self)  # what the library writes to is there until it has
                self.mapping = True
                lib.wgpuBufferMapAsync(self.staging, lib.WGPUMapMode_Read, 0, self._end(), self.info)
        return True


def read_later(queue: Any, block: Block, offset: int, nbytes: int) -> Late:
    """A block's bytes as everything recorded so far leaves them; offset and nbytes are multiples of four. What is
    recorded is submitted, where there is a thread for that by and by."""
    with queue.lock:
        if block.lost:
            raise DeviceError(block.lost)
        queue.raise_refused()
        watched = dict(queue.watched)
        size, staging = queue._transfer.small_stage(nbytes + faults.BYTES)
        late = Late(queue, size, staging, nbytes, watched)
        encoder = queue._open_encoder()
        lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, block.handle, offset, staging, 0, nbytes)
        if watched:
            words = queue.fault_words().handle
            lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, words, 0, staging, nbytes, faults.BYTES)
        queue.bytes_read += nbytes
        if (queue.count or queue._hand.waiting) and can_hand_over(queue):  # the copies alone are submitted at once
            late.batch = hand_over(queue)
        else:
            queue._submit()
        if late.batch is None:
            queue.raise_refused()  # the copy too
    return late
