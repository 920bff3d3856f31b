"""Compiled products of the same rows by matrices of one size: one product of a batch where that should take less
time."""

import pytest
import torch
import torch.nn.functional as F

from tests.device._adapter import kernels_of
from webgpu_backend.kernels.matmul import tiles

D = "webgpu"
FLOATS = {torch.float32: 1e-4, torch.float16: 0.02, torch.bfloat16: 0.15}
pytestmark = [
    pytest.mark.usefixtures("compiled_by_inductor"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


@pytest.fixture(autouse=True)
def wide(adapter_of, monkeypatch):
    """A GPU of so many units that one small product leaves most of them idle, and copies cost nothing."""
    adapter_of(kind="gpu")
    table = tiles.tuning()
    monkeypatch.setattr(tiles, "_used", tiles.Tuning(4096, table.tiles, table.halves, 0.0, 1e30))


def check(f, *args, products=None, rough=1e-4):
    """The compiled function against the plain one on the CPU, with its strides; how many dispatches are products."""
    compiled, moved = torch.compile(f), [a.to(D) for a in args]
    with torch.no_grad():
        for found, wanted in zip(compiled(*moved), f(*args), strict=True):
            assert found.dtype == wanted.dtype and found.stride() == wanted.stride()
            torch.testing.assert_close(found.cpu(), wanted, rtol=rough, atol=rough, equal_nan=True)
        names = [n for n in kernels_of(lambda: compiled(*moved)) if "matmul" in n and "finish" not in n]
    assert products is None or len(names) == products, names


def drawn(count, n, k, dtype=torch.float32):
    torch.manual_seed(count + n)
    return [(torch.randn(n, k) * k**-0.5).to(dtype) for _ in range(count)]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sizes", [(9, 24, 16), (33, 40, 65), (70, 128, 96)], ids=str)
def test_three_of_the_same_rows(sizes, dtype):
    m, n, k = sizes
    x, a, b, c = torch.randn(2, m, k).to(dtype), *drawn(3, n, k, dtype)
    p, q, r = (torch.randn(n).to(dtype) for _ in range(3))
    f = lambda x, a, b, c: [F.linear(x, w) for w in (a, b, c)]  # noqa: E731
    g = lambda x, a, b, c, p, q, r: [F.linear(x, w, v) for w, v in ((a, p), (b, q), (c, r))]  # noqa: E731
    check(f, x, a, b, c, products=1, rough=FLOATS[dtype])
    check(g, x, a, b, c, p, q, r, products=1, rough=FLOATS[dtype])


def test_into_attention():
    def f(x, *weights):
        q, k, v = (F.linear(x, w).view(2, 37, 4, 8).transpose(1, 2) for w in weights)
        return [F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 37, 32)]

    check(f, torch.randn(2, 37, 32), *drawn(3, 32, 32), products=1)


def test_what_is_not_alike():
    """Other sizes, other rows, a bias here and none there, what an activation follows, and matrices that are made
    later of what a product gave: each for itself, or with those that it is like."""
    x, y, (a, b) = torch.randn(33, 64), torch.randn(33, 64), drawn(2, 64, 64)
    bias, small = torch.randn(64), drawn(1, 48, 64)[0]
    check(lambda x, a, b, s: [F.linear(x, a), F.linear(x, b), F.linear(x, s)], x, a, b, small, products=2)
    check(lambda x, y, a, b: [F.linear(x, a), F.linear(y, b)], x, y, a, b, products=2)
    check(lambda x, a, b, v: [F.linear(x, a), F.linear(x, b, v)], x, a, b, bias, products=2)
    check(lambda x, a, b: [F.linear(x, a).relu(), F.linear(x, b)], x, a, b, products=2)
    check(lambda x, a: [(u := F.linear(x, a)), F.linear(x, torch.cat([u, u])[:64] * 0.1)], x, a, products=2)
    check(lambda x, a, b: [F.linear(x, a), x @ b], x, a, b, products=2)
    check(lambda x, a, b: [F.linear(x, a.t()), F.linear(x, b)], x, a, b, products=2)


def test_numbers_that_are_none():
    x, (a, b) = torch.randn(20, 16), drawn(2, 24, 16)
    x[3, 4], a[5, 6], b[7, 8] = float("nan"), float("inf"), float("-inf")
    check(lambda x, a, b: [F.linear(x, a), F.linear(x, b)], x, a, b, products=1)


def test_gradients():
    x, (a, b, c) = torch.randn(2, 21, 32), drawn(3, 32, 32)

    def run(device):
        leaves = [t.to(device).requires_grad_() for t in (x, a, b, c)]
        f = lambda x, a, b, c: F.linear(x, a).tanh() * F.linear(x, b) + F.linear(x, c).sin()  # noqa: E731
        (torch.compile(f) if device == D else f)(*leaves).square().sum().backward()
        return [t.grad.cpu() for t in leaves]

    for found, wanted in zip(run(D), run("cpu"), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_where_it_does_not_pay(monkeypatch):
    """A product that fills the GPU by itself gains nothing, and a copy costs."""
    monkeypatch.setattr(tiles, "_used", tiles.GPU)
    x, (a, b) = torch.randn(128, 64), drawn(2, 64, 64)
    check(lambda x, a, b: [F.linear(x, a), F.linear(x, b)], x, a, b, products=2)
