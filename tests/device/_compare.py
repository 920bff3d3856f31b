"""Runs a function on the CPU and on the device and compares what comes out."""

import torch

MOVED = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
         torch.bool, torch.complex64]  # fmt: skip
_TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 3e-2, torch.float32: 1e-5, torch.complex64: 1e-5}


def values(shape, dtype, scale=5):
    return (torch.randn(shape) * scale).to(dtype)


def same(function, *args, close=False):
    """`function` gives equal (or close) results on both devices; tensors among args are copied for each."""
    expected = function(*[a.clone() if isinstance(a, torch.Tensor) else a for a in args])
    actual = function(*[a.to("webgpu") if isinstance(a, torch.Tensor) else a for a in args])
    several = isinstance(expected, (tuple, list))
    for want, got in zip(expected, actual, strict=True) if several else [(expected, actual)]:
        assert got.device.type == "webgpu"
        got = got.cpu()
        assert got.dtype == want.dtype and got.shape == want.shape, (want.dtype, want.shape, got.dtype, got.shape)
        tolerance = _TOLERANCE.get(want.dtype, 0) if close else 0
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)


def same_gradient(function, *args):
    """As same, of the gradients of floating arguments."""

    def gradients(*given):
        leaves = [a.detach().requires_grad_() if _floating(a) else a for a in given]
        out = function(*leaves)
        weight = torch.linspace(0.5, 2, max(out.numel(), 1))[: out.numel()].reshape(out.shape).to(out.device, out.dtype)
        wanted = [a for a in leaves if isinstance(a, torch.Tensor) and a.requires_grad]
        return torch.autograd.grad(out, wanted, weight)

    same(gradients, *args, close=True)


def _floating(a):
    return isinstance(a, torch.Tensor) and a.is_floating_point()
