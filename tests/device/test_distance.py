"""cdist and pdist against CPU torch, with gradients."""

import pytest
import torch


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize(
    "shapes", [((5, 3), (4, 3)), ((2, 1, 5, 3), (3, 4, 3)), ((5, 0), (4, 0)), ((0, 3), (4, 3))], ids=str
)
def test_cdist(p, shapes):
    tensors = [torch.randn(s) for s in shapes]
    results = []
    for device in ("cpu", "webgpu"):
        a, b = (t.to(device).requires_grad_() for t in tensors)
        d = torch.cdist(a, b, p=p)
        weights = torch.linspace(-1, 1, d.numel()).view(d.shape).to(device)
        results.append([d, *torch.autograd.grad(d, (a, b), weights)])
    for wanted, got in zip(*results):
        assert got.shape == wanted.shape
        torch.testing.assert_close(got.detach().cpu(), wanted.detach(), rtol=1e-4, atol=1e-4)


def test_equal_rows_have_no_gradient():
    x = torch.randn(4, 3)
    for p in (1.0, 1.5, 2.0, 3.0):
        results = []
        for device in ("cpu", "webgpu"):
            a = x.clone().to(device).requires_grad_()
            d = torch.cdist(a, x.to(device), p=p)
            results.append(torch.autograd.grad(d, a, torch.ones_like(d))[0].cpu())
        torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_pdist(n):
    x = torch.randn(n, 4)
    results = []
    for device in ("cpu", "webgpu"):
        a = x.to(device).requires_grad_()
        d = torch.pdist(a, p=2)
        weights = torch.linspace(-1, 1, d.numel()).to(device)
        results.append([d, *torch.autograd.grad(d, a, weights)])
    for wanted, got in zip(*results):
        torch.testing.assert_close(got.detach().cpu(), wanted.detach(), rtol=1e-4, atol=1e-4)


def test_large_cdist_uses_products():
    a, b = torch.randn(40, 5), torch.randn(33, 5)
    torch.testing.assert_close(
        torch.cdist(a.to("webgpu"), b.to("webgpu")).cpu(), torch.cdist(a, b), rtol=1e-3, atol=1e-3
    )
