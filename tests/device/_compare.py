"""A function on the device against the CPU: the same structure, devices, dtypes, shapes and values, with NaN in the
same places. One set of functions for all tests, so that none of them forgets a part of that.

A `tolerance` is one number, relative and absolute, or a pair of them; None takes the one of the dtype. Integers and
booleans are always compared exactly.
"""

import functools

import torch
from torch.utils._pytree import tree_leaves, tree_map

D = "webgpu"
MOVED = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
         torch.bool, torch.complex64]  # fmt: skip
TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 3e-2, torch.float32: 1e-5, torch.complex64: 1e-5}


def values(shape, dtype, scale=5):
    return (torch.randn(shape) * scale).to(dtype)


@functools.cache
def keeps_denormals(dtype: torch.dtype = torch.float32) -> bool:
    """Whether arithmetic on this adapter does; many GPUs take and give 0 for them, as WebGPU allows."""
    return (torch.full((1,), torch.finfo(dtype).tiny / 8, dtype=dtype, device=D) * 0.5).item() != 0


def of_a_kind(ours: type, theirs: type) -> bool:
    """Types of errors: some are NotImplementedError since torch 2.14, RuntimeError before; here always the former."""
    return ours is theirs or (ours is NotImplementedError and theirs is RuntimeError)


def close(ours, reference, tolerance=None):
    """What the device gave is what the CPU gave."""
    if isinstance(reference, (tuple, list)):
        assert isinstance(ours, (tuple, list)) and len(ours) == len(reference), (ours, reference)
        for a, b in zip(ours, reference):
            close(a, b, tolerance)
        return
    if not isinstance(reference, torch.Tensor):
        assert type(ours) is type(reference) and ours == reference, (ours, reference)
        return
    assert ours.device.type == D, f"the result is on {ours.device}"
    assert ours.dtype == reference.dtype, f"dtype {ours.dtype}, the CPU gives {reference.dtype}"
    assert ours.shape == reference.shape, f"shape {tuple(ours.shape)}, the CPU gives {tuple(reference.shape)}"
    rtol, atol = _allowed(reference.dtype, tolerance)
    torch.testing.assert_close(ours.detach().cpu(), reference.detach(), rtol=rtol, atol=atol, equal_nan=True)


def _allowed(dtype: torch.dtype, tolerance) -> tuple[float, float]:
    if not (dtype.is_floating_point or dtype.is_complex):
        return 0, 0
    if tolerance is None:
        tolerance = TOLERANCE.get(dtype, 0)
    return tolerance if isinstance(tolerance, tuple) else (tolerance, tolerance)


def same(function, *args, tolerance=0):
    """`function` of these arguments; each device gets copies of the tensors among them."""
    expected = function(*_copied(args, "cpu"))
    close(function(*_copied(args, D)), expected, tolerance)


def both(call, tolerance=1e-5):
    """`call(device)` with the same seed of the CPU's on both; returns the leaves of what the device gave."""
    torch.manual_seed(0)
    expected = tree_leaves(call("cpu"))
    torch.manual_seed(0)
    got = tree_leaves(call(D))
    close(got, expected, tolerance)
    return got


def gradients(function, *args, tolerance=None):
    """The result, and the gradients of the floating and complex tensors among the arguments."""
    expected, wanted = _differentiated(function, args, "cpu")
    got, found = _differentiated(function, args, D)
    close(got, expected, tolerance)
    close(found, wanted, tolerance)


def _differentiated(function, args, device):
    given = _copied(args, device)
    leaves = [a.requires_grad_() for a in tree_leaves(given) if _inexact(a)]
    out = function(*given)
    return out.detach(), torch.autograd.grad(out, leaves, _ramp(out))


def _ramp(out):
    """A gradient in which every element counts differently; drawn in float32 for all dtypes and devices."""
    return torch.linspace(-1, 1.5, out.numel()).reshape(out.shape).to(out.device, out.dtype)


def _copied(args, device):
    return tree_map(lambda a: a.detach().clone().to(device) if isinstance(a, torch.Tensor) else a, args)


def _inexact(a) -> bool:
    return isinstance(a, torch.Tensor) and (a.is_floating_point() or a.is_complex())
