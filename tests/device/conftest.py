"""Kernels of another adapter on this one, and graphs that are compiled from scratch."""

from dataclasses import replace

import pytest
import torch

from webgpu_backend import env
from webgpu_backend.plan import cache
from webgpu_backend.runtime.gpu import gpu


@pytest.fixture
def adapter_of(monkeypatch):
    """A function that changes what kernels may rely on, for the rest of a test; tuning tables may change after it."""
    yield lambda **changes: _change(monkeypatch, changes)
    cache.clear()


@pytest.fixture(params=["own", "gpu"])
def adapter_class(request, monkeypatch):
    """The adapter's own kernels, then those that a big GPU gets."""
    _change(monkeypatch, {} if request.param == "own" else {"kind": "gpu"})
    yield request.param
    cache.clear()


@pytest.fixture
def compiled_by_inductor(monkeypatch):
    """torch.compile by Inductor from scratch, which refuses no graph of the test."""
    from webgpu_backend.frontend.graphs.inductor import compiling

    monkeypatch.setattr(env, "COMPILE", "inductor")
    torch.manual_seed(0)
    torch.compiler.reset()
    compiling._told.clear()
    yield
    assert not compiling._told


def _change(monkeypatch, changes: dict) -> None:
    monkeypatch.setattr(gpu(), "caps", replace(gpu().caps, **changes))
    cache.clear()
