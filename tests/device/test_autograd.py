"""Autograd on the device: graphs, hooks, threads, checkpoints, forward mode."""

import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.device._compare import D, both


def test_backward_through_views():
    def run(d):
        x = torch.randn(3, 4).to(d).requires_grad_()
        (x[1:] * 2).relu().sum().backward()
        return x.grad

    both(run)


def test_accumulation():
    p = nn.Parameter(torch.ones(2, device=D))
    for _ in range(3):
        (p * 2).sum().backward()
    assert p.grad.cpu().tolist() == [6.0, 6.0]
    p.grad = None
    (p * p).sum().backward(retain_graph=False)
    assert p.grad.cpu().tolist() == [2.0, 2.0]


def test_double_backward():
    def run(d):
        x = torch.randn(3).to(d).requires_grad_()
        (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return torch.autograd.grad(g.sum(), x)

    both(run)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["attention", "matmul", "rnn", "layer_norm", "linear", "conv"])
def test_what_nothing_asks_for_has_no_gradient(name, dtype):
    """Zeros in its place would be NaN behind the root of 0."""
    layer = nn.GRU(4, 4, batch_first=True).to(dtype)
    call = {
        "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
        "matmul": lambda x: x[None] @ x.mT,
        "rnn": lambda x: layer.to(x.device)(x)[0],
        "layer_norm": lambda x: F.layer_norm(x, (4,)),
        "linear": lambda x: F.linear(x, x[0]),
        "conv": lambda x: F.conv1d(x, x),
    }[name]

    def run(d):
        x = torch.tensor([0.0, 1.0, 4.0, 9.0], dtype=dtype).repeat(2, 4, 1).to(d).requires_grad_()
        asked = torch._foreach_clamp_min([call(x.sqrt()), x * 2], 0)[1]
        return torch.autograd.grad(asked.sum(), x)

    both(run)


def test_what_a_product_s_gradient_does_not_need_may_be_written():
    def run(d):
        x = torch.arange(24.0).view(4, 2, 1, 3).to(d).requires_grad_()
        y = x * 1
        (g,) = torch.autograd.grad((y @ y.mT).sum(), y, create_graph=True)
        y.cumsum_(0)
        return torch.autograd.grad(g.sum(), x)

    both(run)


def test_hooks():
    x = torch.ones(2, device=D, requires_grad=True)
    x.register_hook(lambda g: g * 10)
    y = x * 1
    y.retain_grad()
    y.sum().backward()
    assert x.grad.cpu().tolist() == [10.0, 10.0] and y.grad.cpu().tolist() == [1.0, 1.0]
    seen = []
    layer = nn.Linear(2, 2).to(D)
    layer.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].device.type))
    layer(torch.ones(1, 2, device=D, requires_grad=True)).sum().backward()
    assert seen == [D]


class _Watched(torch.autograd.Function):
    """The square; keeps the threads that asked for its gradient, and fails where it is negative."""

    threads: list = []

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        _Watched.threads.append(threading.get_ident())
        (x,) = ctx.saved_tensors
        if x[0].item() < 0:
            raise ArithmeticError("negative")
        return g * 2 * x


def test_gradients_are_computed_on_the_calling_thread():
    asked = []

    def run():
        asked.append(threading.get_ident())
        x = torch.full((2,), 3.0, device=D, requires_grad=True)
        _Watched.apply(x).sum().backward()
        assert x.grad.cpu().tolist() == [6.0, 6.0]

    _Watched.threads.clear()
    run()
    other = threading.Thread(target=run)
    other.start()
    other.join()
    assert _Watched.threads == asked and len(set(asked)) == 2


@pytest.mark.parametrize("threaded", [True, False])
def test_the_choice_of_threads_is_the_callers_again(threaded):
    with torch.autograd.set_multithreading_enabled(threaded):
        x = torch.full((2,), -3.0, device=D, requires_grad=True)
        with pytest.raises(ArithmeticError):
            torch.autograd.grad(_Watched.apply(x).sum(), x)
        assert torch._C._is_multithreading_enabled() == threaded
        x = torch.full((2,), 3.0, device=D, requires_grad=True)
        y = _Watched.apply(x)
        edge = torch.autograd.graph.get_gradient_edge(y)
        (g,) = torch.autograd.grad(edge, x, torch.ones_like(y))
        assert g.cpu().tolist() == [6.0, 6.0]
        assert torch._C._is_multithreading_enabled() == threaded


def test_gradients_within_gradients():
    """Deeper than the engine goes on one thread."""

    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if ctx.depth:
                with torch.enable_grad():
                    y = torch.ones(2, device=g.device, requires_grad=True)
                    Nested.apply(y, ctx.depth - 1).sum().backward()
                return g * y.grad, None
            return g * 2, None

    x = torch.ones(2, device=D, requires_grad=True)
    Nested.apply(x, 80).sum().backward()
    assert x.grad.cpu().tolist() == [2.0, 2.0]


def test_gradcheck():
    """Numerical and analytical gradients agree, in float32 since few adapters have more."""
    x = torch.randn(3).to(D).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: (t * t).sum(), (x,), eps=1e-2, atol=1e-2)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint(reentrant):
    def run(d):
        x, layer = torch.randn(3, 4).to(d).requires_grad_(), nn.Linear(4, 4).to(d)
        checkpoint(lambda z: layer(z).relu(), x, use_reentrant=reentrant).sum().backward()
        return x.grad, layer.weight.grad

    both(run)


def test_checkpoint_keeps_the_random_state():
    x = torch.ones(64, device=D, requires_grad=True)
    y = checkpoint(lambda z: F.dropout(z * 2, 0.5), x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad.cpu() != 0, y.detach().cpu() != 0)


