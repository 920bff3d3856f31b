"""`torch.webgpu`: the device module, its hooks and its guard."""

import os
import types
from functools import cache
from importlib import import_module

import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from ... import tensor as T
from ...plan import run as plan_run
from ...runtime import gpu as runtime
from ...runtime.gpu import gpu
from . import rng, streams
from .guard import Guard


def _index(device) -> int:
    """0, or the error torch users know for a device that is not there."""
    if device is None:
        return 0
    if isinstance(device, int):
        index = device
    else:
        device = torch.device(device)
        if device.type != T.NAME:
            raise ValueError(f"Expected a webgpu device, but got: {device}")
        index = 0 if device.index is None else device.index
    if index not in (0, -1):
        raise RuntimeError(f"webgpu: invalid device ordinal {index}: there is one device, webgpu:0")
    return 0


def is_available() -> bool:
    """An adapter is there. Creates no device."""
    return runtime.is_initialized() or _adapter_found()


@cache
def _adapter_found() -> bool:
    from ...runtime import adapters

    return bool(adapters.enumerate_adapters())


def is_initialized() -> bool:
    return runtime.is_initialized()


def init() -> None:
    gpu()


def device_count() -> int:
    """1, or 0 without an adapter."""
    return int(is_available())


def current_device() -> int:
    return 0


def set_device(device) -> None:
    """Launchers have every process of a machine select a device by its number there; they share the adapter."""
    local_rank = os.environ.get("LOCAL_RANK", "0")
    if device is not None and str(device) not in (local_rank, f"{T.NAME}:{local_rank}"):
        _index(device)


class device:
    """Context manager that selects a device: there is one, so it checks."""

    def __init__(self, device):
        self.idx = _index(device)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False


class device_of(device):
    def __init__(self, tensor):
        super().__init__(tensor.device if tensor.device.type == T.NAME else None)


def get_device_name(device=None) -> str:
    _index(device)
    return gpu().name


def get_device_properties(device=None) -> types.SimpleNamespace:
    _index(device)
    g = gpu()
    return types.SimpleNamespace(
        name=g.name,
        type=T.NAME,
        index=0,
        backend=g.adapter.info["backend_type"],
        adapter_type=g.adapter.info["adapter_type"],
        driver=g.adapter.info["description"],
        total_memory=g.total_memory,
        max_binding_bytes=g.caps.max_binding,
        max_buffer_bytes=g.caps.max_buffer,
        features=sorted(g.device.features),
        limits=dict(g.device.limits),
        multi_processor_count=_compute_units(),
        max_threads_per_multi_processor=g.caps.workgroup_size,
        warp_size=g.adapter.info.get("stackgroup_max_size") or 32,
        major=0,
        minor=0,
    )


def _compute_units() -> int:
    """WebGPU tells no number of compute units; a software adapter has as many as the machine has cores."""
    return (os.cpu_count() or 1) if gpu().caps.kind == "cpu" else 16


def get_device_capability(device=None) -> dict:
    _index(device)
    return {"supported_dtypes": set(T.DTYPES) - (set() if gpu().caps.f64 else {torch.float64, torch.complex128})}


def synchronize(device=None) -> None:
    """Waits until everything asked for so far is done."""
    _index(device)
    if runtime.is_initialized():
        gpu().queue.synchronize()


# -- memory


def memory_allocated(device=None) -> int:
    """Bytes held by tensors."""
    _index(device)
    return gpu().pool.bytes_live if runtime.is_initialized() else 0


def max_memory_allocated(device=None) -> int:
    _index(device)
    return gpu().pool.bytes_peak if runtime.is_initialized() else 0


def memory_reserved(device=None) -> int:
    """Bytes taken from the driver: tensors' blocks, with their padding, and the free ones kept for reuse."""
    _index(device)
    if not runtime.is_initialized():
        return 0
    return gpu().pool.bytes_reserved


def max_memory_reserved(device=None) -> int:
    _index(device)
    return max(gpu().pool.bytes_reserved_peak, memory_reserved()) if runtime.is_initialized() else 0


