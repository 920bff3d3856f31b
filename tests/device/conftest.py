"""Kernels of another adapter on this one."""

from dataclasses import replace

import pytest

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


def _change(monkeypatch, changes: dict) -> None:
    monkeypatch.setattr(gpu(), "caps", replace(gpu().caps, **changes))
    cache.clear()
