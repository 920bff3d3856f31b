"""A function on the device against the CPU, values and gradients."""

import torch


def run(function, inputs, device):
    """Values and gradients; the output's gradient is a ramp so that every element counts differently."""
    moved = [x.detach().to(device).requires_grad_(x.is_floating_point()) for x in inputs]
    y = function(*moved)
    y.backward(torch.linspace(-1, 1.5, y.numel()).view(y.shape).to(y.dtype).to(device))
    return [y.detach().cpu()] + [x.grad.cpu() for x in moved if x.requires_grad]


def check(function, *inputs, rtol=1e-4, atol=1e-5):
    for got, expected in zip(run(function, inputs, "webgpu"), run(function, inputs, "cpu"), strict=True):
        torch.testing.assert_close(got, expected, rtol=rtol, atol=atol, equal_nan=True)
