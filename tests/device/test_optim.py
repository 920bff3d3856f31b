"""Optimizers in every implementation torch has, against the CPU."""

import pytest
import torch
from torch import nn

D = "webgpu"

MAKERS = {
    "sgd": lambda p, **kw: torch.optim.SGD(p, lr=0.1, **kw),
    "sgd_momentum": lambda p, **kw: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, **kw),
    "sgd_nesterov": lambda p, **kw: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True, **kw),
    "adam": lambda p, **kw: torch.optim.Adam(p, lr=0.01, weight_decay=0.1, **kw),
    "adam_amsgrad": lambda p, **kw: torch.optim.Adam(p, lr=0.01, amsgrad=True, **kw),
    "adamw": lambda p, **kw: torch.optim.AdamW(p, lr=0.01, **kw),
    "adagrad": lambda p, **kw: torch.optim.Adagrad(p, lr=0.05, lr_decay=0.1, **kw),
}


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def train(make, device, steps=4, **options):
    net = model().to(device)
    optimizer = make(net.parameters(), **options)
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(1)).to(device)
    for _ in range(steps):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    return [p.detach().cpu() for p in net.parameters()], optimizer


def compare(make, **options):
    expected, _ = train(make, "cpu")
    got, optimizer = train(make, D, **options)
    for e, g in zip(expected, got):
        torch.testing.assert_close(g, e, rtol=1e-4, atol=2e-6)
    return optimizer


@pytest.mark.parametrize("name", MAKERS)
def test_default(name):
    compare(MAKERS[name])


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("foreach", [False, True])
def test_foreach(name, foreach):
    compare(MAKERS[name], foreach=foreach)


@pytest.mark.parametrize("name", MAKERS)
def test_fused(name):
    compare(MAKERS[name], fused=True)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_capturable(name):
    for options in ({"foreach": False}, {"foreach": True}, {"fused": True}):
        optimizer = compare(MAKERS[name], capturable=True, **options)
        step = next(iter(optimizer.state.values()))["step"]
        assert step.device.type == D and step.item() == 4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_fused_in_low_precision(dtype):
    results = []
    for fused in (False, True):
        p = nn.Parameter(torch.linspace(-1, 1, 10, device=D, dtype=dtype))
        optimizer = torch.optim.AdamW([p], lr=0.05, fused=fused)
        for k in range(3):
            p.grad = torch.linspace(1, -1, 10, device=D, dtype=dtype) * (k + 1)
            optimizer.step()
        results.append(p.detach().float().cpu())
    torch.testing.assert_close(results[1], results[0], rtol=0.02, atol=0.02)


def test_fused_is_one_dispatch_for_each_parameter():
    import webgpu_backend

    params = [nn.Parameter(torch.ones(5, device=D)) for _ in range(6)]
    optimizer = torch.optim.AdamW(params, fused=True)
    for p in params:
        p.grad = torch.ones(5, device=D)
    optimizer.step()
    before = webgpu_backend.stats()["dispatches"]
    optimizer.step()
    assert webgpu_backend.stats()["dispatches"] - before <= 2 * len(params)  # the step counts, and the steps


@pytest.mark.parametrize("name", ["adam", "adam_amsgrad", "adamw", "sgd", "sgd_momentum", "sgd_nesterov"])
def test_a_default_step_is_one_dispatch_for_each_parameter(name):
    import webgpu_backend

    params = [nn.Parameter(torch.ones(5, device=D)) for _ in range(6)]
    optimizer = MAKERS[name](params)
    for p in params:
        p.grad = torch.ones(5, device=D)
    optimizer.step()
    before = webgpu_backend.stats()["dispatches"]
    optimizer.step()
    assert webgpu_backend.stats()["dispatches"] - before <= len(params)
    before = [t._version for t in params]
    optimizer.step()
    assert all(t._version > v for t, v in zip(params, before)), "autograd sees that what it kept was changed"
    step = optimizer.state[params[0]].get("step")
    assert "sgd" in name or (step.is_cpu and step.item() == 3)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("fused", [None, True])
