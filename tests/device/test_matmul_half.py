"""Products of float16 and bfloat16 that sum a few products in half precision: how far off they may be."""

import pytest
import torch

from tests import needs
from tests.device._adapter import kernels_of
from webgpu_backend.kernels.matmul import halves as matmul_half
from webgpu_backend.kernels.matmul import tiles

DTYPES = [torch.float16, torch.bfloat16]
UNIT = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


@pytest.fixture(autouse=True)
def halves(monkeypatch, adapter_of):
    """The kernels of GPUs that have f16, with tiles small enough for a software driver; always preferred."""
    needs.feature("f16")
    adapter_of(kind="gpu")
    table = tiles.Tuning(132, (tiles.Tile(32, 32, 8, 4, 4),), (tiles.Tile(32, 32, 16, 4, 4, rate=1e6),), 0.0, 1e30)
    monkeypatch.setattr(tiles, "_used", table)
    torch.manual_seed(0)


def product(a, b):
    """The product on the device, and the kernels that it takes."""
    x, y, made = a.to("webgpu"), b.to("webgpu"), []
    kernels = kernels_of(lambda: made.append(x @ y))
    return made[0].cpu(), kernels


def check(a, b, bound=4.0):
    """Within `bound` units of f16 of the sum of the products' magnitudes, and the rounding of the result."""
    got, kernels = product(a, b)
    got = got.double()
    assert any(name.startswith("matmul_half") for name in kernels)
    wanted, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    # What scaling to f16 may lose: elements 2^27 times less than the largest of their row, on either side.
    lost = a.double().abs().amax(-1, True) * b.double().abs().sum(-2, True)
    lost = 2.0**-27 * (lost + a.double().abs().sum(-1, True) * b.double().abs().amax(-2, True))
    least = torch.finfo(a.dtype).tiny * torch.finfo(a.dtype).eps
    limit = bound * 2.0**-11 * size + lost + UNIT[a.dtype] * wanted.abs() + least
    inside = wanted.abs() < torch.finfo(a.dtype).max
    error = (got - wanted).abs()
    assert torch.equal(got.isinf(), ~inside), "overflow in other places"
    assert (error <= limit)[inside].all(), (error / limit)[inside].max()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(64, 64, 128), (70, 66, 131), (65, 100, 300), (64, 72, 1100)], ids=str)
def test_layouts(dtype, shape):
    m, n, k = shape
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    check(a, b)
    check(torch.randn(k, m).to(dtype).t(), torch.randn(n, k).to(dtype).t())
    check(torch.randn(m, 2 * k).to(dtype)[:, ::2], torch.randn(k + 1, n + 3).to(dtype)[1:, 3:])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_wide_ranges(dtype):
    """Rows of very different sizes, and elements of very different sizes within a row."""
    a, b = torch.randn(64, 160), torch.randn(160, 64)
    rows, columns = 2.0 ** torch.linspace(-14, 9, 64), 2.0 ** torch.linspace(4, -10, 64)
    check((a * rows[:, None]).to(dtype), (b * columns).to(dtype))
    along = 2.0 ** torch.linspace(-12, 6, 160)
    check((a * along).to(dtype), (b * along.flip(0)[:, None]).to(dtype))
    check((a * along).to(dtype), (b * along[:, None]).to(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tiny_gradients_and_large_values(dtype):
    a, b = torch.randn(64, 160), torch.randn(160, 64)
    check((a * 1e-7).to(dtype), b.to(dtype))
    check((a * 1e-7).to(dtype), (b * 1e4).to(dtype))
    large = torch.full((64, 160), 6e4).to(dtype)
    check(large, (b * 1e-3).to(dtype))
    check(large, (b * 1e2).to(dtype))  # some results overflow, and only those


def test_range_of_bfloat16():
    a, b = torch.randn(64, 160).bfloat16(), torch.randn(160, 64).bfloat16()
    check(a * 2.0**120, b * 2.0**-120)
    check(a * 2.0**-110, b * 2.0**100)
    check(a * 2.0**-100, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cancelling_sums(dtype):
    a = torch.randn(64, 80).to(dtype)
    b = torch.randn(80, 64).to(dtype)
    check(torch.cat([a, a], 1), torch.cat([b, -b], 0))
    check(torch.stack([a, -a], 2).flatten(1), torch.stack([b, b], 1).flatten(0, 1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_of_one_sign(dtype):
    """Every step may round the same way: the bound grows with the number of products summed in f16."""
    check(torch.full((64, 200), 1.1).to(dtype), torch.full((200, 64), 0.7).to(dtype), bound=matmul_half.CHUNK / 4)
    check(torch.rand(64, 200).to(dtype), torch.rand(200, 64).to(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nan_and_inf_stay_in_their_rows(dtype):
    a, b = torch.randn(65, 140).to(dtype), torch.randn(140, 70).to(dtype)
    a[36, 3], a[0, 0], b[19, 21], a[5, 7] = float("nan"), float("inf"), float("-inf"), float("-inf")
    b[7, 3] = 0  # meets an infinity: NaN
    b[0, 9], b[1, 9] = 6e-8, 1.5e4  # lost beside its neighbour, yet not a zero
    a[10], b[:, 10] = 0, 0
    a[19], b[3, 10] = 0, 1
    (got, kernels), wanted = product(a, b), a.double() @ b.double()
    assert any(name.startswith("matmul_half") for name in kernels)
    assert torch.equal(got.isnan(), wanted.isnan()) and torch.equal(got.isinf(), wanted.isinf())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_batches_and_epilogues(dtype):
    tolerance = dict(rtol=8 * UNIT[dtype], atol=0.1)
    x, y, w, c = (torch.randn(s).to(dtype) for s in ((3, 70, 128), (1, 128, 64), (64, 128), (64,)))
    X, Y, W, C = (t.to("webgpu") for t in (x, y, w, c))
    linear, activation = torch.nn.functional.linear, torch.ops.aten._addmm_activation
    wide = x.float() @ y.float()
    for call, wanted in (
        (lambda: X @ Y, wide),
        (lambda: torch.bmm(X, Y.expand(3, -1, -1)), wide),
        (lambda: linear(X, W, C), linear(x.float(), w.float(), c.float())),
        (
            lambda: activation(C, X[0], W.t(), use_gelu=True, beta=0.5, alpha=2),
            torch.nn.functional.gelu(2 * x[0].float() @ w.float().t() + 0.5 * c.float()),
        ),
    ):
        made = []
        kernels = kernels_of(lambda call=call, made=made: made.append(call()))
        assert kernels and all(name.startswith(("matmul_half", "matmul_pack")) for name in kernels), kernels
        torch.testing.assert_close(made[0].cpu().float(), wanted, **tolerance)


def test_gradients():
    x, w = torch.randn(80, 128).half(), torch.randn(72, 128).half()
    results = []
    for device in ("cpu", "webgpu"):
        a, b = x.to(device).requires_grad_(), w.to(device).requires_grad_()
        y = torch.nn.functional.linear(a, b)
        results.append([y, *torch.autograd.grad(y, (a, b), torch.ones_like(y) * 1e-3)])
    for wanted, got in zip(*results):
        torch.testing.assert_close(got.cpu().float(), wanted.float(), rtol=1e-2, atol=5e-2)


def test_small_products_sum_in_f32():
    a, b = torch.randn(64, 64).half(), torch.randn(64, 40).half()
    got, kernels = product(a, b)
    torch.testing.assert_close(got, a @ b, rtol=2e-3, atol=2e-3)
    assert kernels and not any(name.startswith("matmul_half") for name in kernels)
