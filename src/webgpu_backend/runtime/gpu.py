"""The one device of the process, made at first use."""

import os
from functools import cached_property
from threading import RLock
from typing import Any

from ..program import Caps
from . import collection

SOFTWARE_POOL = 256 << 20  # bytes of free blocks; a software adapter's memory is the machine's, which others need too
on_caps: list = []  # called with the capabilities when they are known, and when they change
_lock = RLock()
_gpu: "Gpu | None" = None
_forked = False
_FORKED = (
    "Cannot re-initialize webgpu in forked subprocess. To use webgpu with multiprocessing, you must use the 'spawn' "
    "start method"
)


class Gpu:
    """Adapter, capabilities, memory and queue."""

    def __init__(self):
        # wgpu is loaded here: reading its C header takes longer than the rest of the package.
        from . import adapters
        from .buffers import Pool
        from .pipelines import Pipelines
        from .queue import Queue

        choice = adapters.choose()
        self.adapter: Any = choice.adapter
        self.reason = choice.reason
        self.name = adapters.adapter_name(self.adapter)
        self.device, caps = adapters.create_device(self.adapter)
        handle = self.device._internal
        limit = adapters.memory_limit(self.adapter, caps)
        most_pooled = limit if caps.kind == "gpu" else SOFTWARE_POOL
        self.pool = Pool(handle, caps.max_buffer, caps.max_binding, limit, most_pooled)
        self.pipelines = Pipelines(handle, caps)
        self.queue = Queue(handle, self.device.queue._internal, caps, self.pool, self.pipelines)
        self.caps = caps

    @property
    def caps(self) -> Caps:
        """What kernels may rely on. Whoever changes it (a test of another adapter's kernels) changes what plans are
        made of."""
        return self._caps

    @caps.setter
    def caps(self, caps: Caps) -> None:
        self._caps = self.queue.caps = caps
        for listener in on_caps:
            listener(caps)

    @cached_property
    def total_memory(self) -> int:
        from . import adapters

        return adapters.total_memory(self.adapter, self.caps)


def gpu() -> Gpu:
    """The device; the first call creates it (0.1 to 1 s)."""
    global _gpu
    if _gpu is not None:
        return _gpu
    if _forked:
        raise RuntimeError(_FORKED)
    with _lock:
        if _gpu is None:
            with collection.put_off():
                _gpu = Gpu()
    return _gpu


def is_initialized() -> bool:
    return _gpu is not None


def in_bad_fork() -> bool:
    return _forked


def _after_fork() -> None:
    """A child must not touch the parent's device: the driver's threads are not there and calls hang."""
    global _gpu, _forked, _lock
    _lock = RLock()
    if _gpu is not None:
        _forked = True
        # The parent's objects stay referenced: releasing them in the child would call into the driver.
        _keep.append(_gpu)
        _gpu.queue.lock = RLock()
        _gpu.queue.dead = _gpu.pool.dead = _FORKED
        _gpu = None


_keep: list[Gpu] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
