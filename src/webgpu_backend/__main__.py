"""`python -m webgpu_backend`: what was found on this machine, what is used and why."""

import platform
from collections import Counter
from importlib.metadata import PackageNotFoundError, version

import torch

from . import __version__, env
from .frontend.dispatch.tiers import tiers
from .runtime import adapters
from .runtime.gpu import gpu


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed as a package"


def main() -> None:
    import os

    print(f"webgpu_backend {__version__}, torch {torch.__version__}, wgpu {_version('wgpu')}, "
          f"Python {platform.python_version()}, {platform.platform()}")  # fmt: skip
    print("\nAdapters")
    found = adapters.enumerate_adapters()
    if not found:
        print("  none: install a Vulkan, Metal or D3D12 driver")
        raise SystemExit(1)
    chosen = [choice.adapter for choice in adapters.choose(found)]
    for i, adapter in enumerate(found):
        numbers = [f"webgpu:{k}" for k, other in enumerate(chosen) if other is adapter]
        print(f"  {i}: {adapters.describe(adapter)}, driver {adapter.info['description']}"
              f" ({', '.join(numbers) or 'no device: WEBGPU_ADAPTER picks it'})")  # fmt: skip
    g = gpu()
    print(f"\nUsed: webgpu:{g.index}, {g.name} ({g.reason})")
    caps = g.caps
    opened = ", ".join(env.PROFILE) or "as it is"
    print(f"  class {caps.kind}; baseline mode {'on' if env.BASELINE else 'off'}; opened {opened}")
    print(f"  parameters: {'immediates' if caps.immediate_bytes else 'uniform ring'}; float16 "
          f"{'native' if caps.f16 else 'packed'}; int64 {'native' if caps.i64 else 'emulated'}; float64 "
          f"{'native' if caps.f64 else 'not available'}; subgroups {'yes' if caps.subgroups else 'no'}; "
          f"matrix units {f'of {caps.matrix} rows' if caps.matrix else 'not used'}")  # fmt: skip
    print(f"  features: {', '.join(sorted(g.device.features)) or 'none'}")
    print("  limits:")
    for name, value in sorted(g.device.limits.items()):
        if "buffer" in name or "compute" in name or "immediate" in name:
            print(f"    {name:44} {value:>16,}")
    print("\nEnvironment")
    for name, meaning in env.SWITCHES.items():
        print(f"  {name}={os.environ.get(name, '')!s:10} {meaning}")
    counts = Counter(tiers().values())
    print("\nOperators of aten, by tier")
    for tier in ("native", "composite", "decomposition", "fallback"):
        print(f"  {tier:14} {counts[tier]:5}")


if __name__ == "__main__":
    main()
