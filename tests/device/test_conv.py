"""Convolutions and their gradients against CPU torch."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from webgpu_backend.kernels import tiles
from webgpu_backend.launch import caps
from webgpu_backend.ops import matmul as ops

TOLERANCE = {torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 6e-2}
# function, input, weight, options
CASES = {
    "1d": (F.conv1d, (2, 4, 11), (6, 4, 3), {}),
    "1d_strided": (F.conv1d, (2, 4, 12), (6, 4, 4), {"stride": 2, "padding": 3, "dilation": 2}),
    "2d": (F.conv2d, (2, 3, 9, 10), (5, 3, 3, 3), {"padding": 1}),
    "2d_same": (F.conv2d, (2, 3, 9, 10), (5, 3, 3, 4), {"padding": "same"}),
    "2d_pointwise": (F.conv2d, (3, 8, 6, 6), (12, 8, 1, 1), {}),
    "2d_pointwise_strided": (F.conv2d, (3, 8, 7, 6), (12, 8, 1, 1), {"stride": 2}),
    "2d_strided": (F.conv2d, (2, 4, 11, 9), (18, 4, 3, 2), {"stride": (2, 3), "padding": (1, 0), "dilation": (1, 2)}),
    "2d_groups": (F.conv2d, (2, 6, 7, 7), (9, 2, 3, 3), {"groups": 3, "padding": 1}),
    "2d_depthwise": (F.conv2d, (2, 6, 8, 7), (12, 1, 3, 3), {"groups": 6, "stride": 2, "padding": 1}),
    "2d_phases": (F.conv2d, (2, 3, 12, 13), (4, 3, 2, 5), {"stride": (3, 2), "padding": (1, 2)}),
    "3d": (F.conv3d, (1, 2, 5, 6, 7), (3, 2, 2, 3, 3), {"padding": (1, 0, 2), "stride": (1, 2, 1)}),
    "t1d": (F.conv_transpose1d, (2, 4, 7), (4, 5, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    "t2d": (F.conv_transpose2d, (2, 4, 5, 6), (4, 3, 3, 3), {"stride": (2, 1), "padding": 1}),
    "t2d_groups": (F.conv_transpose2d, (2, 6, 5, 4), (6, 2, 3, 2), {"groups": 3, "dilation": 2, "stride": 2}),
    "t3d": (F.conv_transpose3d, (1, 2, 3, 4, 3), (2, 3, 2, 3, 2), {"stride": 2, "output_padding": (1, 0, 1)}),
}


@pytest.fixture
def big_gpu(monkeypatch):
    found = replace(caps(), kind="gpu")
    monkeypatch.setattr(ops, "caps", lambda: found)
    monkeypatch.setattr(tiles, "_used", replace(tiles.GPU, tiles=(tiles.Tile(32, 32, 8, 4, 4),), halves=()))
    ops._plans.clear()
    yield
    ops._plans.clear()


def run(case, dtype, bias=True, change=lambda x: x):
    function, x_shape, w_shape, options = CASES[case]
    out_channels = w_shape[0] if "conv_t" not in function.__name__ else w_shape[1] * options.get("groups", 1)
    tensors = [torch.randn(x_shape), torch.randn(w_shape), torch.randn(out_channels)][: 3 if bias else 2]
    results = []
    for device in ("cpu", "webgpu"):
        leaves = [t.to(dtype).to(device).requires_grad_() for t in tensors]
        y = function(change(leaves[0]), *leaves[1:], **options)
        weights = torch.linspace(-1, 1, y.numel()).view(y.shape).to(dtype).to(device)
        results.append([y, *torch.autograd.grad(y, leaves, weights)])
    for wanted, got in zip(*results):
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        scale = max(1.0, wanted.abs().max().item())
        torch.testing.assert_close(got.cpu(), wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale)


@pytest.mark.parametrize("case", CASES)
def test_forward_and_gradients(case):
    run(case, torch.float32)


@pytest.mark.parametrize("case", ["2d", "2d_strided", "2d_groups", "2d_depthwise", "t2d"])
def test_big_gpu_kernels(case, big_gpu):
    run(case, torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", ["2d", "2d_pointwise", "t1d"])
def test_narrow_dtypes(case, dtype):
    run(case, dtype)


def test_layouts():
    run("2d", torch.float32, bias=False, change=lambda x: x.contiguous(memory_format=torch.channels_last))
    run("2d", torch.float32, change=lambda x: x.transpose(2, 3)[:, :, 1:])
    x, w, b = (torch.randn(s, dtype=torch.complex64) for s in ((2, 3, 9), (4, 3, 3), (4,)))  # parts are strided views
    got = F.conv1d(*(t.to("webgpu") for t in (x, w, b)))
    torch.testing.assert_close(got.cpu(), F.conv1d(x, w, b), rtol=1e-4, atol=1e-4)
    run("2d_pointwise", torch.float32, change=lambda x: x[:, :, ::2, 1:])


def test_many_images_split_the_sum():
    x, w = torch.randn(40, 3, 6, 6), torch.randn(4, 3, 3, 3)
    results = []
    for device in ("cpu", "webgpu"):
        leaf = w.to(device).requires_grad_()
        y = F.conv2d(x.to(device), leaf)
        results.append(torch.autograd.grad(y, leaf, y.detach())[0].cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-3)


def test_empty_batch_and_integers():
    x, w = torch.randn(0, 3, 6, 6), torch.randn(4, 3, 3, 3)
    assert F.conv2d(x.to("webgpu"), w.to("webgpu")).shape == (0, 4, 4, 4)
    x, w = torch.randint(-9, 9, (2, 3, 6, 6)), torch.randint(-9, 9, (4, 3, 3, 3))
    assert torch.equal(F.conv2d(x.to("webgpu"), w.to("webgpu")).cpu(), F.conv2d(x, w))


def test_double_backward():
    x, w = torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3)
    results = []
    for device in ("cpu", "webgpu"):
        a, b = x.to(device).requires_grad_(), w.to(device).requires_grad_()
        y = F.conv2d(a, b, padding=1)
        (g,) = torch.autograd.grad(y, a, y.detach(), create_graph=True)
        results.append(torch.autograd.grad(g, b, torch.ones_like(g))[0].cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "shapes", [((2, 3, 5, 5), (4, 2, 3, 3)), ((2, 3, 2, 2), (4, 3, 3, 3)), ((2, 3, 5), (4, 3, 3, 3))], ids=str
)
def test_errors_are_torchs(shapes):
    with pytest.raises(RuntimeError) as wanted:
        F.conv2d(*(torch.ones(s) for s in shapes))
    with pytest.raises(RuntimeError) as got:
        F.conv2d(*(torch.ones(s, device="webgpu") for s in shapes))
    assert str(got.value).split("\n")[0] == str(wanted.value).split("\n")[0]
