"""Streams and events: one queue, in order."""

import time

import torch

from ... import tensor as T
from ...runtime import gpu as runtime
from .constructors import by_device, is_ours

_BaseStream, _BaseEvent = torch.Stream, torch.Event


def _wait() -> None:
    if runtime.is_initialized():
        runtime.gpu().queue.synchronize()


def _is_idle() -> bool:
    return not runtime.is_initialized() or runtime.gpu().queue.is_idle()


class Stream(_BaseStream):
    """The device's one queue. Work on it runs in the order it was asked for."""

    def __new__(cls, device=None, priority: int = 0):
        if device is not None and not isinstance(device, int) and not is_ours(device):
            raise ValueError(f"Expected a webgpu device, but got: {device}")
        return super().__new__(cls, device=T.DEVICE)

    def synchronize(self) -> None:
        _wait()

    def query(self) -> bool:
        """All work is done."""
        return _is_idle()

    def wait_event(self, event) -> None:
        if not isinstance(event, _BaseEvent):
            raise TypeError(f"expected a torch.webgpu.Event, got {type(event).__name__}")

    def wait_stream(self, stream) -> None:
        """In order already."""

    def record_event(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False

    def __eq__(self, other):
        return isinstance(other, Stream)

    def __hash__(self):
        return hash((T.NAME, 0))

    def __repr__(self):
        return "<torch.webgpu.Stream device=webgpu:0>"


class Event(_BaseEvent):
    """A point in the queue. `elapsed_time` measures between two points at which the queue was drained."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, device=None):
        if interprocess:
            raise NotImplementedError("webgpu: events between processes are not supported")
        return super().__new__(cls, device=T.DEVICE, enable_timing=enable_timing)

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, device=None):
        self.enable_timing = enable_timing
        self.time: float | None = None

    def record(self, stream=None) -> None:
        if self.enable_timing:
            _wait()
        self.time = time.perf_counter()

    def wait(self, stream=None) -> None:
        """In order already."""

    def query(self) -> bool:
        """All work before the event is done; False also where only what came after it is not."""
        return self.time is None or _is_idle()

    def synchronize(self) -> None:
        _wait()

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds."""
        if not (self.enable_timing and end.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.time is None or end.time is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end.time - self.time) * 1e3

    def __repr__(self):
        return "<torch.webgpu.Event>"


_stream: Stream | None = None


def current_stream(device=None) -> Stream:
    global _stream
    if _stream is None:
        _stream = Stream()
    return _stream


def default_stream(device=None) -> Stream:
    return current_stream()


def stream(stream: Stream) -> Stream:
    """Context manager; there is one stream."""
    return stream


def _make_stream(device=None, *, priority=0, **rest):
    """torch's own streams of this device would not wait for anything."""
    if rest or not (device is None or isinstance(device, int) or is_ours(device)):
        return NotImplemented
    return Stream(None, priority)


def _make_event(device=None, *, enable_timing=False, blocking=False, interprocess=False):
    if not (device is None or is_ours(device)):
        return NotImplemented
    return Event(enable_timing, blocking, interprocess)


PUBLIC = {each.__name__: each for each in (Stream, Event, current_stream, default_stream, stream)}


def stream_class(base: type) -> type:
    """In the place of torch.Stream."""
    return by_device(base, _make_stream)


def event_class(base: type) -> type:
    """In the place of torch.Event."""
    return by_device(base, _make_event)
