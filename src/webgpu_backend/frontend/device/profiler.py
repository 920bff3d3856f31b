"""`torch.webgpu.profiler`: GPU time of every kernel, from timestamp queries."""

import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from torch.autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent

from ... import tensor as T
from ...runtime.gpu import gpu


@dataclass(frozen=True)
class KernelEvent:
    """One dispatch: when the GPU ran it, in nanoseconds of its clock, and the bytes of the buffers it was given.

    `launched` is when the host recorded it, in nanoseconds as of `time.time_ns`, and `thread` where.
    """

    name: str
    start: float
    end: float
    bytes: int
    launched: int = 0
    thread: int = 0

    @property
    def duration(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class KernelAverage:
    name: str
    count: int
    total_us: float
    bytes: int

    @property
    def average_us(self) -> float:
        return self.total_us / self.count


class _Launches(list):
    """What the queue records, and when and where it did."""

    def __init__(self):
        self.at: list[tuple[int, int]] = []

    def append(self, dispatch):
        self.at.append((time.time_ns(), threading.get_native_id()))
        super().append(dispatch)


class profile:
    """Times what runs inside, on the current device:
    `with torch.webgpu.profiler.profile() as prof: ...; print(prof.table())`.

    Each dispatch gets a pass of its own while this is active, so gaps between kernels are longer than usual; the
    kernels' own times are what they are.
    """

    def __init__(self):
        self.events: list[KernelEvent] = []

    def __enter__(self):
        from ...runtime.clock import Clock

        g = self._gpu = gpu()
        if g.queue.recording is not None:
            raise RuntimeError("webgpu: a recording or a profile is active already")
        g.queue.synchronize()
        self._clock = Clock(g)
        self._to_host = self._clock.against_host()
        self._dispatches = _Launches()
        with g.queue.lock:
            g.queue.clock, g.queue.recording = self._clock, self._dispatches
        return self

    def __exit__(self, *exc):
        queue = self._gpu.queue
        with queue.lock:
            queue._end_pass()
            queue.clock = queue.recording = None
            self._clock.collect()
        self._clock.close()
        for dispatch, at, (start, end) in zip(self._dispatches, self._dispatches.at, self._clock.times):
            size = sum(b.size for b in dispatch.buffers)
            self.events.append(KernelEvent(dispatch.step.program.name, start, end, size, *at))
        return False

    def __iter__(self) -> Iterator[KernelEvent]:
        return iter(self.events)

    def key_averages(self) -> list[KernelAverage]:
        """By kernel, the one that took longest first."""
        groups: dict[str, list[KernelEvent]] = {}
        for event in self.events:
            groups.setdefault(event.name, []).append(event)
        rows = [
            KernelAverage(name, len(found), sum(e.duration for e in found) / 1e3, sum(e.bytes for e in found))
            for name, found in groups.items()
        ]
        return sorted(rows, key=lambda row: -row.total_us)

    def table(self, row_limit: int = 30) -> str:
        rows = self.key_averages()
        total = sum(r.total_us for r in rows) or 1.0
        lines = [f"{'kernel':56} {'count':>7} {'total us':>12} {'average us':>12} {'share':>7}"]
        for r in rows[:row_limit]:
            share = f"{100 * r.total_us / total:6.1f}%"
            lines.append(f"{r.name[:56]:56} {r.count:7} {r.total_us:12.1f} {r.average_us:12.2f} {share:>7}")
        lines.append(f"{'all':56} {len(self.events):7} {sum(r.total_us for r in rows):12.1f}")
        return "\n".join(lines)

    def add_to(self, operators) -> None:
        """Gives a finished `torch.profiler.profile` of the same work the times of the kernels its operators launched:

            kernels.add_to(operators)
            print(operators.key_averages().table(sort_by="self_device_time_total"))

        A kernel belongs to the innermost operator that was running when the host recorded it. Kernels are rows too.
        """
        begin = operators.profiler.kineto_results.trace_start_ns()
        events = operators.events()
        events._use_device = T.NAME
        for event in events:
            event.use_device = T.NAME
        waiting = sorted((e for e in events if not e.is_async), key=lambda e: e.time_range.start, reverse=True)
        running: list = []
        for kernel in sorted(self.events, key=lambda e: e.launched):
            now = (kernel.launched - begin) / 1e3
            while waiting and waiting[-1].time_range.start <= now:
                running.append(waiting.pop())
            running = [e for e in running if e.time_range.end >= now]
            if running:
                running[-1].append_kernel(kernel.name, 0, kernel.duration / 1e3)
        for i, kernel in enumerate(self.events):
            start = (kernel.start + self._to_host - begin) / 1e3
            events.append(
                FunctionEvent(
                    -1 - i, kernel.name, 0, start, start + kernel.duration / 1e3, use_device=T.NAME,
                    device_type=DeviceType.PrivateUse1, stack=[], input_shapes=(),
                )
            )  # fmt: skip

    def export_chrome_trace(self, path: str, operators=None) -> None:
        """A trace for chrome://tracing or Perfetto.

        With `operators`, a finished `torch.profiler.profile` of the same work, its operators are in the trace too, and
        arrows lead from where the host recorded a kernel to where the GPU ran it:

            with torch.profiler.profile() as operators, torch.webgpu.profiler.profile() as kernels:
                step()
            kernels.export_chrome_trace("trace.json", operators)
        """
        trace: dict = {"traceEvents": [], "displayTimeUnit": "ns"}
        origin = min((e.start for e in self.events), default=0.0)
        if operators is not None:
            trace = _exported(operators)
            origin = trace.get("baseTimeNanoseconds", 0) - self._to_host
        events = trace["traceEvents"]
        events.append({"ph": "M", "name": "process_name", "pid": _GPU, "tid": 0, "args": {"name": "WebGPU kernels"}})
        for i, e in enumerate(self.events):
            ts = (e.start - origin) / 1e3
            place = {"pid": _GPU, "tid": 0, "ts": ts}
            events.append(
                {
                    "name": e.name,
                    "ph": "X",
                    "cat": "kernel",
                    "dur": e.duration / 1e3,
                    "args": {"bytes": e.bytes},
                    **place,
                }
            )
            if operators is not None:
                arrow = {"name": "launch", "cat": "launch", "id": f"webgpu{i}"}
                launched = (e.launched - trace.get("baseTimeNanoseconds", 0)) / 1e3
                events.append({"ph": "s", "pid": os.getpid(), "tid": e.thread, "ts": launched, **arrow})
                events.append({"ph": "f", "bp": "e", **place, **arrow})
        with open(path, "w", encoding="utf-8") as file:
            json.dump(trace, file)


_GPU = "webgpu"  # where kernels are in a trace: no process of the machine has such an id


def _exported(operators) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "operators.json")
        operators.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def is_available() -> bool:
    """The device can time its kernels."""
    return "timestamp-query" in gpu().device.features
