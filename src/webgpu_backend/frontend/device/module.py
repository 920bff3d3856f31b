"""`torch.webgpu`: the device module, its hooks and its guard."""

import os
import types
from functools import cache
from importlib import import_module

import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from ... import tensor as T
from ...plan import places
from ...plan import run as plan_run
from ...runtime import gpu as runtime
from ...runtime.gpu import Gpu, gpu
from . import current, rng, streams
from .guard import Guard


def _index(device) -> int:
    """Of a device in any of its spellings, or of none, which is the current one; or the error torch users know for a
    device that is not there."""
    if device is None:
        return runtime.current()
    if isinstance(device, int):
        index = device
    else:
        device = torch.device(device)
        if device.type != T.NAME:
            raise ValueError(f"Expected a webgpu device, but got: {device}")
        index = -1 if device.index is None else device.index
    if index == -1:
        return runtime.current()
    if index and not runtime.is_open(index):
        from ...runtime import adapters

        adapters.device(index)
    elif index < 0:
        raise RuntimeError(f"webgpu: invalid device ordinal {index}")
    return index


def _used(device) -> Gpu | None:
    """A device that has been used."""
    index = _index(device)
    return gpu(index) if runtime.is_open(index) else None


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


@cache
def device_count() -> int:
    """How many adapters there are; software adapters count where there is nothing else. Creates no device."""
    from ...runtime import adapters

    return len(adapters.devices()) if _adapter_found() else 0


def current_device() -> int:
    return runtime.current()


def set_device(device) -> None:
    """Selects a device for this thread. A negative number selects none. Launchers have every process of a machine
    select one by its number there: where there are fewer adapters than processes, they share them."""
    if isinstance(device, int) and device < 0:
        return
    local_rank = os.environ.get("LOCAL_RANK", "")
    if local_rank.isdigit() and str(device) in (local_rank, f"{T.NAME}:{local_rank}"):
        if int(local_rank) >= device_count():
            from ...runtime import adapters

            device = adapters.first_index()
    runtime.select(_selectable(_index(device)))


def _selectable(index: int) -> int:
    """Where another device than the first may become the current one, torch is told so."""
    if index:
        current.observe()
    if index != runtime.current() and plan_run.planning_here() is not None:
        raise places.leaving()
    return index


class device:
    """Context manager that selects a device; a negative number, or None, selects none."""

    def __init__(self, device):
        none = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if none else _index(device)

    def __repr__(self):
        return f"torch.{T.NAME}.{type(self).__name__}({self.idx})"

    def __enter__(self):
        self.before = runtime.exchange(_selectable(self.idx)) if self.idx >= 0 else None
        return self

    def __exit__(self, *exc):
        if self.idx >= 0:
            runtime.exchange(self.before)
        return False


class device_of(device):
    def __init__(self, tensor):
        super().__init__(tensor.device if tensor.device.type == T.NAME else None)


def get_device_name(device=None) -> str:
    return gpu(_index(device)).name


def get_device_properties(device=None) -> types.SimpleNamespace:
    g = gpu(_index(device))
    return types.SimpleNamespace(
        name=g.name,
        type=T.NAME,
        index=g.index,
        backend=g.adapter.info["backend_type"],
        adapter_type=g.adapter.info["adapter_type"],
        driver=g.adapter.info["description"],
        total_memory=g.total_memory,
        max_binding_bytes=g.caps.max_binding,
        max_buffer_bytes=g.caps.max_buffer,
        features=sorted(g.device.features),
        limits=dict(g.device.limits),
        multi_processor_count=_compute_units(g),
        max_threads_per_multi_processor=g.caps.workgroup_size,
        warp_size=g.adapter.info.get("stackgroup_max_size") or 32,
        major=0,
        minor=0,
    )


def _compute_units(g: Gpu) -> int:
    """WebGPU tells no number of compute units; a software adapter has as many as the machine has cores."""
    return (os.cpu_count() or 1) if g.caps.kind == "cpu" else 16


