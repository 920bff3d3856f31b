"""The devices of the process, each made at its first use.

Most programs use one. While only one is open, `gpu()` is that one and nobody asks for more. From the moment a second
one is open there is a *current device* in every thread, which `gpu()` is then; `on_several` is called once before.
"""

import os
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from threading import RLock
from typing import Any

from .. import env
from ..program import Caps
from . import collection

SOFTWARE_POOL = 256 << 20  # bytes of free blocks; a software adapter's memory is the machine's, which others need too
on_caps: list = []  # called with a device's index and capabilities when they are known, and when they change
on_several: list = []  # called when a second device is about to be there
several = False  # more than one device has been opened
_lock = RLock()
_gpu: "Gpu | None" = None  # the device, while there is one
_open: "dict[int, Gpu]" = {}
_pools: list = []  # of all devices: the numbers of their blocks are different
_first: int | None = None  # the device of threads that have selected none
_chosen: set[int] = set()  # those that threads have selected before one was open
_forked = False
_FORKED = (
    "Cannot re-initialize webgpu in forked subprocess. To use webgpu with multiprocessing, you must use the 'spawn' "
    "start method"
)


class _Here(threading.local):
    index: int | None = None  # the device that this thread has selected


_here = _Here()


class Gpu:
    """Adapter, capabilities, memory and queue."""

    def __init__(self, index: int = 0):
        # wgpu is loaded here: reading its C header takes longer than the rest of the package.
        from . import adapters, matrices
        from .buffers import Pool
        from .pipelines import Pipelines
        from .queue import Queue

        choice = adapters.device(index)
        self.index = index
        self.adapter: Any = choice.adapter
        self.reason = choice.reason
        self.name = adapters.adapter_name(self.adapter)
        self.device, caps = adapters.create_device(self.adapter)
        handle = self.device._internal
        limit = adapters.memory_limit(self.adapter, caps)
        most_pooled = limit if caps.kind == "gpu" else SOFTWARE_POOL
        self.pool = Pool(handle, caps.max_buffer, caps.max_binding, limit, most_pooled, index, _pools)
        self.pipelines = Pipelines(handle, caps)
        self.queue = Queue(handle, self.device.queue._internal, caps, self.pool, self.pipelines)
        if caps.matrix and not matrices.work(self.queue, self.pool, caps):
            env.tell(f"the matrix units of {self.name} did not compute a product as they should: they are not used")
            caps = replace(caps, matrix=0)
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
            listener(self.index, caps)

    @cached_property
    def total_memory(self) -> int:
        from . import adapters

        return adapters.total_memory(self.adapter, self.caps)


def gpu(index: int | None = None) -> Gpu:
    """A device, this thread's current one where none is named; the first call for it creates it (0.1 to 1 s)."""
    alone = _gpu
    if alone is not None and (index is None or index == alone.index):
        return alone
    if index is None:
        index = current()
    found = _open.get(index)
    return _created(index) if found is None else found


def _created(index: int) -> Gpu:
    global _gpu, several
    if _forked:
        raise RuntimeError(_FORKED)
    with _lock:
        if index not in _open:
            with collection.put_off():
                made = Gpu(index)
            if not _open and _chosen | {_first_index()} == {index}:
                _gpu = _open[index] = made
                return made
            if not several:
                several = True  # before: whoever connects to the only device meanwhile asks for this afterwards
                try:
                    for listener in on_several:
                        listener()
                except BaseException:
                    several = False
                    raise
            _open[index] = made
            _gpu = None
        return _open[index]


# -- the current device


def current() -> int:
    """The index of this thread's current device. Creates none."""
    index = _here.index
    return _first_index() if index is None else index


def _first_index() -> int:
    global _first
    if _first is None:
        from . import adapters

        with _lock:
            _first = adapters.first_index()
    return _first


def select(index: int) -> None:
    """Makes a device the current one of this thread. What is selected before any device is used becomes that of other
    threads too."""
    global _first
    exchange(index)
    if not _open:
        _first = index


def exchange(index: int | None) -> int | None:
    """Makes a device the current one of this thread; None takes back what it has selected. Returns what it had
    selected, for `exchange` to put back."""
    before = _here.index
    if index is not None and index not in _open:
        if _open:
            gpu(index)
        elif index:
            from . import adapters

            adapters.device(index)  # which is there, or is told not to be
        _chosen.add(index)
    _here.index = index
    return before


@contextmanager
def on(index: int):
    """Inside, this is the current device."""
    before = exchange(index)
    try:
        yield
    finally:
        exchange(before)


def opened() -> "list[Gpu]":
    """The devices that are in use."""
    return list(_open.values())


def is_open(index: int) -> bool:
    return index in _open


def is_initialized() -> bool:
    return bool(_open)


def in_bad_fork() -> bool:
    return _forked


def _after_fork() -> None:
    """A child must not touch the parent's devices: the driver's threads are not there and calls hang."""
    global _gpu, _forked, _lock
    _lock = RLock()
    if _open:
        _forked = True
        # The parent's objects stay referenced: releasing them in the child would call into the driver.
        _keep.extend(_open.values())
        for device in _open.values():
            device.queue.lock = RLock()
            device.queue.dead = device.pool.dead = _FORKED
        _open.clear()
        _gpu = None


_keep: list[Gpu] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
