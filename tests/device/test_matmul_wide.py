"""Products of narrow operands with sums in float32 (`out_dtype`), which the CPU has not: beside float64."""

import pytest
import torch

D = "webgpu"
SIZES = [(1, 1, 1), (5, 7, 3), (1, 130, 40), (33, 70, 41), (130, 257, 66), (4, 0, 3), (0, 5, 3)]


def check(found: torch.Tensor, expected: torch.Tensor, depth: int) -> None:
    assert found.dtype is torch.float32 and found.shape == expected.shape
    torch.testing.assert_close(found.cpu().double(), expected, rtol=2e-6, atol=1e-6 * max(depth, 1), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("m, k, n", SIZES)
def test_two_matrices(adapter_class, m, k, n, dtype):
    torch.manual_seed(0)
    a, b = torch.randn(k, m).to(dtype).t(), torch.randn(k, 2 * n).to(dtype)[:, ::2]  # neither lies in order
    exact = a.double() @ b.double()
    x, y = a.to(D), b.to(D)
    check(torch.mm(x, y, out_dtype=torch.float32), exact, k)
    out = torch.empty(m, n, device=D)
    assert torch.mm(x, y, out_dtype=torch.float32, out=out) is out
    check(out, exact, k)
    for c in (torch.randn(n), torch.randn(m, 1).to(dtype), torch.full((m, n), float("nan"))):
        for alpha, beta in ((1, 1), (0.5, -2), (2, 0)):
            found = torch.addmm(c.to(D), x, y, out_dtype=torch.float32, alpha=alpha, beta=beta)
            check(found, alpha * exact + (beta * c.double() if beta else 0), k)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("m, k, n", SIZES)
@pytest.mark.parametrize("batch", [0, 1, 3])
def test_batches(adapter_class, batch, m, k, n, dtype):
    torch.manual_seed(0)
    a, b, c = torch.randn(batch, m, k).to(dtype), torch.randn(batch, n, k).to(dtype).mT, torch.randn(batch, 1, n)
    exact = a.double() @ b.double()
    check(torch.bmm(a.to(D), b.to(D), out_dtype=torch.float32), exact, k)
    for added in (c, c.to(dtype)):
        found = torch.baddbmm(added.to(D), a.to(D), b.to(D), out_dtype=torch.float32, alpha=0.5, beta=3)
        check(found, 0.5 * exact + 3 * added.double(), k)


def test_what_narrow_sums_lose():
    """Above the largest half there is room."""
    x = torch.full((2, 64), 60.0, dtype=torch.float16, device=D)
    assert bool(torch.mm(x, x.t()).isinf().all())
    assert torch.mm(x, x.t(), out_dtype=torch.float32).cpu().tolist() == [[64 * 3600.0] * 2] * 2
    assert torch.mm(x, x.t(), out_dtype=torch.float16).dtype is torch.float16


def test_refusals():
    x, y = torch.ones(3, 4, dtype=torch.float16, device=D), torch.ones(4, 5, device=D)
    for call, words in (
        (lambda: torch.mm(y, y.t(), out_dtype=torch.float64), "out_dtype must be the same as input dtype or fp32"),
        (lambda: torch.mm(x, y, out_dtype=torch.float32), "the same dtype"),
        (lambda: torch.mm(x, x, out_dtype=torch.float32), "cannot be multiplied"),
        (lambda: torch.bmm(x[None], x[None], out_dtype=torch.float32), "Expected size"),
        (lambda: torch.addmm(x.long(), x, x.t(), out_dtype=torch.float32), "self dtype must match"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()


def test_compiled(compiled_by_inductor):
    """The product stays the eager operator, and what follows it is fused: no graph is refused."""
    x, y = torch.randn(5, 7).half().to(D), torch.randn(7, 3).half().to(D)

    def f(x, y):
        wide = torch.mm(x, y, out_dtype=torch.float32) * 2 + 1
        if torch.__version__ >= "2.13":  # before, torch's own formula takes the dtype for beta
            wide = torch.addmm(wide, x, y, out_dtype=torch.float32)
        return wide.exp(), torch.bmm(x[None], y[None], out_dtype=torch.float32) - wide

    with torch.no_grad():
        for found, expected in zip(torch.compile(f)(x, y), f(x, y)):
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
