"""Softmax, log_softmax, cross-entropy and nll_loss against the CPU, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

import webgpu_backend
from tests.device._compare import gradients


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
@pytest.mark.parametrize(
    "shape", [(), (5,), (1, 1), (7, 3), (64, 128), (3, 1001), (2, 3, 4, 5), (2, 20000), (600, 2)], ids=str
)
def test_shapes(function, shape):
    torch.manual_seed(0)
    x = torch.randn(shape) * 5
    for dim in range(-1, x.dim()):
        gradients(lambda t: function(t, dim), x, tolerance=(1e-4, 2e-5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves(dtype):
    torch.manual_seed(0)
    for shape in [(7, 33), (8, 64), (2, 5, 6)]:
        x = (torch.randn(shape) * 3).to(dtype)
        for dim in range(x.dim()):
            gradients(lambda t: F.softmax(t, dim), x, tolerance=(2e-2, 2e-3))
            gradients(lambda t: F.log_softmax(t, dim, dtype=torch.float32), x, tolerance=(2e-2, 1e-2))


def test_layouts():
    torch.manual_seed(0)
    x = torch.randn(6, 8, 10)
    gradients(lambda t: t.permute(2, 0, 1).softmax(-1), x)
    gradients(lambda t: t[:, 1:, ::2].log_softmax(1), x)
    gradients(lambda t: t[0, 0, :1].expand(4, 5).softmax(1), x)


def test_special_values():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[1, 2, -inf], [-inf, -inf, -inf], [1, inf, 2], [1, nan, 2], [3e38, -3e38, 0]])
    for function in (torch.softmax, torch.log_softmax, torch._safe_softmax):
        for dim in (0, 1):
            got, expected = function(x.to("webgpu"), dim).cpu(), function(x, dim)
            torch.testing.assert_close(got, expected, equal_nan=True)


def test_long_rows():
    torch.manual_seed(0)
    x = torch.randn(2, 300_000)
    got = x.to("webgpu").softmax(1).cpu()
    torch.testing.assert_close(got, x.softmax(1), rtol=1e-4, atol=1e-8)


def test_one_dispatch():
    x = torch.randn(32, 10, device="cpu").to("webgpu")
    x.log_softmax(1)
    before = webgpu_backend.stats()["dispatches"]
    x.log_softmax(1)
    assert webgpu_backend.stats()["dispatches"] - before == 1


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_nll(reduction, weighted):
    torch.manual_seed(0)
    weight = torch.rand(10) if weighted else None
    target = torch.randint(0, 10, (8,))
    target[3] = 2

    def loss(function, t, **rest):
        def call(x):
            w = None if weight is None else weight.to(x.device)
            return function(x, t.to(x.device), w, reduction=reduction, **rest)

        return call

    gradients(loss(F.cross_entropy, target, ignore_index=2), torch.randn(8, 10))
    gradients(loss(F.nll_loss, target[0]), torch.randn(10))
    gradients(lambda x: loss(F.nll_loss, target)(x.t()), torch.randn(10, 8))
    spatial = torch.randint(0, 10, (2, 3, 5))
    spatial[0, 0, 0] = -100
    gradients(loss(F.nll_loss, spatial), torch.randn(2, 10, 3, 5))
    gradients(loss(F.cross_entropy, spatial), torch.randn(2, 10, 3, 5))


def test_nll_extremes():
    x = torch.randn(4, 3)
    ignored = torch.full((4,), -100)
    for reduction in ("mean", "sum"):
        got = F.nll_loss(x.to("webgpu"), ignored.to("webgpu"), reduction=reduction).cpu()
        torch.testing.assert_close(got, F.nll_loss(x, ignored, reduction=reduction), equal_nan=True)
        none = torch.empty(0, 3), torch.empty(0, dtype=torch.int64)
        got = F.nll_loss(*[t.to("webgpu") for t in none], reduction=reduction).cpu()
        torch.testing.assert_close(got, F.nll_loss(*none, reduction=reduction), equal_nan=True)
    half = x.half()
    target = torch.tensor([0, 2, 1, 1])
    got = F.nll_loss(half.to("webgpu"), target.to("webgpu"))
    torch.testing.assert_close(got.cpu(), F.nll_loss(half, target), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, t: F.softmax(x, 2),
        lambda x, t: F.softmax(t, 0),
        lambda x, t: F.nll_loss(x, t[:3]),
        lambda x, t: F.nll_loss(x, t, x[0, :2]),
    ],
)
def test_errors_are_torchs(call):
    x, t = torch.randn(4, 3), torch.tensor([0, 2, 1, 1])
    with pytest.raises(Exception) as expected:  # noqa: PT011
        call(x, t)
    with pytest.raises(type(expected.value)) as got:
        call(x.to("webgpu"), t.to("webgpu"))
    assert str(got.value) == str(expected.value)


def test_targets_are_of_one_type():
    with pytest.raises(RuntimeError, match="Int"):
        F.nll_loss(torch.randn(4, 3).to("webgpu"), torch.zeros(4, dtype=torch.int32).to("webgpu"))


def test_a_class_that_does_not_exist():
    x = torch.randn(4, 3).to("webgpu")
    for wrong in (3, -1, 2**32):
        loss = F.nll_loss(x, torch.tensor([0, 1, wrong, 2]).to("webgpu"))
        with pytest.raises(IndexError, match="out of bounds"):
            loss.item()
    assert F.nll_loss(x, torch.tensor([0, 1, 1, 2]).to("webgpu")).isfinite().item()


# Rows in registers, streamed rows, rows that share groups of four with their neighbours.
ROWS = [(7, 3), (300, 8), (33, 31), (13, 129), (50, 768), (5, 1023), (2, 4096), (70, 4099), (64, 20001)]


@pytest.mark.parametrize("op", ["_softmax", "_log_softmax"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_rows(op, dtype, shape):
    m, k = shape
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 4
    x[0] *= 30
    if m > 4:
        x[1, k - 1], x[2, 0], x[4, k // 2] = float("nan"), float("inf"), float("-inf")
        x[3] = float("-inf")
    x = x.to(dtype)
    forward, backward = getattr(torch.ops.aten, op), getattr(torch.ops.aten, f"{op}_backward_data")
    expected = forward(x.float(), 1, False)
    near = {"rtol": 2e-5, "atol": 2e-6} if dtype is torch.float32 else {"rtol": 1e-2, "atol": 1e-2}
    got = forward(x.to("webgpu"), 1, False)
    assert got.dtype is dtype
    torch.testing.assert_close(got.cpu().float(), expected, equal_nan=True, **near)

    g, y = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype), expected.to(dtype)
    expected = backward(g.float(), y.float(), 1, torch.float32)
    got = backward(g.to("webgpu"), y.to("webgpu"), 1, dtype)
    near = {"rtol": 1e-4, "atol": 1e-4} if dtype is torch.float32 else {"rtol": 2e-2, "atol": 3e-2}
    torch.testing.assert_close(got.cpu().float(), expected, equal_nan=True, **near)


@pytest.mark.parametrize("offset", [1, 4])
def test_rows_after_others(offset):
    """A view that starts inside of its storage, and one whose rows are further apart than they are long."""
    x = torch.randn(6, 37)
    for view in (lambda t: t[offset:], lambda t: t[:, offset:], lambda t: t.t()):
        torch.testing.assert_close(view(x.to("webgpu")).softmax(-1).cpu(), view(x).softmax(-1), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_gradients_of_another_size_are_refused(name):
    """The CPU reads on behind the smaller one in the second."""
    backward = getattr(torch, f"_{name}_backward_data")
    for grad, output in (((3, 4), (2, 4)), ((2, 4), (3, 4)), ((4,), (2, 4)), ((2, 0), (2, 4))):
        with pytest.raises(RuntimeError, match=f"same size .*{name}_backward"):
            backward(torch.ones(grad, device="webgpu"), torch.ones(output, device="webgpu"), -1, torch.float32)
