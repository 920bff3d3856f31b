"""Streams and events: every device has one queue, in order."""

import time

import torch

from ... import tensor as T
from ...runtime import gpu as runtime
from .constructors import by_device, is_ours

_BaseStream, _BaseEvent = torch.Stream, torch.Event


def _index(device) -> int:
    """Of a device in any of its spellings, or of none, which is the current one."""
    if device is not None and not isinstance(device, int):
        if not is_ours(device):
            raise ValueError(f"Expected a webgpu device, but got: {device}")
        device = torch.device(device).index
    return runtime.current() if device is None or device < 0 else device


def _wait(index: int) -> None:
    if runtime.is_open(index):
        runtime.gpu(index).queue.synchronize()


def _is_idle(index: int) -> bool:
    return not runtime.is_open(index) or runtime.gpu(index).queue.is_idle()


class Stream(_BaseStream):
    """A device's one queue. Work on it runs in the order it was asked for."""

    def __new__(cls, device=None, priority: int = 0):
        made = super().__new__(cls, device=torch.device(T.NAME, _index(device)))
        made.index = _index(device)
        return made

    @property
    def device(self) -> torch.device:
        """torch's own says that it is the first, of all."""
        return torch.device(T.NAME, self.index)

    def synchronize(self) -> None:
        _wait(self.index)

    def query(self) -> bool:
        """All work is done."""
        return _is_idle(self.index)

    def wait_event(self, event) -> None:
        """In order already; an event of another device is waited for here."""
        if not isinstance(event, _BaseEvent):
            raise TypeError(f"expected a torch.webgpu.Event, got {type(event).__name__}")
        if event.index != self.index:
            event.synchronize()

    def wait_stream(self, stream) -> None:
        """In order already; that of another device is waited for here."""
        if stream.index != self.index:
            stream.synchronize()

    def record_event(self, event=None):
        event = event or Event(device=self.device)
        event.record(self)
        return event

    def __enter__(self):
        self.before = runtime.exchange(self.index) if self.index != runtime.current() else self
        return self

    def __exit__(self, *exc):
        if self.before is not self:
            runtime.exchange(self.before)
        return False

    def __eq__(self, other):
        return isinstance(other, Stream) and self.index == other.index

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((T.NAME, self.index))

    def __repr__(self):
        return f"<torch.webgpu.Stream device={T.NAME}:{self.index}>"


class Event(_BaseEvent):
    """A point in a device's queue. `elapsed_time` measures between two points at which the queue was drained."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, device=None):
        if interprocess:
            raise NotImplementedError("webgpu: events between processes are not supported")
        made = super().__new__(cls, device=torch.device(T.NAME, _index(device)), enable_timing=enable_timing)
        made.index = _index(device)
        return made

    @property
    def device(self) -> torch.device:
        return torch.device(T.NAME, self.index)

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, device=None):
        self.enable_timing = enable_timing
        self.time: float | None = None

    def record(self, stream=None) -> None:
        self.index = runtime.current() if stream is None else stream.index
        if self.enable_timing:
            _wait(self.index)
        self.time = time.perf_counter()

    def wait(self, stream=None) -> None:
        """In order already; an event of another device is waited for here."""
        if self.index != (runtime.current() if stream is None else stream.index):
            _wait(self.index)

    def query(self) -> bool:
        """All work before the event is done; False also where only what came after it is not."""
        return self.time is None or _is_idle(self.index)

    def synchronize(self) -> None:
        _wait(self.index)

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds."""
        if not (self.enable_timing and end.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.time is None or end.time is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end.time - self.time) * 1e3

    def __repr__(self):
        return "<torch.webgpu.Event>"


_streams: dict[int, Stream] = {}  # by device


def current_stream(device=None) -> Stream:
    """A device's one stream."""
    index = _index(device)
    found = _streams.get(index)
    return _streams.setdefault(index, Stream(index)) if found is None else found


default_stream = current_stream


def stream(stream: Stream) -> Stream:
    """Context manager; a device has one stream, and its device becomes the current one."""
    return stream


def _make_stream(device=None, *, priority=0, **rest):
    """torch's own streams of this device would not wait for anything."""
    if rest or not (device is None or isinstance(device, int) or is_ours(device)):
        return NotImplemented
    return Stream(device, priority)


def _make_event(device=None, *, enable_timing=False, blocking=False, interprocess=False):
    if not (device is None or is_ours(device)):
        return NotImplemented
    return Event(enable_timing, blocking, interprocess, device)


PUBLIC = {each.__name__: each for each in (Stream, Event, current_stream, stream)} | {"default_stream": default_stream}


def stream_class(base: type) -> type:
    """In the place of torch.Stream."""
    return by_device(base, _make_stream)


def event_class(base: type) -> type:
    """In the place of torch.Event."""
    return by_device(base, _make_event)
