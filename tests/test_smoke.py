"""Seconds: the device is there, computes, differentiates and trains."""

import torch
from torch import nn

import webgpu_backend


def test_the_promise():
    device = torch.device("webgpu")
    a, b = torch.rand((10, 10, 10)), torch.rand((10, 10, 10))
    a_gpu, b_gpu = a.to(device), b.to(device)
    assert str(a_gpu.device) == "webgpu:0"
    c = (a_gpu + b_gpu).to("cpu")
    assert c.shape == (10, 10, 10)
    assert torch.equal(c, a + b)


def test_add_is_one_dispatch_on_the_device():
    x = torch.ones(64, device="webgpu")
    (x + x).cpu()
    before = webgpu_backend.stats()["dispatches"]
    y = x + x
    assert webgpu_backend.stats()["dispatches"] == before + 1
    assert y.cpu().tolist() == [2.0] * 64


def test_a_training_step():
    torch.manual_seed(0)
    on_cpu = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    on_gpu = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to("webgpu")
    on_gpu.load_state_dict(on_cpu.state_dict())
    x = torch.randn(16, 4)
    for model, data in ((on_cpu, x), (on_gpu, x.to("webgpu"))):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()
    for p, q in zip(on_cpu.parameters(), on_gpu.parameters()):
        torch.testing.assert_close(q.detach().cpu(), p.detach(), rtol=1e-5, atol=1e-6)
