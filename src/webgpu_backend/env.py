"""The environment switches, read once at import. Knows nothing of torch or wgpu."""

import os

FALLBACK_MODES = ("warn", "silent", "error")


def _choice(name: str, allowed: tuple[str, ...], default: str) -> str:
    value = os.environ.get(name, default).strip().lower() or default
    if value not in allowed:
        raise ValueError(f"{name}={value!r}: expected one of {', '.join(allowed)}")
    return value


def _flag(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() in ("1", "true", "yes", "on")


FALLBACK: str = _choice("WEBGPU_FALLBACK", FALLBACK_MODES, "warn")
"""What happens when an operator has neither an entry nor a decomposition: warn once, stay silent, or raise."""

ADAPTER: str = os.environ.get("WEBGPU_ADAPTER", "").strip()
"""Picks the adapter by index or by a part of its name."""

BASELINE: bool = _flag("WEBGPU_BASELINE")
"""Ask for WebGPU's default limits and no optional feature: what the weakest device offers."""

CLASS: str = _choice("WEBGPU_CLASS", ("", "gpu", "cpu"), "")
"""Overrides the class whose kernel variants are used: the ones for GPUs can be tested on a software adapter."""

MEMORY_LIMIT: int = int(os.environ.get("WEBGPU_MEMORY_LIMIT", "0") or "0")
"""Bytes of device memory this process may take; 0 leaves it to the driver."""

TUNING: str = os.environ.get("WEBGPU_TUNING", "").strip()
"""A file of tuning rows for matrix products, as `python -m benchmarks.tune` writes it; empty: the built-in ones."""

SWITCHES: dict[str, str] = {
    "WEBGPU_FALLBACK": "warn (default), silent or error: what an operator without a device kernel does",
    "WEBGPU_ADAPTER": "index or part of the name of the adapter to use",
    "WEBGPU_BASELINE": "1: default WebGPU limits and no optional features",
    "WEBGPU_CLASS": "gpu or cpu: use that class's kernel variants, whatever the adapter is",
    "WEBGPU_TUNING": "file of tuning rows for matrix products, made by `python -m benchmarks.tune`",
    "WEBGPU_MEMORY_LIMIT": "bytes of device memory this process may take",
}