def reset_peak_memory_stats(device=None) -> None:
    _index(device)
    if runtime.is_initialized():
        pool = gpu().pool
        pool.bytes_peak = pool.bytes_live
        pool.bytes_reserved_peak = memory_reserved()


def reset_accumulated_memory_stats(device=None) -> None:
    _index(device)
    if runtime.is_initialized():
        gpu().pool.allocations = gpu().pool.ooms = 0


def memory_stats(device=None) -> dict[str, int]:
    _index(device)
    if not runtime.is_initialized():
        return {}
    pool = gpu().pool
    return {
        "allocated_bytes.all.current": pool.bytes_live,
        "allocated_bytes.all.peak": pool.bytes_peak,
        "reserved_bytes.all.current": memory_reserved(),
        "reserved_bytes.all.peak": max_memory_reserved(),
        "inactive_split_bytes.all.current": pool.bytes_pooled,
        "active.all.current": pool.live,
        "allocation.all.allocated": pool.allocations,
        "num_ooms": pool.ooms,
    }


def memory_summary(device=None, abbreviated: bool = False) -> str:
    s = memory_stats(device)
    if not s:
        return "webgpu: no device has been used yet"
    rows = [f"webgpu memory on {gpu().name}"]
    for key, value in s.items():
        amount = f"{value / 2**20:14.2f} MiB" if "bytes" in key else f"{value:14} "
        rows.append(f"  {key:36} {amount}")
    return "\n".join(rows)


def empty_cache() -> None:
    """Hands pooled blocks back to the driver."""
    if runtime.is_initialized():
        gpu().queue.flush()
        gpu().pool.release_free()


def mem_get_info(device=None) -> tuple[int, int]:
    """(free, total) as far as WebGPU lets anyone know: see `get_device_properties().total_memory`."""
    total = gpu().total_memory
    return max(total - memory_reserved(device), 0), total


# -- what torch asks of a device module


def _is_in_bad_fork() -> bool:
    return runtime.in_bad_fork()


def _lazy_init() -> None:
    if runtime.in_bad_fork():
        gpu()


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return True


class _Hooks(torch._C._acc.PrivateUse1Hooks):
    def is_available(self):
        return True

    def is_built(self):
        return True

    def has_primary_context(self, index):
        return True


def compile_shader(source: str, *, trusted: bool = False):
    from .shader import compile_shader

    return compile_shader(source, trusted=trusted)


def __getattr__(name: str):
    """`torch.webgpu.profiler` and `torch.webgpu.graph`, imported by those who use them."""
    if name == "profiler":
        return import_module(f"{__package__}.profiler")
    if name in ("graph", "WebGPUGraph"):
        return getattr(import_module(f"{__package__}.capture"), name)
    raise AttributeError(f"module 'torch.webgpu' has no attribute {name!r}")


_PUBLIC = (
    is_available, is_initialized, init, device_count, current_device, set_device, device, device_of, get_device_name,
    get_device_properties, get_device_capability, synchronize, memory_allocated, max_memory_allocated,
    memory_reserved, max_memory_reserved, reset_peak_memory_stats, reset_accumulated_memory_stats, memory_stats,
    memory_summary, empty_cache, mem_get_info, _is_in_bad_fork, _lazy_init, get_amp_supported_dtype, is_bf16_supported,
    compile_shader, __getattr__,
)  # fmt: skip


def module() -> types.ModuleType:
    m = types.ModuleType("torch.webgpu", __doc__)
    m.__dict__.update({item.__name__: item for item in _PUBLIC}, **streams.PUBLIC, **rng.PUBLIC)
    m.__dict__["_initialized"] = True  # asked by checkpointing, which then keeps the random state
    return m


def register() -> None:
    """Makes `webgpu` a device type of this process."""
    _setup_privateuseone_for_python_backend(T.NAME, backend_module=module(), hook=_Hooks(), device_guard=Guard())
    T.DEVICE = torch.device(T.NAME, 0)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    T.disconnect()
    plan_run.disconnect()
