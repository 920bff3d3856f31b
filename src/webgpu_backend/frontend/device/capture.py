"""`torch.webgpu.graph`: a region's dispatches captured by hand and replayed, as `torch.cuda.graph` is used.

static = torch.zeros(8, 784, device="webgpu")
model(static)                               # once before: what is made at first use is made
g = torch.webgpu.WebGPUGraph()
with torch.webgpu.graph(g):
    out = model(static)
static.copy_(batch); g.replay()             # `out` has the new values

`torch.accelerator.Graph`, which torch 2.13 has, is the same for programs that name no device.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...plan.capture import Capture


class WebGPUGraph:
    """Dispatches over buffers that stay where they are: inputs are read, and outputs written, in the tensors that the
    captured region had. Their memory is the graph's until `reset()` or its end."""

    def __init__(self, keep_graph: bool = False):
        self._capture: Capture | None = None
        self._open = False

    def capture_begin(self, pool=None, capture_error_mode: str = "global") -> None:
        if self._capture is not None:
            raise RuntimeError("webgpu: this graph has been captured: call reset() before it is captured again")
        from ...plan.capture import Capture

        capture = Capture()
        capture.begin()
        self._capture, self._open = capture, True

    def capture_end(self) -> None:
        if not self._open:
            raise RuntimeError("webgpu: capture_end() without capture_begin()")
        self._open = False
        self._capture.end()

    def __enter__(self) -> None:
        """What is asked for inside is captured, and not done."""
        self.capture_begin()

    def __exit__(self, kind, *_) -> None:
        self.capture_end()
        if kind is not None:
            self.reset()

    def replay(self) -> None:
        """Does what was captured, with what the inputs hold now."""
        if self._capture is None or self._open:
            raise RuntimeError("webgpu: replay() of a graph that has not been captured")
        self._capture.replay()

    def reset(self) -> None:
        """Forgets what was captured."""
        capture, self._capture = self._capture, None
        if capture is not None:
            capture.release()

    def pool(self):
        return None

    def __del__(self, ends=sys.is_finalizing):
        if self._capture is not None and not self._open and not ends():
            self.reset()


@contextmanager
def graph(webgpu_graph: WebGPUGraph, pool=None, stream=None, capture_error_mode: str = "global"):
    """Captures what is asked for inside, on the current device; `stream` and `pool` are there for CUDA's sake: a device
    has one queue, and every graph has memory of its own."""
    with webgpu_graph:
        yield


def accelerator_graph(original: type) -> type[WebGPUGraph]:
    """In the place of torch's class, which asks C++ hooks that a backend in Python cannot supply."""

    class Graph(WebGPUGraph):
        __doc__ = original.__doc__

        def __init__(self, keep_graph: bool = False, *, pool=None, capture_error_mode: str = "default"):
            super().__init__(keep_graph)

    return Graph
