"""Dispatches that are encoded as they come, and parameters in a uniform buffer, one slot each: where the adapter has no
immediates, or too few bytes of them. Slots are written when the batch is ended, and the next batch begins anew."""

from typing import Any

from ..program import Step, Window
from . import binding
from .blocks import Block
from .native import NULL, ffi, lib
from .pipelines import PARAMS_GROUP, Pipeline

SLOT = 256

_GROUP = ffi.typeof("WGPUBindGroup")
_set_pipeline = lib.wgpuComputePassEncoderSetPipeline
_set_bind_group = lib.wgpuComputePassEncoderSetBindGroup
_set_immediates = lib.wgpuComputePassEncoderSetImmediates
_dispatch = lib.wgpuComputePassEncoderDispatchWorkgroups
_write_buffer = lib.wgpuQueueWriteBuffer


class Ring:
    def __init__(self, queue: Any, slots: int):
        self.queue = queue
        self.used = 0  # bytes
        self._bytes = bytearray(SLOT * slots)
        self._offset = ffi.new("uint32_t[1]")
        self._block = self._group = None

    def set(self, encoder, params: bytes) -> None:
        """Has the next dispatch see these parameters."""
        if self._group is None:
            self._make()
        at = self.used
        self._bytes[at : at + len(params)] = params
        self.used = at + SLOT
        self._offset[0] = at
        _set_bind_group(encoder, PARAMS_GROUP, self._group, 1, self._offset)

    def _make(self) -> None:
        queue, size = self.queue, len(self._bytes)
        usage = lib.WGPUBufferUsage_Uniform | lib.WGPUBufferUsage_CopyDst
        self._block = Block(queue.pool.create_buffer(size, usage), size)
        slot = Window(self._block, 0, SLOT)
        self._group = binding.create_group(queue.device, queue.pipelines.params_layout, (slot,))

    def forget(self, dispatches: int) -> None:
        """Keeps the slots of so many dispatches: an interrupt may come before a slot's dispatch."""
        self.used = min(self.used, dispatches * SLOT)

    def write(self) -> None:
        if self.used:
            _write_buffer(self.queue.queue, self._block.handle, 0, ffi.from_buffer(self._bytes), self.used)


def record_at_once(queue: Any, pipeline: Pipeline, group: int, step: Step, buffers: tuple, params: bytes) -> int:
    """A dispatch by calls from Python. Returns how many the batch has."""
    queue.encode()
    encoder = queue.pass_
    if pipeline is not queue.bound:
        _set_pipeline(encoder, pipeline.handle)
        queue.bound = pipeline
        queue.bound_params = None
    _set_bind_group(encoder, 0, ffi.cast(_GROUP, group), 0, NULL)
    if params is not queue.bound_params:
        if pipeline.immediate:
            if params:
                _set_immediates(encoder, 0, params, len(params))
        else:
            queue.ring.set(encoder, params)
        queue.bound_params = params
    queue.log.append((step, buffers, params))
    queue.count = count = queue.count + 1  # no interrupt comes between this and the call
    _dispatch(encoder, *step.grid)
    return count
