"""Timestamps around compute passes: when the GPU began and ended each."""

import struct
import time
from typing import Any

from .blocks import Block
from .errors import DeviceError
from .native import checked, ffi, lib

PASSES = 1024  # per query set, which is read when it is full


class Clock:
    """Hands the queue a description for each pass; `read` returns the passes' times in nanoseconds."""

    def __init__(self, gpu: Any):
        if "timestamp-query" not in gpu.device.features:
            raise DeviceError(f"{gpu.name} was opened without the timestamp-query feature: kernel times are not known")
        self.queue = gpu.queue
        self.period = lib.wgpuQueueGetTimestampPeriod(self.queue.queue)
        descriptor = ffi.new("WGPUQuerySetDescriptor *", {"type": lib.WGPUQueryType_Timestamp, "count": 2 * PASSES})
        with checked("query set"):
            self.queries = lib.wgpuDeviceCreateQuerySet(self.queue.device, descriptor)
        usage = lib.WGPUBufferUsage_QueryResolve | lib.WGPUBufferUsage_CopySrc
        size = 16 * PASSES
        self.results = Block(self.queue.pool.create_buffer(size, usage), size)
        self.writes = ffi.new("WGPUPassTimestampWrites *", {"querySet": self.queries})
        self.description = ffi.new("WGPUComputePassDescriptor *", {"timestampWrites": self.writes})
        self.used = 0
        self.times: list[tuple[float, float]] = []

    def next_pass(self):
        if self.used == PASSES:
            self.collect()
        self.writes.beginningOfPassWriteIndex = 2 * self.used
        self.writes.endOfPassWriteIndex = 2 * self.used + 1
        self.used += 1
        return self.description

    def collect(self) -> None:
        """Reads the times of the passes so far."""
        if not self.used:
            return
        count, self.used = self.used, 0
        encoder = self.queue._open_encoder()
        lib.wgpuCommandEncoderResolveQuerySet(encoder, self.queries, 0, 2 * count, self.results.handle, 0)
        memory = ffi.new("char[]", 16 * count)
        self.queue.read(self.results, 0, int(ffi.cast("uintptr_t", memory)), 16 * count)
        ticks = struct.unpack(f"<{2 * count}Q", ffi.buffer(memory, 16 * count))
        self.times += [(a * self.period, b * self.period) for a, b in zip(ticks[::2], ticks[1::2])]

    def against_host(self) -> float:
        """Nanoseconds to add to the GPU's clock to get those of `time.time_ns`, by the quickest of three trips."""
        found = []
        for _ in range(3):
            pass_ = lib.wgpuCommandEncoderBeginComputePass(self.queue._open_encoder(), self.next_pass())
            lib.wgpuComputePassEncoderEnd(pass_)
            lib.wgpuComputePassEncoderRelease(pass_)
            before = time.time_ns()
            self.collect()
            after = time.time_ns()
            _, end = self.times.pop()
            found.append((after - before, (before + after) / 2 - end))
        return min(found)[1]

    def close(self) -> None:
        lib.wgpuQuerySetRelease(self.queries)
        lib.wgpuBufferRelease(self.results.handle)
