"""Autocast and the gradient scaler."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

D = "webgpu"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_matmul_and_linear_run_in_the_lower_precision(dtype):
    a = torch.ones(2, 2, device=D)
    with torch.autocast(D, dtype=dtype):
        assert (a @ a).dtype == dtype
        assert F.linear(a, a).dtype == dtype
        assert torch.bmm(a[None], a[None]).dtype == dtype
        assert F.conv2d(a[None, None], a[None, None]).dtype == dtype
        assert torch.is_autocast_enabled(D) and torch.get_autocast_dtype(D) == dtype
    assert (a @ a).dtype == torch.float32
    assert not torch.is_autocast_enabled(D)


def test_losses_and_norms_run_in_float32():
    x = torch.rand(4, 4, device=D).half()
    with torch.autocast(D, dtype=torch.float16):
        assert F.layer_norm(x, (4,)).dtype == torch.float32
        assert x.exp().dtype == torch.float32
        assert F.mse_loss(x, x).dtype == torch.float32
        assert x.softmax(-1).dtype == torch.float32
        assert x.softmax(-1, dtype=torch.float16).dtype == torch.float16
        assert x.sum().dtype == torch.float32
        assert x.cumsum(0).dtype == torch.float32
        assert x.norm().dtype == torch.float32
        assert F.cross_entropy(x, torch.zeros(4, dtype=torch.int64, device=D)).dtype == torch.float32
        assert (x + x).dtype == torch.float16, "what is in no list stays as it is"
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(x, x)


@pytest.mark.parametrize("call", [torch.matrix_exp, lambda a: torch.linalg.lstsq(a, a)[0], torch.linalg.inv])
def test_a_kernel_that_is_made_of_products_keeps_its_precision(call):
    """As torch's kernels do, whose parts autocast does not see."""
    a = torch.eye(4) + torch.arange(16.0).reshape(4, 4) / 64
    with torch.autocast(D, dtype=torch.float16):
        mixed = call(a.to(D))
    torch.testing.assert_close(mixed.cpu(), call(a))
    torch.testing.assert_close(call(a.to(D)).cpu(), call(a))


def test_mixed_inputs_are_promoted():
    half, single = torch.ones(3, device=D).half(), torch.ones(3, device=D)
    with torch.autocast(D, dtype=torch.float16):
        assert torch.dot(half, single).dtype == torch.float32
        assert torch.dot(half, half).dtype == torch.float16
        assert torch.atan2(single, half).dtype == torch.float32


def test_integers_and_doubles_are_left_alone():
    i = torch.ones(2, 2, dtype=torch.int32, device=D)
    with torch.autocast(D, dtype=torch.float16):
        assert (i + i).dtype == torch.int32
        assert i.sum().dtype == torch.int64


def test_nested_and_disabled():
    a = torch.ones(2, 2, device=D)
    with torch.autocast(D, dtype=torch.float16):
        with torch.autocast(D, enabled=False):
            assert (a @ a).dtype == torch.float32
        with torch.autocast(D, dtype=torch.bfloat16):
            assert (a @ a).dtype == torch.bfloat16
        assert (a @ a).dtype == torch.float16


def test_a_weight_is_cast_once():
    weight = nn.Parameter(torch.ones(2, 2, device=D))
    from webgpu_backend.frontend.dispatch import autocast

    with torch.autocast(D, dtype=torch.float16):
        x = torch.ones(1, 2, device=D)
        F.linear(x, weight)
        F.linear(x, weight)
        assert len(autocast._cache) == 1
        with torch.no_grad():
            weight.fill_(3.0)
        assert F.linear(x, weight).tolist() == [[6.0, 6.0]], "a changed weight is cast again"
    assert not autocast._cache, "casts do not outlive the outermost autocast"


def test_training_matches_float32_roughly():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(D)
    x = torch.randn(32, 8).to(D)
    with torch.autocast(D, dtype=torch.bfloat16):
        loss = F.mse_loss(model(x), torch.ones(32, 1, device=D))
    loss.backward()
    mixed = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    F.mse_loss(model(x), torch.ones(32, 1, device=D)).backward()
    for p, m in zip(model.parameters(), mixed):
        assert m.dtype == torch.float32
        torch.testing.assert_close(m.cpu(), p.grad.cpu(), rtol=0.1, atol=0.05)


def _step(device, grad):
    p = nn.Parameter(torch.ones(2, device=device))
    optimizer = torch.optim.SGD([p], lr=0.1)
    scaler = torch.amp.GradScaler(device, init_scale=8.0, growth_interval=1)
    scaler.scale((p * torch.tensor(grad, device=device)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return p.detach().cpu(), scaler.get_scale()


@pytest.mark.parametrize("grad", [[1.0, 2.0], [float("inf"), 1.0], [float("nan"), 1.0]])
def test_grad_scaler_as_on_the_cpu(grad):
    expected, got = _step("cpu", grad), _step(D, grad)
    torch.testing.assert_close(got[0], expected[0])
    assert got[1] == expected[1]


def test_unscale_then_clip():
    p = nn.Parameter(torch.ones(4, device=D))
    scaler = torch.amp.GradScaler(D, init_scale=1024.0)
    optimizer = torch.optim.SGD([p], lr=1.0)
    scaler.scale((p * 3).sum()).backward()
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [3.0] * 4
    nn.utils.clip_grad_norm_([p], 1.0)
    scaler.step(optimizer)
    assert torch.allclose(p.detach().cpu(), torch.full((4,), 0.5), atol=1e-5)


def test_state_dict_of_the_scaler():
    scaler = torch.amp.GradScaler(D, init_scale=4.0)
    scaler.scale(torch.ones(1, device=D))
    other = torch.amp.GradScaler(D)
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 4.0
