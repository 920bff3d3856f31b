"""Which adapter is used, why, and what its device is asked for."""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import wgpu
from wgpu.backends.wgpu_native.extras import set_instance_extras

from .. import env
from ..program import Caps
from . import experimental, native, vulkan  # noqa: F401  it quickens what wgpu does

# Discrete before integrated before software: a laptop's fast card is the one people mean.
_ORDER = {"DiscreteGPU": 0, "IntegratedGPU": 1, "VirtualGPU": 2, "Unknown": 3, "CPU": 4}

_WANTED = (
    "shader-f16",
    "subgroup",
    "subgroup-barrier",
    "shader-int64",
    "shader-f64",
    "shader-float32-atomic",
    "immediates",
    "timestamp-query",
    "timestamp-query-inside-passes",
)

# WebGPU's default limits: what every conforming device has.
_BASELINE_LIMITS = {
    "max-buffer-size": 256 << 20,
    "max-storage-buffer-binding-size": 128 << 20,
    "max-uniform-buffer-binding-size": 64 << 10,
    "max-storage-buffers-per-shader-stage": 8,
    "max-uniform-buffers-per-shader-stage": 12,
    "max-compute-workgroup-storage-size": 16384,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256,
    "max-compute-workgroup-size-y": 256,
    "max-compute-workgroup-size-z": 64,
    "max-compute-workgroups-per-dimension": 65535,
    "max-immediate-size": 0,
}


# What other adapters lack, by the names of WEBGPU_PROFILE: features, limits, and how wide subgroups are known to be.
_SUBGROUPS = ("subgroup", "subgroup-barrier")
WITHOUT: dict[str, tuple[str, ...]] = {
    "f16-no-subgroups": _SUBGROUPS,
    "no-immediates": ("immediates",),
    "no-int64": ("shader-int64", "shader-f64"),
    "no-f16": ("shader-f16",),
    "no-atomics": ("shader-float32-atomic",),
}
LIMITS: dict[str, dict[str, int]] = {
    "16k-workgroup": {"max-compute-workgroup-storage-size": 16 << 10},
    "256-threads": {
        "max-compute-invocations-per-workgroup": 256,
        "max-compute-workgroup-size-x": 256,
        "max-compute-workgroup-size-y": 256,
        "max-compute-workgroup-size-z": 64,
    },
    "8-buffers": {"max-storage-buffers-per-shader-stage": 8},
    "small-buffers": {"max-storage-buffer-binding-size": 64 << 20, "max-buffer-size": 256 << 20},
}
LANES: dict[str, int] = {"subgroups-unknown": 0, **{f"subgroups-{n}": n for n in (8, 16, 32, 64)}}


@dataclass(frozen=True)
class Choice:
    adapter: Any
    reason: str


@cache
def _instance() -> None:
    """Vulkan, Metal and D3D12 only: OpenGL would list the same adapters again."""
    # Mesa's device-select layer orders adapters, which choose() does, and complains on stderr without a display.
    os.environ.setdefault("NODEVICE_SELECT", "1")
    try:
        set_instance_extras(backends=["Primary"])
    except RuntimeError:  # another user of wgpu in this process made the instance first
        logging.getLogger(__name__).debug("wgpu instance exists already; its backends stay as they are")


def enumerate_adapters() -> list[Any]:
    """Every adapter, best first, without the OpenGL twins of Vulkan ones."""
    _instance()
    adapters = list(wgpu.gpu.enumerate_adapters_sync())
    modern = [a for a in adapters if a.info["backend_type"] != "OpenGL"] or adapters
    return sorted(modern, key=lambda a: _ORDER.get(a.info["adapter_type"], 3))


def adapter_name(adapter: Any) -> str:
    return adapter.info.get("device") or adapter.info.get("description") or "unknown adapter"


def describe(adapter: Any) -> str:
    info = adapter.info
    return f"{adapter_name(adapter)} ({info['adapter_type']}, {info['backend_type']})"


def choose(adapters: list[Any] | None = None) -> list[Choice]:
    """The adapters that are webgpu:0, webgpu:1, and so on: the GPUs, each once, or where there are none the software
    adapters; with WEBGPU_ADAPTER that one alone. WEBGPU_DEVICES makes several devices of the first."""
    adapters = enumerate_adapters() if adapters is None else adapters
    if not adapters:
        raise RuntimeError(
            "webgpu: no adapter found. WebGPU needs a Vulkan, Metal or D3D12 driver; on Debian or Ubuntu without a "
            "GPU: apt-get install mesa-vulkan-drivers libvulkan1"
        )
    if env.ADAPTER:
        found = [_wanted(adapters, env.ADAPTER)]
    else:
        counted = _once([a for a in adapters if not is_software(a)] or adapters)
        reason = "number {} by type: discrete, integrated, virtual, software"
        found = [Choice(a, reason.format(i)) for i, a in enumerate(counted)]
    return [Choice(found[0].adapter, f"WEBGPU_DEVICES={env.DEVICES}")] * env.DEVICES if env.DEVICES else found


