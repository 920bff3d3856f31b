"""torch.func on the device."""

import torch
from torch import nn

from tests.device._compare import D, both
from webgpu_backend.plan.graphs import planned_graph


def test_grad():
    assert torch.func.grad(lambda x: (x**2).sum())(torch.arange(3.0, device=D)).cpu().tolist() == [0, 2, 4]


def test_vmap():
    both(lambda d: torch.vmap(lambda a, b: a @ b)(torch.randn(3, 4).to(d), torch.randn(3, 4).to(d)))
    both(lambda d: torch.vmap(lambda a: a.softmax(0) + 1, in_dims=1)(torch.randn(3, 4).to(d)))
    both(lambda d: torch.vmap(torch.func.grad(lambda x: (x**2).sum()))(torch.randn(3, 4).to(d)))


def test_jacobians():
    both(lambda d: torch.func.jacrev(lambda x: x * x)(torch.arange(3.0).to(d)))
    both(lambda d: torch.func.jacfwd(lambda x: x.sin())(torch.arange(3.0).to(d)))
    both(lambda d: torch.func.hessian(lambda x: (x**3).sum())(torch.arange(1.0, 4.0).to(d)))


def test_vjp():
    def run(d):
        out, pull = torch.func.vjp(lambda x: x.exp(), torch.ones(3).to(d))
        return out, pull(torch.full((3,), 2.0).to(d))

    both(run)


def test_functional_call():
    def run(d):
        layer = nn.Linear(3, 2).to(d)
        doubled = {k: v * 2 for k, v in layer.named_parameters()}
        return torch.func.functional_call(layer, doubled, torch.ones(1, 3, device=d))

    both(run)


def test_ensembles():
    def run(d):
        models = [nn.Linear(3, 2).to(d) for _ in range(3)]
        params, buffers = torch.func.stack_module_state(models)
        x = torch.randn(4, 3).to(d)
        return torch.vmap(lambda p, b: torch.func.functional_call(models[0], (p, b), (x,)))(params, buffers)

    both(run)


def test_functionalize():
    out = torch.func.functionalize(lambda x: x.clone().add_(1))(torch.ones(2, device=D))
    assert out.cpu().tolist() == [2.0, 2.0]


def test_per_sample_gradients():
    def run(d):
        layer = nn.Linear(3, 1).to(d)
        params = dict(layer.named_parameters())

        def loss(p, x, y):
            return (torch.func.functional_call(layer, p, (x[None],)) - y).square().sum()

        x, y = torch.randn(5, 3).to(d), torch.randn(5, 1).to(d)
        return torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(params, x, y)

    both(run)


def test_transforms_after_arguments_were_printed_in_a_plan():
    """An overload that does not fit is refused with its arguments in words, also while they have no values."""
    x, y = torch.rand(3, device=D), torch.rand(3, device=D)
    run = planned_graph(lambda a, b: torch.ops.aten.clamp_max(a * 0.5, b) * 2)
    for _ in range(2):
        torch.testing.assert_close(run(x, y).cpu(), torch.minimum(x.cpu() * 0.5, y.cpu()) * 2)
    assert torch.func.grad(lambda x: (x**2).sum())(torch.arange(3.0)).tolist() == [0, 2, 4]
