"""From a Program to a compiled pipeline: layouts by access pattern, trusted modules, readable WGSL errors.

A driver keeps the machine code of every pipeline, so their number is bounded (`budget`): those not used for longest
are released, and compiled again when they are asked for.
"""

import ctypes
import re
from collections.abc import Callable
from contextlib import suppress

from ..program import Caps, Program
from . import budget
from .errors import DeviceError
from .native import checked, ffi, lib, text

PARAMS_GROUP = 1
_STAGE = lib.WGPUShaderStage_Compute


class Layout:
    """A bind group layout and the bind groups made for it, by buffers."""

    __slots__ = ("handle", "groups", "access")

    def __init__(self, handle, access: str):
        self.handle = handle
        self.access = access
        self.groups: dict[tuple, int] = {}  # numbers, as what is packed has them


class Pipeline:
    __slots__ = ("handle", "number", "layout", "groups", "immediate", "name", "program", "guarded")

    def __init__(self, handle, layout: Layout, immediate: bool, program: Program):
        self.handle = handle
        self.number = int(ffi.cast("uintptr_t", handle))
        self.layout = layout
        self.groups = layout.groups
        self.immediate = immediate  # parameters as immediates; else in the uniform ring
        self.program = program
        self.name = program.name
        self.guarded = program.guarded


