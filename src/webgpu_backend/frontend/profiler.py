"""`torch.webgpu.profiler`: GPU time of every kernel, from timestamp queries."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from ..runtime.gpu import gpu


@dataclass(frozen=True)
class KernelEvent:
    """One dispatch: when the GPU ran it, in nanoseconds of its clock, and the bytes of the buffers it was given."""

    name: str
    start: float
    end: float
    bytes: int

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


class profile:
    """Times what runs inside: `with torch.webgpu.profiler.profile() as prof: ...; print(prof.table())`.

    Each dispatch gets a pass of its own while this is active, so gaps between kernels are longer than usual; the
    kernels' own times are what they are.
    """

    def __init__(self):
        self.events: list[KernelEvent] = []

    def __enter__(self):
        from ..runtime.clock import Clock

        g = gpu()
        if g.queue.recording is not None:
            raise RuntimeError("webgpu: a recording or a profile is active already")
        g.queue.synchronize()
        self._clock = Clock(g)
        self._dispatches: list = []
        with g.queue.lock:
            g.queue.clock, g.queue.recording = self._clock, self._dispatches
        return self

    def __exit__(self, *exc):
        queue = gpu().queue
        with queue.lock:
            queue._end_pass()
            queue.clock = queue.recording = None
            self._clock.collect()
        self._clock.close()
        for dispatch, (start, end) in zip(self._dispatches, self._clock.times):
            self.events.append(KernelEvent(dispatch.program.name, start, end, sum(b.size for b in dispatch.buffers)))
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

    def export_chrome_trace(self, path: str) -> None:
        """A trace for chrome://tracing or Perfetto."""
        origin = min((e.start for e in self.events), default=0.0)
        trace = [
            {"name": e.name, "ph": "X", "pid": 0, "tid": 0, "ts": (e.start - origin) / 1e3, "dur": e.duration / 1e3,
             "cat": "kernel", "args": {"bytes": e.bytes}}
            for e in self.events
        ]  # fmt: skip
        with open(path, "w") as file:
            json.dump({"traceEvents": trace, "displayTimeUnit": "ns"}, file)


def is_available() -> bool:
    """The device can time its kernels."""
    return "timestamp-query" in gpu().device.features