def _once(adapters: list[Any]) -> list[Any]:
    """Each GPU once: by Vulkan where Direct3D 12 shows it too, as on Windows, and by the first of several Vulkan
    drivers. Two GPUs of one model are shown by the same driver."""
    ways: dict[tuple, tuple] = {}
    for adapter in sorted(adapters, key=lambda a: a.info.get("backend_type") != "Vulkan"):
        ways.setdefault(_model(adapter), _way(adapter))
    return [a for a in adapters if not all(_model(a)) or ways[_model(a)] == _way(a)]


def _model(adapter: Any) -> tuple:
    return adapter.info.get("vendor_id"), adapter.info.get("device_id")


def _way(adapter: Any) -> tuple:
    return adapter.info.get("backend_type"), adapter.info.get("description")


def _wanted(adapters: list[Any], wanted: str) -> Choice:
    if wanted.isdigit():
        if int(wanted) >= len(adapters):
            raise RuntimeError(f"webgpu: WEBGPU_ADAPTER={wanted}, but only {len(adapters)} adapters were found")
        return Choice(adapters[int(wanted)], f"WEBGPU_ADAPTER={wanted}")
    for adapter in adapters:
        if wanted.lower() in describe(adapter).lower():
            return Choice(adapter, f"WEBGPU_ADAPTER={wanted}")
    names = "; ".join(describe(a) for a in adapters)
    raise RuntimeError(f"webgpu: WEBGPU_ADAPTER={wanted!r} matches none of: {names}")


@cache
def devices() -> list[Choice]:
    return choose()


def device(index: int) -> Choice:
    found = devices()
    if not 0 <= index < len(found):
        raise RuntimeError(no_such(index, len(found)))
    return found[index]


def no_such(index: int, count: int) -> str:
    there = "there is one device, webgpu:0" if count == 1 else f"there are {count} devices, webgpu:0 to {count - 1}"
    return f"webgpu: invalid device ordinal {index}: {there}"


def first_index(found: list[Choice] | None = None) -> int:
    """The device of a program that selects none: the first. The processes that a launcher starts on a machine take the
    adapters of the best type in turn."""
    local_rank = os.environ.get("LOCAL_RANK", "")
    if not local_rank.isdigit() or local_rank == "0":
        return 0
    found = devices() if found is None else found
    alike = [c for c in found if c.adapter.info["adapter_type"] == found[0].adapter.info["adapter_type"]]
    return int(local_rank) % len(alike)


def create_device(adapter: Any) -> tuple[Any, Caps]:
    units = 0
    if env.BASELINE:
        device = adapter.request_device_sync(label="webgpu_backend", required_limits=_BASELINE_LIMITS)
    else:
        without = {feature for name in env.PROFILE for feature in WITHOUT.get(name, ())}
        features = [f for f in _WANTED if f in adapter.features and f not in without]
        wanted: dict[str, Any] = {"required_features": features}
        if less := {limit: n for name in env.PROFILE for limit, n in LIMITS.get(name, {}).items()}:
            limits = {**adapter.limits, **{limit: min(n, adapter.limits[limit]) for limit, n in less.items()}}
            wanted["required_limits"] = limits
        units = matrix_size(adapter, features)
        device = _with_units(adapter, wanted) if units else None
        if device is None:
            units, device = 0, adapter.request_device_sync(label="webgpu_backend", **wanted)
    return device, _caps(adapter, device, units)


def _with_units(adapter: Any, wanted: dict) -> Any:
    """A device with matrix units; None where the adapter refuses one."""
    features = [*wanted["required_features"], "cooperative-matrix"]
    try:
        with experimental.allowed():
            return adapter.request_device_sync(label="webgpu_backend", **wanted | {"required_features": features})
    except RuntimeError as error:
        env.tell(f"{adapter.info['device']} opens no device with matrix units, they are not used: {error}")
        return None