class Pipelines:
    """Pipelines by what they are made of: programs of the same text share one.

    They are in two generations. Whoever asks for one of the earlier generation brings it into the recent one; when that
    has half of what may be kept, the earlier one is released and the recent one becomes the earlier. So what was used
    lately stays, and a pipeline that is in use costs no account of its uses.
    """

    def __init__(self, device, caps: Caps):
        self.device = device
        self.caps = caps
        self.layouts: dict[str, Layout] = {}
        self._pipeline_layouts: dict[tuple[str, int], object] = {}
        self.most, self.most_bytes = budget.pipelines(caps.kind)
        self.recent: dict[tuple, Pipeline] = {}
        self.earlier: dict[tuple, Pipeline] = {}
        self._recent_bytes = 0
        self.on_release: Callable[[], None] = lambda: None  # called before pipelines are released
        self.compiled = 0
        self.released = 0
        self.params_layout = self._bind_group_layout([(lib.WGPUBufferBindingType_Uniform, True)])

    def __len__(self) -> int:
        return len(self.recent) + len(self.earlier)

    @property
    def text_bytes(self) -> int:
        """Bytes of the texts of the pipelines that are there."""
        return sum(len(key[0]) for some in (self.recent, self.earlier) for key in list(some))

    def find(self, program: Program) -> Pipeline:
        """The pipeline of a program, compiled where it is not there."""
        text = program.wgsl
        key = (text, program.entry, program.access, program.param_bytes, program.trusted, program.guarded)
        found = self.recent.get(key)
        if found is None:
            found = self.earlier.pop(key, None)
            if len(self.recent) >= self.most // 2 or self._recent_bytes + len(text) > self.most_bytes // 2:
                self._release_earlier()
            if found is None:
                found = self.compile(program)
            self.recent[key] = found
            self._recent_bytes += len(text)
        return found

    def _release_earlier(self) -> None:
        """Ends a generation. An interrupt may lose pipelines here, but none that is released is found again."""
        self.on_release()
        recent, self.recent, self._recent_bytes = self.recent, {}, 0
        gone, self.earlier = self.earlier, recent
        while gone:
            lib.wgpuComputePipelineRelease(gone.popitem()[1].handle)
            self.released += 1
        if self.caps.kind == "cpu":
            _trim()

    def layout(self, access: str) -> Layout:
        found = self.layouts.get(access)
        if found is None:
            kinds = {"r": lib.WGPUBufferBindingType_ReadOnlyStorage, "w": lib.WGPUBufferBindingType_Storage}
            found = self.layouts[access] = Layout(self._bind_group_layout([(kinds[a], False) for a in access]), access)
        return found

    def compile(self, program: Program) -> Pipeline:
        access = program.access + ("w" if program.guarded else "")
        layout = self.layout(access)
        immediate = program.param_bytes <= self.caps.immediate_bytes
        module = self._module(program, self.source(program))
        entry, _keep1 = text(program.entry)
        label, _keep2 = text(program.name)
        descriptor = ffi.new(
            "WGPUComputePipelineDescriptor *",
            {
                "label": label,
                "layout": self._pipeline_layout(access, program.param_bytes if immediate else -1),
                "compute": {"module": module, "entryPoint": entry},
            },
        )
        try:
            with checked(f"pipeline {program.name}"):
                handle = lib.wgpuDeviceCreateComputePipeline(self.device, descriptor)
        finally:
            lib.wgpuShaderModuleRelease(module)
        self.compiled += 1
        return Pipeline(handle, layout, immediate, program)

    def source(self, program: Program) -> str:
        """The program's text with the one line that says where its parameters are."""
        if not program.param_bytes:
            return program.wgsl
        if program.param_bytes <= self.caps.immediate_bytes:
            where = "var<immediate> p: P;"
        else:
            where = f"@group({PARAMS_GROUP}) @binding(0) var<uniform> p: P;"
        return f"{program.wgsl}\n{where}"  # at the end: lines keep their numbers

    def _module(self, program: Program, source: str):
        code, _keep = text(source)
        chain = ffi.new("WGPUShaderSourceWGSL *", {"chain": {"sType": lib.WGPUSType_ShaderSourceWGSL}, "code": code})
        label, _keep2 = text(program.name)
        descriptor = ffi.new(
            "WGPUShaderModuleDescriptor *", {"nextInChain": ffi.cast("WGPUChainedStruct *", chain), "label": label}
        )
        try:
            with checked(f"WGSL of {program.name}"):
                if program.trusted:
                    return lib.wgpuDeviceCreateShaderModuleTrusted(self.device, descriptor, 0)
                return lib.wgpuDeviceCreateShaderModule(self.device, descriptor)
        except DeviceError as error:
            raise DeviceError(f"{error}\n{_numbered(source, str(error))}") from None

    def _bind_group_layout(self, kinds: list[tuple[int, bool]]):
        entries = ffi.new("WGPUBindGroupLayoutEntry[]", len(kinds))
        for i, (kind, dynamic) in enumerate(kinds):
            entries[i].binding = i
            entries[i].visibility = _STAGE
            entries[i].buffer.type = kind
            entries[i].buffer.hasDynamicOffset = dynamic
        descriptor = ffi.new("WGPUBindGroupLayoutDescriptor *", {"entryCount": len(kinds), "entries": entries})
        with checked("bind group layout"):
            return lib.wgpuDeviceCreateBindGroupLayout(self.device, descriptor)

    def _pipeline_layout(self, access: str, immediate_bytes: int):
        """`immediate_bytes` is -1 where the parameters are in the uniform ring."""
        key = (access, immediate_bytes)
        found = self._pipeline_layouts.get(key)
        if found is None:
            groups = [self.layout(access).handle] + ([self.params_layout] if immediate_bytes < 0 else [])
            array = ffi.new("WGPUBindGroupLayout[]", groups)
            descriptor = ffi.new(
                "WGPUPipelineLayoutDescriptor *",
                {
                    "bindGroupLayoutCount": len(groups),
                    "bindGroupLayouts": array,
                    "immediateSize": max(immediate_bytes, 0),
                },
            )
            with checked("pipeline layout"):
                found = lib.wgpuDeviceCreatePipelineLayout(self.device, descriptor)
            self._pipeline_layouts[key] = found
        return found


def _trim() -> None:
    """Asks the C library to give memory that is free back to the system: glibc keeps most of what the machine code of a
    generation took, 280 MB of 300."""
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def _numbered(source: str, message: str) -> str:
    """The source around the line that the message names, numbered, with that line marked."""
    at = re.search(r":(\d+):\d+", message)
    lines = source.splitlines()
    bad = int(at.group(1)) if at else 0
    low, high = (max(bad - 6, 0), bad + 5) if bad else (0, 40)
    return "\n".join(
        f"{'>' if i == bad else ' '} {i:4} | {line}" for i, line in enumerate(lines[low:high], start=low + 1)
    )
