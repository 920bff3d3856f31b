"""Operators of PyTorch's fast path of transformer layers, assertions, and glu's second derivatives."""

import copy

import pytest
import torch
import torch.nn.functional as F

from tests.device._compare import D, close, same


def test_masked_softmax():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 4)
    rows, keys = torch.rand(4, 4) > 0.6, torch.rand(2, 4) > 0.6
    full = torch.rand(2, 3, 4, 4) > 0.6
    same(lambda x, m: torch._masked_softmax(x, m, 3, 0), x, rows, tolerance=None)
    same(lambda x, m: torch._masked_softmax(x, m, 3, 1), x, keys, tolerance=None)
    same(lambda x, m: torch._masked_softmax(x, m, 3, 2), x, full, tolerance=None)
    same(lambda x, m: torch._masked_softmax(x, m), x, full, tolerance=None)
    some = full.clone()
    some[..., 0] = False
    out = torch._masked_softmax(x, some, 3, 2)
    same(
        lambda g, o, m: torch.ops.aten._masked_softmax_backward(g, o, m, 3),
        torch.randn(2, 3, 4, 4),
        out,
        some,
        tolerance=None,
    )


def test_transform_bias_rescale_qkv():
    same(
        lambda x, b: torch._transform_bias_rescale_qkv(x, b, 2), torch.randn(2, 3, 24), torch.randn(24), tolerance=None
    )


def test_int_mm():
    for kind in (torch.int8, torch.uint8):
        a = torch.randint(0 if kind is torch.uint8 else -128, 128, (17, 33)).to(kind)
        b = torch.randint(-128, 128, (33, 9)).to(torch.int8)
        close(torch._int_mm(a.to(D), b.to(D)), a.int() @ b.int())  # the CPU of torch 2.11 has no uint8 here
    with pytest.raises(RuntimeError, match="needs to match"):
        torch._int_mm(torch.ones(3, 4, dtype=torch.int8, device=D), torch.ones(5, 2, dtype=torch.int8, device=D))


def test_aminmax():
    same(lambda x: torch._aminmax(x), torch.randn(5, 6), tolerance=None)
    same(lambda x: torch._aminmax(x, 1, True), torch.randn(5, 6), tolerance=None)


def test_assertions():
    torch._assert_async(torch.ones(1, device=D))
    for bad in (torch.zeros(()), torch.zeros(2), torch.zeros(0)):
        with pytest.raises(RuntimeError) as expected:
            torch._assert_async(bad)
        with pytest.raises(RuntimeError) as got:
            torch._assert_async(bad.to(D))
        assert str(got.value) == str(expected.value)
    with pytest.raises(RuntimeError, match="of mine"):
        torch._assert_async(torch.zeros((), device=D), "of mine")


def test_forward_mode_of_glu():
    x, dx = torch.randn(3, 8), torch.randn(3, 8)
    same(lambda x, dx: torch.func.jvp(lambda t: F.glu(t, 1), (x,), (dx,)), x, dx, tolerance=None)
    gradient = torch.func.grad(lambda t: F.glu(t, 1).square().sum())
    same(lambda x, dx: torch.func.jvp(gradient, (x,), (dx,)), x, dx, tolerance=None)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_an_encoder_with_padding(training, norm_first):
    """In evaluation torch packs the rows into a nested tensor, and what was padded comes back as zeros."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=norm_first)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).train(training)
    x = torch.randn(3, 6, 16)
    padding = torch.arange(6) >= torch.tensor([6, 4, 2])[:, None]
    with torch.set_grad_enabled(training):
        expected = model(x, src_key_padding_mask=padding)
        found = copy.deepcopy(model).to(D)(x.to(D), src_key_padding_mask=padding.to(D))
    torch.testing.assert_close(found.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("lengths", [(6, 4, 2), (6, 6, 6), (6, 0, 3), None])
@pytest.mark.parametrize("normed", [True, False])
def test_padded_places_are_zero(lengths, normed):
    """Or what the last norm makes of zero. With padding that is not at the end torch leaves the places as they are."""
    torch.manual_seed(0)
    norm = torch.nn.LayerNorm(16) if normed else None
    if normed:
        torch.nn.init.normal_(norm.bias)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, norm=norm).eval()
    x, padding = torch.randn(3, 6, 16), torch.arange(6) == torch.tensor([1, 4, 2])[:, None]
    if lengths is not None:
        padding = torch.arange(6) >= torch.tensor(lengths)[:, None]
    ours = copy.deepcopy(model).to(D)
    for gradients in (False, True):
        with torch.set_grad_enabled(gradients):
            expected = model(x, src_key_padding_mask=padding)
            found = ours(x.to(D), src_key_padding_mask=padding.to(D))
        torch.testing.assert_close(found.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-5, equal_nan=True)
        assert lengths is None or gradients or normed or not found[padding.to(D)].any().item()
