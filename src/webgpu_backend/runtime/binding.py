"""Bind groups: the buffers that a dispatch sees."""

from ..program import Window
from .blocks import Block
from .errors import DeviceError, NoBuffer
from .native import checked, ffi, lib
from .pipelines import Pipeline


def check_aliases(pipeline: Pipeline, blocks: list[Block]) -> None:
    """A dispatch that reads and writes one buffer by two bindings would be refused, with all that is recorded."""
    if len(set(blocks)) == len(blocks):
        return
    access = pipeline.program.access
    written = {b for b, a in zip(blocks, access) if a == "w"}
    if any(a == "r" and b in written for b, a in zip(blocks, access)):
        raise DeviceError(f"{pipeline.name}: one tensor would be read and written by two bindings of a kernel")


def create_group(device, layout, buffers: tuple):
    entries = ffi.new("WGPUBindGroupEntry[]", len(buffers))
    for i, buffer in enumerate(buffers):
        entry = entries[i]
        entry.binding = i
        entry.size = buffer.size
        if type(buffer) is Window:
            entry.offset = buffer.offset
            buffer = buffer.block
        if buffer.handle is None:
            raise NoBuffer("a buffer of a plan in the making was used outside it")
        entry.buffer = buffer.handle
    values = {"layout": layout, "entryCount": len(buffers), "entries": entries}
    descriptor = ffi.new("WGPUBindGroupDescriptor *", values)
    with checked("bind group"):
        return lib.wgpuDeviceCreateBindGroup(device, descriptor)


def release_group(number: int) -> None:
    lib.wgpuBindGroupRelease(ffi.cast("WGPUBindGroup", number))
