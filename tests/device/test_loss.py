"""Losses of two tensors against the CPU, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

import webgpu_backend
from tests.device._compare import gradients


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses(reduction):
    torch.manual_seed(0)
    for shape in [(), (7,), (5, 33), (3, 40000)]:
        a, b = torch.randn(shape) * 2, torch.randn(shape)
        rest = {"reduction": reduction}
        gradients(lambda a, b: F.mse_loss(a, b, **rest), a, b)
        gradients(lambda a, b: F.smooth_l1_loss(a, b, beta=0.7, **rest), a, b)
        gradients(lambda a, b: F.huber_loss(a, b, delta=1.3, **rest), a, b)
        gradients(lambda a, b: F.l1_loss(a, b, **rest), a, b)
        signs = b.sign()
        gradients(lambda a: F.soft_margin_loss(a, signs.to(a.device), **rest), a)
        chance, label = torch.rand(shape), (b > 0).float()
        gradients(lambda a: F.binary_cross_entropy(a, label.to(a.device), **rest), chance, tolerance=(1e-3, 1e-5))
        gradients(
            lambda a: F.binary_cross_entropy(a, label.to(a.device), chance.to(a.device), **rest),
            chance,
            tolerance=(1e-3, 1e-5),
        )
        gradients(lambda a: F.binary_cross_entropy_with_logits(a, label.to(a.device), **rest), a)
        gradients(lambda a: F.kl_div(a, chance.to(a.device), **rest), a)


def test_broadcast_and_halves():
    torch.manual_seed(0)
    gradients(lambda a, b: torch.ops.aten.mse_loss(a, b), torch.randn(4, 5), torch.randn(5))
    for f in (F.mse_loss, F.smooth_l1_loss, F.huber_loss):
        gradients(f, torch.randn(4, 50).half(), torch.randn(4, 50).half(), tolerance=(2e-2, 2e-3))


def test_mean_is_one_dispatch():
    a, b = torch.randn(64, 10).to("webgpu"), torch.randn(64, 10).to("webgpu")
    F.mse_loss(a, b)
    before = webgpu_backend.stats()["dispatches"]
    F.mse_loss(a, b)
    assert webgpu_backend.stats()["dispatches"] - before == 1


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_margins(reduction):
    torch.manual_seed(0)
    target, labels = torch.tensor([0, 3, 2]), torch.tensor([[1, 3, -1, 0], [2, -1, 0, 0], [-1, 0, 0, 0]])
    for p in (1, 2):
        gradients(lambda x, p=p: F.multi_margin_loss(x, target.to(x.device), p, reduction=reduction), torch.randn(3, 4))
    gradients(lambda x: F.multi_margin_loss(x, target[1].to(x.device), reduction=reduction), torch.randn(4))
    gradients(lambda x: F.multilabel_margin_loss(x, labels.to(x.device), reduction=reduction), torch.randn(3, 4))


@pytest.mark.parametrize("name", ["multi_margin_loss", "multilabel_margin_loss"])
def test_margins_with_nan_are_the_cpus(name):
    for row in ([1.0, float("nan"), 2.0, float("inf")], [1.0, -float("inf"), 2.0, 0.5]):
        x = torch.tensor([row])
        target = torch.tensor([2]) if name == "multi_margin_loss" else torch.tensor([[2, 0, -1, 1]])
        expected = getattr(torch.nn.functional, name)(x, target)
        found = getattr(torch.nn.functional, name)(x.to("webgpu"), target.to("webgpu")).cpu()
        torch.testing.assert_close(found, expected, equal_nan=True)
