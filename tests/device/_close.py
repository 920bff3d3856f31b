"""What the tests of one family share: comparing with the CPU, and running the other adapter class's kernels."""

import torch
from _adapter import adapter_class, adapter_of  # noqa: F401

TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 3e-2, torch.float32: 1e-4, torch.complex64: 1e-4}


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