@pytest.mark.parametrize("options", [{}, {"pin_memory": True}, {"pin_memory": True, "device_type": D}])
def test_saved_tensors_on_the_cpu(options):
    x = torch.full((3,), 2.0, device=D, requires_grad=True)
    with torch.autograd.graph.save_on_cpu(**options):
        y = (x * x).sum()
    y.backward()
    assert x.grad.cpu().tolist() == [4.0] * 3


def test_tangents_in_batches():
    """Whose rule takes a buffer that only the CPU needs for one of the input's shape."""
    x, t = torch.randn(3, 4), torch.randn(3, 4)
    both = torch.func.vmap(lambda x, t: torch.func.jvp(torch.nn.functional.logsigmoid, (x,), (t,)))
    one = torch.func.vmap(both)
    for f in (both, one):
        for ours, theirs in zip(f(x.to(D), t.to(D)), f(x, t)):
            torch.testing.assert_close(ours.cpu(), theirs)


def test_forward_mode():
    value, tangent = torch.func.jvp(lambda x: (x * x).sum(), (torch.ones(3, device=D),), (torch.ones(3, device=D),))
    assert value.item() == 3.0 and tangent.item() == 6.0
    import torch.autograd.forward_ad as fwd

    with fwd.dual_level():
        dual = fwd.make_dual(torch.ones(2, device=D), torch.full((2,), 3.0, device=D))
        assert fwd.unpack_dual(dual.exp()).tangent.cpu().allclose(torch.full((2,), 3.0) * torch.e)


def test_no_grad_and_inference_mode():
    x = torch.ones(2, device=D, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        y = torch.ones(2, device=D)[1:] * 2
        assert y.is_inference() and y.item() == 2.0
    with torch.enable_grad():
        assert (x * 2).requires_grad


def test_anomaly_mode_names_the_operator():
    x = torch.zeros(2, device=D, requires_grad=True)
    with pytest.warns(UserWarning), torch.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="returned nan"):
        (x.sqrt() * 0).sum().backward()


def test_grad_between_devices():
    x = torch.ones(3, requires_grad=True)
    (x.to(D) * 2).cpu().sum().backward()
    assert x.grad.device.type == "cpu" and x.grad.tolist() == [2.0] * 3


def test_gradients_reach_many_leaves_of_odd_sizes():
    def run(d):
        leaves = [torch.randn(n, 3).to(d).requires_grad_() for n in (1, 2, 5, 17)]
        total = sum((x.sigmoid() * x).mean() for x in leaves)
        return torch.autograd.grad(total, leaves)

    both(run)


FORWARD = {
    "batches": (torch.matmul, (2, 3, 4), (2, 4, 5)),
    "broadcast batches": (torch.matmul, (2, 3, 4), (1, 4, 5)),
    "matrices": (torch.matmul, (3, 4), (4, 5)),
    "linear": (torch.nn.functional.linear, (2, 3, 4), (6, 4)),
    "rms_norm": (lambda x: torch.nn.functional.rms_norm(x, (4,)), (3, 4)),
    "instance_norm": (torch.nn.functional.instance_norm, (2, 3, 7)),
    "renorm": (lambda x: torch.renorm(x, 2, 0, 1.0), (3, 4)),
}


@pytest.mark.parametrize("name", FORWARD)
def test_tangents_are_carried_along(name):
    """Forward mode: what replaces a composite of torch must not lose them."""
    import torch.autograd.forward_ad as forward

    f, *shapes = FORWARD[name]
    torch.manual_seed(0)
    values, directions = [torch.randn(s) for s in shapes], [torch.randn(s) for s in shapes]
    found = []
    for device in ("cpu", D):
        with forward.dual_level():
            duals = [forward.make_dual(v.to(device), d.to(device)) for v, d in zip(values, directions)]
            value, tangent = forward.unpack_dual(f(*duals))
            found.append((value.cpu(), tangent.cpu()))
    for got, expected in zip(found[1], found[0]):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    weight = torch.randn(2, 3).to(D).requires_grad_()
    torch.nn.functional.linear(torch.ones(1, 3, device=D), weight).sum().backward()  # as before, afterwards
    assert torch.equal(weight.grad.cpu(), torch.ones(2, 3))


def test_tangents_through_attention_and_recurrent_layers():
    import torch.autograd.forward_ad as forward

    torch.manual_seed(0)
    layer, x, d = torch.nn.GRU(4, 5, batch_first=True), torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    q, dq = torch.randn(1, 2, 8, 8), torch.randn(1, 2, 8, 8)
    found = []
    for device in ("cpu", D):
        layer.to(device)
        with forward.dual_level(), torch.no_grad(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            dual = forward.make_dual(x.to(device), d.to(device))
            heads = forward.make_dual(q.to(device), dq.to(device))
            out = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
            found.append([forward.unpack_dual(y).tangent.cpu() for y in (layer(dual)[0], out)])
    for got, expected in zip(found[1], found[0]):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_second_gradients_of_complex_products():
    def second(device):
        a = torch.linspace(-1, 1, 60).to(torch.complex64).mul(1 - 2j).view(3, 4, 5).to(device).requires_grad_()
        b = torch.linspace(1, 2, 10).to(torch.complex64).add(1j).view(5, 2).to(device).requires_grad_()
        first = torch.autograd.grad((a @ b).abs().sum(), (a, b), create_graph=True)
        return torch.autograd.grad(first[0].abs().sum() + first[1].abs().sum(), (a, b))

    for expected, found in zip(second("cpu"), second("webgpu")):
        torch.testing.assert_close(found.cpu(), expected)