def matrix_size(adapter: Any, features: list[str]) -> int:
    """Rows of the matrices that the adapter's units are to multiply; 0 where they are not asked for, or can't be."""
    if not env.MATRIX_UNITS:
        return 0
    size, why = _matrix_size(adapter, features)
    if not size:
        env.tell(f"WEBGPU_MATRIX_UNITS=1, but {why}: {adapter.info['device']} is used without matrix units")
    return size


def _matrix_size(adapter: Any, features: list[str]) -> tuple[int, str]:
    """The largest that serves, or why none does. Kernels share work out among subgroups, so all of these must be as
    wide as is known."""
    info = adapter.info
    if "cooperative-matrix" not in adapter.features or info["backend_type"] != "Vulkan":
        return 0, "wgpu shows none"
    if not {"shader-f16", "subgroup"} <= set(features):
        return 0, "they need float16 and subgroups"
    if not experimental.known():
        return 0, "this wgpu-native, or this system, gives no way to its experimental features"
    known = (info["vendor_id"], info["device_id"])
    if not _known_lanes(info) or vulkan.subgroup_width(*known) != _known_lanes(info):
        return 0, "how wide its subgroups are is not known"
    return max(vulkan.matrix_sizes(*known) & {8, 16}, default=0), "none multiplies float16 with sums in float32"


def _caps(adapter: Any, device: Any, units: int) -> Caps:
    have, limits = device.features, device.limits
    f = (lambda name: False) if env.BASELINE else have.__contains__
    lanes = _known_lanes(adapter.info) if f("subgroup") else 0
    return Caps(
        kind=env.CLASS or ("cpu" if is_software(adapter) else "gpu"),
        f16=f("shader-f16"),
        i64=f("shader-int64"),
        f64=f("shader-f64") and f("shader-int64"),  # f64 functions work on 64-bit patterns
        subgroups=lanes >= 8,
        lanes=lanes,
        matrix=units,
        f32_atomic=f("shader-float32-atomic"),
        dots=adapter.info["backend_type"] in ("Vulkan", "D3D12"),  # Metal has none: they become single products there
        immediate_bytes=min(limits["max-immediate-size"], 256) if f("immediates") else 0,
        max_binding=limits["max-storage-buffer-binding-size"] & ~255,
        max_buffer=limits["max-buffer-size"] & ~255,
        max_bindings=limits["max-storage-buffers-per-shader-stage"],
        workgroup_bytes=limits["max-compute-workgroup-storage-size"],
        workgroup_size=limits["max-compute-invocations-per-workgroup"],
        max_groups=limits["max-compute-workgroups-per-dimension"],
    )


# By vendor: NVIDIA, AMD, Intel, Apple, Qualcomm. Others have made GPUs of four lanes.
_LANES = {0x10DE: 32, 0x1002: 32, 0x8086: 8, 0x106B: 32, 0x5143: 64}


def _lanes(info: Mapping[str, Any]) -> int:
    """How many neighbours are always in one subgroup. wgpu does not say how wide those are; llvmpipe's are as wide as
    its vectors."""
    if info["backend_type"] == "Metal":
        return 32
    bits = re.search(r"llvmpipe.* (\d+) bits", info["device"])
    return int(bits[1]) // 32 if bits else _LANES.get(info["vendor_id"], 0)


def _known_lanes(info: Mapping[str, Any]) -> int:
    """The same, as far as WEBGPU_PROFILE lets it be known."""
    return min([_lanes(info), *[LANES[name] for name in env.PROFILE if name in LANES]])


def is_software(adapter: Any) -> bool:
    return adapter.info["adapter_type"] == "CPU"


def total_memory(adapter: Any, caps: Caps) -> int:
    """A software adapter has the machine's memory, one of Vulkan's what its driver says, another without memory of its
    own most of the machine's; of the rest we know only the largest buffer."""
    if is_software(adapter) and hasattr(os, "sysconf"):
        return _machine_memory()
    info = adapter.info
    if info["backend_type"] == "Vulkan":
        found = vulkan.device_memory(info["vendor_id"], info["device_id"])
        if found:
            return found
    if info["adapter_type"] == "IntegratedGPU" and hasattr(os, "sysconf"):
        return max(_machine_memory() * 3 // 4, caps.max_buffer)
    return caps.max_buffer


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def memory_limit(adapter: Any, caps: Caps) -> int:
    """Bytes that may be taken from the driver. A GPU's driver refuses by itself; a software adapter never does and
    the system would end the process, so it gets most of the machine's memory."""
    if env.MEMORY_LIMIT:
        return env.MEMORY_LIMIT
    return total_memory(adapter, caps) * 8 // 10 if is_software(adapter) else 1 << 62
