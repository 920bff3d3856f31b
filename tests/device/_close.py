"""What the tests of one family share: comparing with the CPU, and running the other adapter class's kernels."""

import dataclasses

import pytest
import torch

from webgpu_backend.ops.remember import forget_all
from webgpu_backend.runtime.gpu import gpu

TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 3e-2, torch.float32: 1e-4, torch.complex64: 1e-4}


@pytest.fixture(params=["own", "gpu"])
def adapter_class(request, monkeypatch):
    """The adapter's own kernels, then those that a big GPU gets."""
    forget_all()
    if request.param == "gpu":
        monkeypatch.setattr(gpu(), "caps", dataclasses.replace(gpu().caps, kind="gpu"))
    yield request.param
    forget_all()


@pytest.fixture
def adapter_of(monkeypatch):
    """A function that changes what kernels may rely on, for the rest of a test."""

    def change(**changes):
        forget_all()
        monkeypatch.setattr(gpu(), "caps", dataclasses.replace(gpu().caps, **changes))

    yield change
    forget_all()


def close(ours, reference, tolerance=None):
    """Same structure, shapes, dtypes and values, NaN in the same places."""
    if isinstance(reference, (tuple, list)):
        assert len(ours) == len(reference)
        for a, b in zip(ours, reference):
            close(a, b, tolerance)
        return
    assert ours.device.type == "webgpu"
    assert ours.shape == reference.shape and ours.dtype == reference.dtype
    allowed = TOLERANCE.get(reference.dtype, 1e-6) if tolerance is None else tolerance
    torch.testing.assert_close(ours.cpu(), reference, rtol=allowed, atol=allowed, equal_nan=True)


def gradients(function, *inputs, tolerance=None):
    """Forward and backward of `function` on both devices, for a gradient that is not constant."""
    cpu = [x.detach().clone().requires_grad_() for x in inputs]
    ours = [x.detach().to("webgpu").requires_grad_() for x in inputs]
    expected, got = function(*cpu), function(*ours)
    close(got.detach(), expected.detach(), tolerance)
    weight = torch.linspace(-1, 1, expected.numel()).reshape(expected.shape).to(expected.dtype)
    expected.backward(weight)
    got.backward(weight.to("webgpu"))
    for a, b in zip(ours, cpu):
        close(a.grad, b.grad, tolerance)
