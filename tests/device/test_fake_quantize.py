"""Fake quantisation and its gradients, and what is said of torch's quantised dtypes."""

import pytest
import torch

from tests.device._compare import gradients, same

D = "webgpu"
ODD = torch.tensor([0.25, 0.35, -0.15, 1e30, -1e30, float("nan"), 1.2, -0.3])
SHAPES = [(7, 5), (3, 4, 6), (1,), (0, 3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_per_tensor(shape, dtype):
    x = (torch.randn(shape) * 3).to(dtype)
    call = lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 31)  # noqa: E731
    same(call, x, tolerance=1e-6)
    same(lambda x: call(x.t()), x if x.dim() == 2 else x.reshape(-1, 1), tolerance=1e-6)
    if x.numel() and dtype == torch.float32:
        gradients(call, x, tolerance=1e-6)


def test_per_tensor_of_tensors_and_odd_values():
    same(lambda x: torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 3, 0, 15), ODD, tolerance=1e-6)
    zero = torch.tensor(3, dtype=torch.int32)
    call = lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, -8, 7)  # noqa: E731
    same(call, ODD[:3], torch.tensor(0.07), zero, tolerance=1e-6)
    grad = [torch.randn(9).requires_grad_().to(D).detach().requires_grad_()]
    call(grad[0], torch.tensor(0.07, device=D), zero.to(D)).sum().backward()
    assert set(grad[0].grad.cpu().tolist()) <= {0.0, 1.0}
    for on in (0, 1):
        fake = torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams
        same(
            lambda x, s, z, e: fake(x, s, z, e, 0, 9),
            torch.randn(20), torch.tensor([0.3]), torch.tensor([2], dtype=torch.int32), torch.tensor([on]),
            tolerance=1e-6,
        )  # fmt: skip


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_per_channel(axis):
    x = torch.randn(3, 4, 6) * 2
    n = x.shape[axis]
    scale, zero = torch.rand(n) * 0.2 + 0.02, torch.randint(-3, 4, (n,), dtype=torch.int32)
    call = lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, axis, -8, 7)  # noqa: E731
    same(call, x, scale, zero, tolerance=1e-6)
    gradients(lambda x: call(x, scale.to(x.device), zero.to(x.device)), x, tolerance=1e-6)


def test_learnable():
    x = torch.linspace(-3, 3, 30).reshape(5, 6) + 0.013
    one = lambda x, s, z: torch._fake_quantize_learnable_per_tensor_affine(x, s, z, 0, 15, 0.7)  # noqa: E731
    gradients(one, x, torch.tensor([0.21]), torch.tensor([3.2]), tolerance=1e-4)
    for axis, n in ((0, 5), (1, 6)):
        each = lambda x, s, z: torch._fake_quantize_learnable_per_channel_affine(x, s, z, axis, 0, 15, 0.7)  # noqa: E731
        gradients(each, x, torch.rand(n) * 0.2 + 0.1, torch.rand(n) * 5, tolerance=1e-4)


def test_errors():
    x = torch.randn(3, 4, device=D)
    with pytest.raises(RuntimeError, match="zero_point"):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 300, 0, 255)
    with pytest.raises(RuntimeError, match="quant_min"):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 9, 2)
    with pytest.raises(RuntimeError, match="not consistent"):
        scale, zero = torch.rand(2, device=D), torch.zeros(2, dtype=torch.int32, device=D)
        torch.ops.aten.fake_quantize_per_channel_affine_cachemask(x, scale, zero, 0, 0, 255)


def test_quantised_dtypes_are_refused_in_words():
    x = torch.randn(3, 4, device=D)
    with pytest.raises(NotImplementedError, match="quantized_decomposed"):
        torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
    with pytest.raises(NotImplementedError, match="quantized dtypes"):
        torch.quantize_per_channel(x, torch.rand(3, device=D), torch.zeros(3, device=D), 0, torch.qint8)
    assert torch.equal(x.half().dequantize().cpu(), x.half().float().cpu())


def test_decomposed_operators():
    import torch.ao.quantization.fx._decomposed  # noqa: F401

    q, x = torch.ops.quantized_decomposed, torch.randn(4, 6)
    same(lambda x: q.quantize_per_tensor(x, 0.1, 3, 0, 255, torch.uint8), x)
    codes = q.quantize_per_tensor(x, 0.1, 3, 0, 255, torch.uint8)
    same(lambda c: q.dequantize_per_tensor(c, 0.1, 3, 0, 255, torch.uint8), codes, tolerance=1e-6)
    scale, zero = torch.rand(4) * 0.1 + 0.01, torch.zeros(4, dtype=torch.int64)
    same(lambda x, s, z: q.quantize_per_channel(x, s, z, 0, -128, 127, torch.int8), x, scale, zero)