def test_where_the_device_is_the_default_one(name, fused):
    """torch makes the step counts there."""
    expected, _ = train(MAKERS[name], "cpu")
    net = model().to(D)
    with torch.device(D):
        optimizer = MAKERS[name](net.parameters(), fused=fused)
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(1), device="cpu").to(D)
        for _ in range(4):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
    for e, p in zip(expected, net.parameters()):
        torch.testing.assert_close(p.detach().cpu(), e, rtol=1e-4, atol=2e-6)
    steps = [state["step"] for state in optimizer.state.values() if "step" in state]
    assert all(s.item() == 4 for s in steps) and ("sgd" in name) == (not steps)


@pytest.mark.parametrize("options", [{}, {"capturable": True}])
def test_step_counts_on_the_device_are_not_read(options):
    import webgpu_backend

    with torch.device(D):
        params = [nn.Parameter(torch.ones(5)) for _ in range(6)]
        optimizer = torch.optim.Adam(params, **options)
        for p in params:
            p.grad = torch.ones(5)
        optimizer.step()
        before = webgpu_backend.stats()
        optimizer.step()
        after = webgpu_backend.stats()
    assert after["bytes_read"] == before["bytes_read"]
    assert after["dispatches"] - before["dispatches"] <= 3 * len(params)


@pytest.mark.parametrize("case", ["late", "dtypes", "devices", "complex", "rate", "strided", "maximize"])
@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_default_steps(case, kind):
    """Parameters that come later, and those of which one kernel cannot take all."""

    def run(device):
        dtypes = {"dtypes": torch.bfloat16, "complex": torch.complex64}
        second = torch.linspace(-1, 1, 12, dtype=dtypes.get(case, torch.float32))
        where = "cpu" if case == "devices" else device
        values = [torch.linspace(-1, 1, 7).to(device), second.view(3, 4).to(where)]
        if case == "strided":
            values[1] = values[1].t()
        params = [nn.Parameter(v) for v in values]
        options = {"lr": 1 if case == "rate" else 0.05, "maximize": case == "maximize"}
        if kind == "sgd":
            optimizer = torch.optim.SGD(params, momentum=0.9, dampening=0.1, weight_decay=0.01, **options)
        else:
            optimizer = torch.optim.AdamW(params, **options)
        for k in range(4):
            for i, p in enumerate(params):
                p.grad = None if case == "late" and i == 1 and k < 2 else p.detach() * (k + 1) + 0.5
            optimizer.step()
        counts = [optimizer.state[p].get("step", torch.zeros(())).item() for p in params]
        return [p.detach().cpu() for p in params], counts

    (expected, counts), (got, seen) = run("cpu"), run(D)
    assert counts == seen
    for e, g in zip(expected, got):
        low = e.dtype == torch.bfloat16
        torch.testing.assert_close(g, e, rtol=2e-2 if low else 1e-5, atol=1e-2 if low else 1e-6)


