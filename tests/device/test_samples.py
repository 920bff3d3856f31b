"""Derivatives of samples by the parameters of their distribution."""

import pytest
import torch

from tests.device._compare import D, same


def test_gamma_gradient():
    torch.manual_seed(0)
    alpha = torch.logspace(-2, 4, 4000).repeat(2)
    x = torch._standard_gamma(alpha).clamp(min=1e-30)
    same(torch._standard_gamma_grad, alpha, x, tolerance=1e-3)
    same(torch._standard_gamma_grad, torch.tensor([0.5, 2.0, 30.0]), torch.tensor([0.0, 1e-8, 0.3]), tolerance=1e-3)


@pytest.mark.parametrize("low, high", [(-2, 0.5), (0.5, 2), (2, 4)])
def test_beta_gradient(low, high):
    torch.manual_seed(0)
    alpha, beta = (10 ** (torch.rand(8000) * (high - low) + low) for _ in range(2))
    x = torch.distributions.Beta(alpha, beta).sample().clamp(1e-6, 1 - 1e-6)
    wide = torch._dirichlet_grad(x.double(), alpha.double(), (alpha + beta).double()).float()
    ours = torch._dirichlet_grad(x.to(D), alpha.to(D), (alpha + beta).to(D))
    torch.testing.assert_close(ours.cpu(), wide, rtol=3e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["Gamma", "Chi2", "StudentT", "Dirichlet"])
def test_reparametrized_samples(name):
    alpha = torch.full((100,), 3.0, device=D, requires_grad=True)
    kind = getattr(torch.distributions, name)
    sample = (kind(alpha, 2.0) if name == "Gamma" else kind(alpha)).rsample()
    (gradient,) = torch.autograd.grad(sample.square().sum(), alpha)
    assert gradient.device.type == D and bool(gradient.isfinite().all()) and bool((gradient != 0).all())
