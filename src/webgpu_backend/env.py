"""The environment switches, read once at import. Knows nothing of torch or wgpu.

A value that makes no sense is told and passed over: the package is imported by `import torch`, in programs that may
never use the device.
"""

import os
import re
import sys
import warnings

FALLBACK_MODES = ("warn", "silent", "error")
MOST_DEVICES = 64


def tell(message: str) -> None:
    """A warning that raises nothing, not even where warnings are made errors."""
    try:
        warnings.warn(f"webgpu_backend: {message}", stacklevel=2)
    except Warning as warning:
        print(warning, file=sys.stderr)


def _choice(name: str, allowed: tuple[str, ...], default: str) -> str:
    value = os.environ.get(name, "").strip().lower() or default
    if value in allowed:
        return value
    given = ", ".join(a for a in allowed if a)
    tell(f"{name}={os.environ[name]!r} is none of {given}; {repr(default) if default else 'nothing'} is taken instead")
    return default


def _flag(name: str) -> bool:
    value = os.environ.get(name, "").strip().lower()
    if value not in ("", "0", "false", "no", "off", "1", "true", "yes", "on"):
        tell(f"{name}={os.environ[name]!r} is neither 1 nor 0; 0 is taken instead")
    return value in ("1", "true", "yes", "on")


def _size(name: str, otherwise: str) -> int:
    """Bytes, or kibibytes and so on with a suffix; 0 where nothing is said, which is `otherwise` in words."""
    value = os.environ.get(name, "").strip().lower()
    if not value:
        return 0
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", value)
    if found is None:
        tell(
            f"{name}={os.environ[name]!r} is no size: a number of bytes, or one with a suffix as in 512M or 1.5GiB, is "
            f"expected; {otherwise} is taken instead"
        )
        return 0
    return int(float(found[1]) * 1024 ** " kmgt".index(found[2] or " "))


def _count(name: str) -> int:
    value = os.environ.get(name, "").strip()
    if value and not (value.isdigit() and 0 < int(value) <= MOST_DEVICES):
        tell(f"{name}={value!r} is no number from 1 to {MOST_DEVICES}; it is passed over")
        return 0
    return int(value or 0)


def _choices(name: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Several names with commas in between."""
    values = [v.strip().lower() for v in os.environ.get(name, "").split(",") if v.strip()]
    if wrong := [v for v in values if v not in allowed]:
        tell(f"{name}: {', '.join(map(repr, wrong))} is none of {', '.join(allowed)}; it is passed over")
    return tuple([v for v in values if v in allowed])


FALLBACK: str = _choice("WEBGPU_FALLBACK", FALLBACK_MODES, "warn")
"""What happens when an operator has neither an entry nor a decomposition: warn once, stay silent, or raise."""

ADAPTER: str = os.environ.get("WEBGPU_ADAPTER", "").strip()
"""Picks the adapter by index or by a part of its name."""

DEVICES: int = _count("WEBGPU_DEVICES")
"""Makes so many devices of one adapter, for tests of programs that use several; 0: one of each adapter."""

BASELINE: bool = _flag("WEBGPU_BASELINE")
"""Ask for WebGPU's default limits and no optional feature: what the weakest device offers."""

PROFILES = (
    "f16-no-subgroups", "subgroups-8", "subgroups-16", "subgroups-32", "subgroups-64", "subgroups-unknown",
    "16k-workgroup", "256-threads", "8-buffers", "no-immediates", "no-int64", "no-f16", "no-atomics", "small-buffers",
)  # fmt: skip
PROFILE: tuple[str, ...] = _choices("WEBGPU_PROFILE", PROFILES)
"""Open the device as one that lacks something: what other adapters offer can be tested on this one."""

CLASS: str = _choice("WEBGPU_CLASS", ("", "gpu", "cpu"), "")
"""Overrides the class whose kernel variants are used: the ones for GPUs can be tested on a software adapter."""

MEMORY_LIMIT: int = _size("WEBGPU_MEMORY_LIMIT", "no limit")
"""Bytes of device memory this process may take; 0 leaves it to the driver."""

CACHE_LIMIT: int = _size("WEBGPU_CACHE_LIMIT", "the default")
"""Bytes of host memory that plans, pipelines and bind groups may take together; 0: what suits the adapter."""

BLOCKING: bool = _flag("WEBGPU_BLOCKING")
"""Wait for every dispatch: what a kernel reports is raised at the call that asked for it."""

MATRIX_UNITS: bool = _flag("WEBGPU_MATRIX_UNITS")
"""Use the adapter's matrix units, where it has some that are known to serve."""

TUNING: str = os.environ.get("WEBGPU_TUNING", "").strip()
"""A file of tuning rows for matrix products, as `python -m benchmarks.tune` writes it; empty: the built-in ones."""

COMPILE: str = _choice("WEBGPU_COMPILE", ("inductor", "replay"), "inductor")
"""What torch.compile does with a graph: fused WGSL by Inductor, or the dispatches of eager operators replayed."""

SWITCHES: dict[str, str] = {
    "WEBGPU_FALLBACK": "warn (default), silent or error: what an operator without a device kernel does",
    "WEBGPU_ADAPTER": "index or part of the name of the adapter to use",
    "WEBGPU_DEVICES": "make so many devices, webgpu:0 and on, of one adapter: for tests of programs that use several",
    "WEBGPU_BASELINE": "1: default WebGPU limits and no optional features",
    "WEBGPU_COMPILE": "inductor (default) or replay: what torch.compile makes of a graph",
    "WEBGPU_PROFILE": f"other adapters' features and limits, names with commas: {', '.join(PROFILES)}",
    "WEBGPU_CLASS": "gpu or cpu: use that class's kernel variants, whatever the adapter is",
    "WEBGPU_BLOCKING": "1: wait for every kernel, so that an error is raised at the call that made it; slow",
    "WEBGPU_MATRIX_UNITS": "1: use matrix units for 16-bit products, where the adapter has some; Linux on x86-64",
    "WEBGPU_TUNING": "file of tuning rows for matrix products, made by `python -m benchmarks.tune`",
    "WEBGPU_CACHE_LIMIT": "host memory that plans and kernels may take, likewise; 1 GiB for GPUs, else 544 MiB",
    "WEBGPU_MEMORY_LIMIT": "device memory this process may take, in bytes or as in 512M, 4G, 1.5GiB",
}
