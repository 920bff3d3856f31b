"""Copies between host and device. Large ones go through a few staging buffers, filled or emptied by several threads
while the device works on the others: `write_buffer` and a single mapped buffer reach a third of this."""

import ctypes
import os
from concurrent.futures import Future, ThreadPoolExecutor
from struct import pack
from typing import Any

from ..program import Caps, Program, Step
from .errors import DeviceError
from .native import checked, ffi, lib, raise_interrupt, when_mapped

LARGE = 4 << 20  # smaller transfers are not worth the threads
CHUNK = 16 << 20
STAGES = 4
LANES = min(4, os.cpu_count() or 1)

# A few bytes for a GPU travel among a kernel's parameters: `write_buffer` makes a staging buffer for them (1.3 ms on an
# H200), and would come before what is recorded already.
FEW = 64
_STORE = Program(
    "upload",
    """
    struct P {
        first: u32, count: u32, unused_0: u32, unused_1: u32,
        a: vec4<u32>, b: vec4<u32>, c: vec4<u32>, d: vec4<u32>,
    }
    @group(0) @binding(0) var<storage, read_write> out: array<u32>;
    @compute @workgroup_size(16)
    fn main(@builtin(local_invocation_index) i: u32) {
        var words = array<vec4<u32>, 4>(p.a, p.b, p.c, p.d);
        if (i < p.count) {
            out[p.first + i] = words[i / 4u][i % 4u];
        }
    }
    """,
    "w",
    16 + FEW,
)


def fits_parameters(caps: Caps, block: Any, nbytes: int) -> bool:
    """Whether bytes for a block can go as a kernel's parameters."""
    few = caps.kind == "gpu" and nbytes <= FEW and _STORE.param_bytes <= caps.immediate_bytes
    return few and block.size <= caps.max_binding


def stored(offset: int, data: bytes) -> tuple[Step, bytes]:
    """The step that writes these bytes, and its parameters."""
    params = pack("<4I", offset // 4, len(data) // 4, 0, 0) + data.ljust(FEW, b"\0")
    return Step(_STORE, params, (1, 1, 1)), params


class _Stage:
    """One staging buffer, and the threads' work on its mapped memory."""

    def __init__(self, handle: Any, mode: int):
        self.handle = handle
        self.mode = mode
        self.is_mapped = False
        self.jobs: list[Future] = []
        self.status = ffi.new("int *")
        self.info = when_mapped(self.status)

    def release(self) -> None:
        """Waits for the threads and gives the memory back to the device."""
        interrupt = None
        while self.jobs:
            try:
                self.jobs[-1].result()
                self.jobs.pop()
            except KeyboardInterrupt as error:
                interrupt = error  # after the threads have let go of the memory
        if self.is_mapped:
            self.is_mapped = False
            lib.wgpuBufferUnmap(self.handle)
        if interrupt is not None:
            raise interrupt


class Transfer:
    """Owned by the queue, called under its lock."""

    def __init__(self, queue: Any):
        self.queue = queue
        self.threads: ThreadPoolExecutor | None = None
        self.stages: dict[int, list[_Stage]] = {}
        self.small: dict[int, list] = {}  # buffers for short reads, by size
        self.late: list = []  # reads whose buffers are asked for: see `late`

    def upload(self, block: Any, offset: int, address: int, nbytes: int) -> None:
        """Host to device, after all that was submitted; the batch must be empty."""
        stages = self._stages(lib.WGPUMapMode_Write)
        try:
            for i, at in enumerate(range(0, nbytes, CHUNK)):
                stage, size = stages[i % STAGES], min(CHUNK, nbytes - at)
                self._copy(self._map(stage), address + at, size, stage)
                stage.release()
                self._encode(stage.handle, 0, block.handle, offset + at, size)
        finally:
            for stage in stages:
                stage.release()

    def download(self, block: Any, offset: int, address: int, nbytes: int) -> None:
        """Device to host, after all that was recorded."""
        stages = self._stages(lib.WGPUMapMode_Read)
        try:
            for i, at in enumerate(range(0, nbytes, CHUNK)):
                stage, size = stages[i % STAGES], min(CHUNK, nbytes - at)
                stage.release()
                self._encode(block.handle, offset + at, stage.handle, 0, size)
                self._copy(address + at, self._map(stage), size, stage)
        finally:
            for stage in stages:
                stage.release()

    def small_stage(self, size: int) -> tuple[int, Any]:
        """A size class and a buffer of it, which is the reader's until it is unmapped again: a wait may be interrupted,
        and work on a mapped buffer ends the process."""
        wanted = 4096
        while wanted < size:
            wanted *= 8
        kept = self.small.get(wanted)
        if kept:
            return wanted, kept.pop()
        usage = lib.WGPUBufferUsage_MapRead | lib.WGPUBufferUsage_CopyDst
        return wanted, self.queue.pool.create_buffer(wanted, usage)

    def keep(self, size: int, staging: Any) -> None:
        """Takes such a buffer back, which is not mapped any more."""
        self.small.setdefault(size, []).append(staging)

    def _stages(self, mode: int) -> list[_Stage]:
        found = self.stages.get(mode)
        if found is None:
            reading = mode == lib.WGPUMapMode_Read
            usage = (
                lib.WGPUBufferUsage_MapRead | lib.WGPUBufferUsage_CopyDst
                if reading
                else lib.WGPUBufferUsage_MapWrite | lib.WGPUBufferUsage_CopySrc
            )
            found = [_Stage(self.queue.pool.create_buffer(CHUNK, usage), mode) for _ in range(STAGES)]
            self.stages[mode] = found
        if self.threads is None:
            self.threads = ThreadPoolExecutor(LANES, thread_name_prefix="webgpu-transfer")
        return found

    def _map(self, stage: _Stage) -> int:
        stage.status[0] = 0
        stage.is_mapped = True  # from now on: the wait may be interrupted
        with checked("mapping a staging buffer"):
            lib.wgpuBufferMapAsync(stage.handle, stage.mode, 0, CHUNK, stage.info)
            self.queue._wait()
        raise_interrupt()
        if stage.status[0] != lib.WGPUMapAsyncStatus_Success:
            raise DeviceError(f"mapping a staging buffer failed with status {stage.status[0]}")
        get = lib.wgpuBufferGetConstMappedRange if stage.mode == lib.WGPUMapMode_Read else lib.wgpuBufferGetMappedRange
        return int(ffi.cast("uintptr_t", get(stage.handle, 0, CHUNK)))

    def _copy(self, target: int, source: int, nbytes: int, stage: _Stage) -> None:
        lane = (nbytes // LANES + 4095) & ~4095
        for at in range(0, nbytes, lane):
            job = self.threads.submit(ctypes.memmove, target + at, source + at, min(lane, nbytes - at))
            stage.jobs.append(job)

    def _encode(self, source: Any, source_offset: int, target: Any, target_offset: int, nbytes: int) -> None:
        encoder = self.queue._open_encoder()
        lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, source, source_offset, target, target_offset, nbytes)
        before = self.queue.refused
        self.queue.flush()
        if self.queue.refused is not before:  # this copy: nothing else is in the batch
            self.queue.raise_refused()