@pytest.mark.parametrize("name", ["sgd_momentum", "adam", "adamw"])
def test_grad_scale_and_found_inf(name):
    """The scaler hands its tensors to a fused step: gradients are unscaled there, and a bad step changes nothing."""
    p = nn.Parameter(torch.ones(5, device=D))
    optimizer = MAKERS[name]([p], fused=True)
    scaler = torch.amp.GradScaler(D, init_scale=16.0)
    q = nn.Parameter(torch.ones(5))
    reference = MAKERS[name]([q])
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale((p * p).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        reference.zero_grad()
        (q * q).sum().backward()
        reference.step()
    torch.testing.assert_close(p.detach().cpu(), q.detach(), rtol=1e-5, atol=1e-6)
    kept = p.detach().cpu().clone()
    scaler.scale((p * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(p.detach().cpu(), kept)
    assert scaler.get_scale() == 8.0


def test_a_learning_rate_tensor():
    rate = torch.tensor(0.1, device=D)
    p = nn.Parameter(torch.ones(3, device=D))
    optimizer = torch.optim.SGD([p], lr=rate, fused=True)
    p.grad = torch.ones(3, device=D)
    optimizer.step()
    torch.testing.assert_close(p.detach().cpu(), torch.full((3,), 0.9))


def test_clip_grad_norm():
    norms, grads = [], []
    for device in ("cpu", D):
        net = model().to(device)
        net(torch.ones(4, 6, device=device)).sum().backward()
        norms.append(nn.utils.clip_grad_norm_(net.parameters(), 1.0).cpu())
        grads.append([p.grad.cpu() for p in net.parameters()])
    torch.testing.assert_close(norms[1], norms[0], rtol=1e-5, atol=1e-6)
    for e, g in zip(*grads):
        torch.testing.assert_close(g, e, rtol=1e-4, atol=1e-6)


def test_state_dict_round_trip():
    net = model().to(D)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(2, 6, device=D)).sum().backward()
    optimizer.step()
    other = torch.optim.Adam(model().to(D).parameters())
    other.load_state_dict(optimizer.state_dict())
    for a, b in zip(optimizer.state.values(), other.state.values()):
        assert b["exp_avg"].device.type == D and torch.equal(a["exp_avg"].cpu(), b["exp_avg"].cpu())


# -- the list operators themselves


def lists(device, count=3):
    g = torch.Generator().manual_seed(2)
    shapes = [(3,), (2, 5), ()][:count]
    return [[torch.rand(s, generator=g).add(0.5).to(device) for s in shapes] for _ in range(3)]


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b, c: torch._foreach_add(a, b, alpha=2),
        lambda a, b, c: torch._foreach_add(a, 3),
        lambda a, b, c: torch._foreach_add(a, [1.0, 2.0, 3.0]),
        lambda a, b, c: torch._foreach_add(a, b[2]),
        lambda a, b, c: torch._foreach_sub(a, b),
        lambda a, b, c: torch._foreach_mul(a, b),
        lambda a, b, c: torch._foreach_mul(a, b[2]),
        lambda a, b, c: torch._foreach_div(a, [2.0, 4.0, 8.0]),
        lambda a, b, c: torch._foreach_sqrt(a),
        lambda a, b, c: torch._foreach_pow(a, 2.0),
        lambda a, b, c: torch._foreach_pow(2.0, a),
        lambda a, b, c: torch._foreach_addcmul(a, b, c, value=0.5),
        lambda a, b, c: torch._foreach_addcdiv(a, b, c, [1.0, 2.0, 3.0]),
        lambda a, b, c: torch._foreach_addcdiv(a, b, c, torch.tensor([1.0, 2.0, 3.0])),
        lambda a, b, c: torch._foreach_lerp(a, b, 0.25),
        lambda a, b, c: torch._foreach_lerp(a, b, c),
        lambda a, b, c: torch._foreach_maximum(a, b),
        lambda a, b, c: torch._foreach_neg(a),
        lambda a, b, c: torch._foreach_reciprocal(a),
        lambda a, b, c: torch._foreach_norm(a),
        lambda a, b, c: torch._foreach_clamp_max(a, 0.75),
        lambda a, b, c: (torch._foreach_add_(a, b, alpha=-1), a)[1],
        lambda a, b, c: (torch._foreach_mul_(a, 0.5), a)[1],
        lambda a, b, c: (torch._foreach_addcdiv_(a, b, c, value=-0.1), a)[1],
        lambda a, b, c: (torch._foreach_lerp_(a, b, 0.1), a)[1],
        lambda a, b, c: (torch._foreach_add_(a, a), a)[1],
        lambda a, b, c: (torch._foreach_copy_(a, b), a)[1],
        lambda a, b, c: (torch._foreach_zero_(a), a)[1],
        lambda a, b, c: (torch._foreach_sqrt_(a), a)[1],
    ],
)
def test_list_operators(call):
    expected, got = call(*lists("cpu")), call(*lists(D))
    assert len(expected) == len(got)
    for e, g in zip(expected, got):
        torch.testing.assert_close(g.cpu(), e, rtol=1e-5, atol=1e-6)


def test_list_errors_and_dtypes():
    a, b, _ = lists(D)
    with pytest.raises(RuntimeError, match="same number of tensors"):
        torch._foreach_add(a, b[:2])
    with pytest.raises(RuntimeError, match="at least one tensor"):
        torch._foreach_add_([], 1)
    mixed = torch._foreach_add([a[0].half(), a[1].int()], [b[0], b[1]])
    assert [t.dtype for t in mixed] == [torch.float32, torch.float32]
