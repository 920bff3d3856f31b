"""The same function on the CPU and on the device, leaf by leaf."""

import torch
from torch.utils._pytree import tree_leaves

D = "webgpu"


def both(call, rtol=1e-5, atol=1e-5):
    """`call(device)` with the same CPU seed on both; whatever tensors it returns must agree. Returns the device's."""
    torch.manual_seed(0)
    expected = tree_leaves(call("cpu"))
    torch.manual_seed(0)
    got = tree_leaves(call(D))
    assert len(expected) == len(got)
    for e, g in zip(expected, got):
        if isinstance(e, torch.Tensor):
            assert g.device.type == D, f"the result is on {g.device}"
            torch.testing.assert_close(g.detach().cpu(), e.detach(), rtol=rtol, atol=atol, equal_nan=True)
        else:
            assert e == g
    return got