def get_device_capability(device=None) -> dict:
    wide = set() if gpu(_index(device)).caps.f64 else {torch.float64, torch.complex128}
    return {"supported_dtypes": set(T.DTYPES) - wide}


def synchronize(device=None) -> None:
    """Waits until everything asked for so far is done, on one device."""
    if g := _used(device):
        g.queue.synchronize()


# -- memory


def memory_allocated(device=None) -> int:
    """Bytes held by tensors."""
    g = _used(device)
    return g.pool.bytes_live if g else 0


def max_memory_allocated(device=None) -> int:
    g = _used(device)
    return g.pool.bytes_peak if g else 0


def memory_reserved(device=None) -> int:
    """Bytes taken from the driver: tensors' blocks, with their padding, and the free ones kept for reuse."""
    g = _used(device)
    return g.pool.bytes_reserved if g else 0


def max_memory_reserved(device=None) -> int:
    g = _used(device)
    return max(g.pool.bytes_reserved_peak, g.pool.bytes_reserved) if g else 0


def reset_peak_memory_stats(device=None) -> None:
    if g := _used(device):
        g.pool.bytes_peak = g.pool.bytes_live
        g.pool.bytes_reserved_peak = g.pool.bytes_reserved


def reset_accumulated_memory_stats(device=None) -> None:
    if g := _used(device):
        g.pool.allocations = g.pool.ooms = 0


def memory_stats(device=None) -> dict[str, int]:
    g = _used(device)
    if not g:
        return {}
    pool = g.pool
    return {
        "allocated_bytes.all.current": pool.bytes_live,
        "allocated_bytes.all.peak": pool.bytes_peak,
        "reserved_bytes.all.current": pool.bytes_reserved,
        "reserved_bytes.all.peak": max_memory_reserved(g.index),
        "inactive_split_bytes.all.current": pool.bytes_pooled,
        "active.all.current": pool.live,
        "allocation.all.allocated": pool.allocations,
        "num_ooms": pool.ooms,
    }


def memory_summary(device=None, abbreviated: bool = False) -> str:
    s = memory_stats(device)
    if not s:
        return "webgpu: no device has been used yet"
    rows = [f"webgpu memory on {gpu(_index(device)).name}"]
    for key, value in s.items():
        amount = f"{value / 2**20:14.2f} MiB" if "bytes" in key else f"{value:14} "
        rows.append(f"  {key:36} {amount}")
    return "\n".join(rows)


def empty_cache() -> None:
    """Hands the pooled blocks of all devices back to the driver."""
    for g in runtime.opened():
        g.queue.flush()
        g.pool.release_free()


def mem_get_info(device=None) -> tuple[int, int]:
    """(free, total) as far as WebGPU lets anyone know: see `get_device_properties().total_memory`."""
    total = gpu(_index(device)).total_memory
    return max(total - memory_reserved(device), 0), total


def set_per_process_memory_fraction(fraction: float, device=None) -> None:
    """How much of a device's memory the process may take: more ends in `torch.OutOfMemoryError`. Above what
    `WEBGPU_MEMORY_LIMIT` allows, and a software adapter leaves to the system, it changes nothing."""
    from ...runtime import adapters

    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    g = gpu(_index(device))
    g.pool.limit = min(int(fraction * g.total_memory), adapters.memory_limit(g.adapter, g.caps))


def get_per_process_memory_fraction(device=None) -> float:
    g = gpu(_index(device))
    return min(g.pool.limit / g.total_memory, 1.0)


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
    memory_summary, empty_cache, mem_get_info, set_per_process_memory_fraction, get_per_process_memory_fraction,
    _is_in_bad_fork, _lazy_init, get_amp_supported_dtype, is_bf16_supported,
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
    if os.environ.get("LOCAL_RANK", "0") != "0":  # see `adapters.first_index`
        current.observe()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    T.disconnect()
    plan_run.disconnect()
