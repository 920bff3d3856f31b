"""torch.inference_mode and no_grad: views of ordinary tensors, modules, in-place writes."""

import torch


def test_inference_mode():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 4))
    x = torch.rand(3, 4, 4)
    want = model(x).detach()
    model, y = model.to("webgpu"), x.to("webgpu")
    with torch.inference_mode():
        got = model(y)
        view = y[1:]
        assert got.is_inference() and not view.is_inference()
        assert view._is_view() and torch.equal(view.cpu(), x[1:])
        made = (y * 2)[:, 1]
        made += 1
    torch.testing.assert_close(got.cpu(), want)
    assert torch.equal(made.cpu(), (x * 2)[:, 1] + 1)
    assert torch.equal((view + 1).cpu(), x[1:] + 1)


def test_no_grad_through_views():
    p = torch.nn.Parameter(torch.ones(4, 3).to("webgpu"))
    with torch.no_grad():
        p[1:3].mul_(5)
    (p * 2).sum().backward()
    assert p.grad.cpu().eq(2).all() and p.detach().cpu()[:, 0].tolist() == [1, 5, 5, 1]
