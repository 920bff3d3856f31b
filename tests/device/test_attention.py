"""scaled_dot_product_attention against CPU torch: masks, causal, shared heads, dtypes, gradients."""

from dataclasses import replace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

import webgpu_backend
from webgpu_backend.kernels import attention as kernels
from webgpu_backend.launch import caps
from webgpu_backend.ops import attention

TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2}


@pytest.fixture(params=["fused", "composed"])
def path(request, monkeypatch):
    """Few scores are composed of products on a software adapter; the fused kernels must be right there as well."""
    for mode in kernels.TILES:  # the smallest tile: software drivers take seconds over the text of the largest
        monkeypatch.setitem(kernels.TILES, mode, kernels.TILES[mode][-1:])
    attention._steps.clear()
    limit = 0 if request.param == "fused" else 1 << 40
    monkeypatch.setattr(attention, "SMALL_SCORES", {"gpu": limit, "cpu": limit})
    yield request.param
    attention._steps.clear()


def check(q_shape, k_shape, v_shape=None, dtype=torch.float32, mask=None, change=lambda x: x, grad=True, **options):
    tensors = [torch.randn(s).to(dtype) for s in (q_shape, k_shape, v_shape or k_shape)]
    results = []
    for device in ("cpu", "webgpu"):
        leaves = [t.to(device).requires_grad_(grad) for t in tensors]
        where = None if mask is None else mask.to(device)
        out = sdpa(*[change(x) for x in leaves], where, **options)
        got = [out]
        if grad:
            weights = torch.linspace(-1, 1, out.numel()).view(out.shape).to(dtype).to(device)
            got += torch.autograd.grad(out, leaves, weights)
        results.append(got)
    for wanted, got in zip(*results):
        assert got.shape == wanted.shape and got.dtype == wanted.dtype and got.device.type == "webgpu"
        torch.testing.assert_close(got.detach().cpu(), wanted.detach(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_plain_and_causal(path):
    check((2, 3, 37, 16), (2, 3, 37, 16))
    check((2, 3, 37, 16), (2, 3, 37, 16), is_causal=True)
    check((1, 2, 70, 32), (1, 2, 90, 32), (1, 2, 90, 20), scale=0.3)
    check((1, 2, 90, 32), (1, 2, 70, 32), is_causal=True)


def test_masks(path):
    keep = torch.rand(2, 1, 9, 21) > 0.3
    check((2, 3, 9, 8), (2, 3, 21, 8), mask=keep)
    check((2, 3, 9, 8), (2, 3, 21, 8), mask=torch.randn(9, 21))
    check((2, 3, 9, 8), (2, 3, 21, 8), mask=torch.randn(3, 1, 21))
    nothing = torch.ones(9, 21, dtype=torch.bool)
    nothing[4] = False
    check((1, 2, 9, 8), (1, 2, 21, 8), mask=nothing)
    blocked = torch.zeros(9, 21)
    blocked[:, 5:9] = float("-inf")
    check((1, 2, 9, 8), (1, 2, 21, 8), mask=blocked)


def test_shared_heads(path):
    check((2, 6, 17, 8), (2, 2, 33, 8), enable_gqa=True)
    check((2, 6, 33, 8), (2, 2, 33, 8), enable_gqa=True, is_causal=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_dtypes(dtype, path):
    check((1, 2, 40, 16), (1, 2, 40, 16), dtype=dtype, is_causal=True)


def test_layouts(path):
    check((2, 37, 3, 16), (2, 37, 3, 16), change=lambda x: x.transpose(1, 2))
    check((2, 3, 9, 8), (2, 3, 9, 8), change=lambda x: x[:, :, 1:, :])
    check((3, 9, 8), (3, 9, 8))
    check((2, 2, 3, 9, 8), (2, 2, 3, 9, 8))


def test_odd_heads_and_dropout_take_the_composite():
    check((1, 2, 9, 7), (1, 2, 9, 7), is_causal=True)
    check((2, 9, 8), (2, 9, 8))
    q = torch.randn(1, 2, 8, 8).to("webgpu")
    assert sdpa(q, q, q, dropout_p=0.5).shape == q.shape


def test_large_head_and_inference(path):
    check((1, 1, 5, 256), (1, 1, 5, 256))
    q = torch.randn(1, 2, 9, 8)
    with torch.inference_mode():
        got = sdpa(*[q.to("webgpu")] * 3, is_causal=True)
    torch.testing.assert_close(got.cpu(), sdpa(q, q, q, is_causal=True), rtol=1e-4, atol=1e-4)


def test_double_backward(path):
    q = torch.randn(1, 2, 6, 8)
    results = []
    for device in ("cpu", "webgpu"):
        a = q.to(device).requires_grad_()
        with sdpa_kernel(SDPBackend.MATH):  # the CPU's fused kernel has no second derivative
            out = sdpa(a, a, a, is_causal=True)
        (g,) = torch.autograd.grad(out, a, torch.ones_like(out), create_graph=True)
        results.append(torch.autograd.grad(g, a, torch.linspace(-1, 1, g.numel()).view(g.shape).to(device))[0].cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-4)


def test_tiles_of_big_gpus(monkeypatch):
    found = replace(caps(), kind="gpu")
    monkeypatch.setattr(attention, "caps", lambda: found)
    attention._steps.clear()
    check((1, 2, 70, 16), (1, 2, 90, 16), mask=torch.randn(70, 90))
    attention._steps.clear()


def test_memory_is_linear_and_one_dispatch(monkeypatch):
    monkeypatch.setattr(attention, "SMALL_SCORES", {"gpu": 0, "cpu": 0})
    q = torch.randn(1, 1, 256, 8).to("webgpu")
    sdpa(q, q, q)
    before = webgpu_backend.stats()["dispatches"]
    sdpa(q, q, q)
    assert webgpu_backend.stats()["dispatches"] - before == 1
