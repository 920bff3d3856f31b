"""Passes over Inductor's graphs, and what its caches on disk know our code by."""

from functools import cache
from hashlib import sha256
from pathlib import Path

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass

import webgpu_backend

from ....plan import caps

_PARTS = ("frontend/graphs", "kernels/compiled", "kernels/text", "kernels/lib", "ops/pointwise")


@cache
def fingerprint() -> str:
    """Of everything that generated code follows from."""
    found, root = sha256(), Path(webgpu_backend.__file__).parent
    for part in _PARTS:
        for path in sorted((root / part).rglob("*")):
            if path.suffix in (".py", ".wgsl"):
                found.update(path.read_bytes())
    return found.hexdigest()


class Passes(CustomGraphPass):
    """What is done to a graph before it is lowered, after the pass that was there."""

    def __init__(self, before=None):
        self.before = before

    def __call__(self, graph: torch.fx.Graph) -> None:
        if self.before is not None:
            self.before(graph)

    def uuid(self):
        before = self.before.uuid() if isinstance(self.before, CustomGraphPass) else repr(self.before)
        return (fingerprint(), repr(caps()), before)
