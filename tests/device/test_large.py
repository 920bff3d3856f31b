"""Tensors larger than one binding, and more workgroups than one dimension holds."""

import dataclasses

import torch

from webgpu_backend.runtime.gpu import gpu


def test_more_than_a_dimension_of_workgroups():
    n = 65535 * 256 + 77  # one element per thread of 256 would need a second row of groups
    x = torch.zeros(n, dtype=torch.uint8, device="webgpu")
    x[-1] = 3
    y = x + 1
    assert y[0].item() == 1 and y[-1].item() == 4


def test_elementwise_beyond_one_binding():
    limit = gpu().caps.max_binding
    if limit > 256 << 20:
        limit = 256 << 20  # a discrete card's limit is gigabytes; the split is then forced below
    n = limit // 4 + 13
    device, queue = gpu(), gpu().queue
    own = device.caps
    x = torch.arange(n, dtype=torch.int32) % 251
    d = x.to("webgpu").to(torch.int32)
    assert d.untyped_storage().nbytes() > limit
    device.caps = queue.caps = dataclasses.replace(own, max_binding=limit)
    try:
        assert torch.equal((d + 1)[-1000:].cpu(), (x + 1)[-1000:])
        d.mul_(2)
        assert torch.equal(d[:1000].cpu(), x[:1000] * 2) and torch.equal(d[-1000:].cpu(), x[-1000:] * 2)
        narrow = d.to(torch.uint8)
        assert torch.equal(narrow.cpu(), (x * 2).to(torch.uint8))
    finally:
        device.caps = queue.caps = own
