"""complex128 where the adapter has float64: arithmetic with all its numbers, functions, reductions, products, moves."""

import math

import pytest
import torch
import torch.nn.functional as F

from tests import needs

needs.feature("f64")

COMPLEX = torch.complex128
torch.manual_seed(3)
A, B = torch.randn(5, 7, dtype=COMPLEX), torch.randn(5, 7, dtype=COMPLEX)
M, R = torch.randn(7, 4, dtype=COMPLEX), torch.randn(5, 7, dtype=torch.float64)
ROWS, COLUMNS = torch.tensor([0, 3, 0]), torch.tensor([[0, 2, 2]]).expand(5, 3)


def assert_same(call, *operands, rtol=1e-13, atol=1e-14):
    """Of the operands here and on the CPU."""
    want = call(*operands)
    got = call(*(x.to("webgpu") for x in operands))
    got = got.cpu()
    if want.is_complex() and torch.isinf(want).any():  # as complex numbers, every bit would count
        got, want = torch.view_as_real(got.resolve_conj()), torch.view_as_real(want.resolve_conj())
    torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)


WITH_NUMBERS = {
    "add": lambda a, b: torch.add(a, b, alpha=3),
    "add complex": lambda a, b: torch.add(a, b, alpha=3 - 2j),
    "add_": lambda a, b: a.clone().add_(b, alpha=0.5j),
    "sub": lambda a, b: torch.sub(a, b, alpha=0.1),
    "rsub": lambda a, b: torch.rsub(a, b, alpha=0.1j),
    "addcmul": lambda a, b: torch.addcmul(a, b, b, value=0.3 + 1j),
    "addcdiv": lambda a, b: torch.addcdiv(a, b, b + 3, value=2),
    "lerp": lambda a, b: torch.lerp(a, b, 0.3),
    "mul": lambda a, b: a * (1 / 3 + 1e-300j) + b * 1e300,
    "masked_fill": lambda a, b: a.masked_fill(b.real > 0, 1e-300 + 2j),
    "pad": lambda a, b: F.pad(a, (1, 2), value=1e300),
    "scatter": lambda a, b: a.scatter(1, COLUMNS.to(a.device), 1e300j),
    "foreach": lambda a, b: torch._foreach_add([a], [b], alpha=2)[0],
    "addmm": lambda a, b: torch.addmm(a[:, :5], a, b.mT, beta=2j, alpha=0.5),
    "isclose": lambda a, b: torch.isclose(a, b, rtol=1, atol=1e-9),
    "nan_to_num": lambda a, b: torch.nan_to_num(a / 0),
}


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_numbers(name):
    assert_same(WITH_NUMBERS[name], A, B)


@pytest.mark.parametrize(
    "name",
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sigmoid sgn sin cos tan sinh cosh tanh asin acos atan asinh acosh "
    "atanh abs angle reciprocal square neg conj_physical".split(),
)
def test_functions(name):
    call = getattr(torch, name)
    for scale in (1.0, 1e-3, 30.0):
        assert_same(call, A * scale, rtol=2e-14, atol=1e-300)
    parts = torch.tensor([0.0, -0.0, 1.0, -2.0, math.inf, -math.inf], dtype=torch.float64)
    x = torch.complex(*torch.meshgrid(parts, parts, indexing="ij")).flatten()
    if name not in (
        "reciprocal",
        "rsqrt",
        "square",
        "sigmoid",
        "tan",
        "sgn",
    ):  # of infinities: as torch's kernels do it
        assert_same(call, x, rtol=1e-14, atol=1e-300)


CALLS = {
    "div": lambda a, b, m, r: a / b,
    "pow": lambda a, b, m, r: a**b,
    "eq": lambda a, b, m, r: a == torch.where(r > 0, a, b),
    "complex": lambda a, b, m, r: torch.complex(r, r.flip(0)),
    "polar": lambda a, b, m, r: torch.polar(r.abs(), r),
    "parts": lambda a, b, m, r: a.real * b.imag,
    "conjugate": lambda a, b, m, r: a.conj() * 1j + b.conj().real,
    "with float64": lambda a, b, m, r: a + r,
    "float64 and complex64": lambda a, b, m, r: r * a.to(torch.complex64),
    "float64 and a number": lambda a, b, m, r: r + 2j,
    "to complex64": lambda a, b, m, r: a.to(torch.complex64),
    "to bool": lambda a, b, m, r: (a * (r > 0)).bool(),
    "from whole": lambda a, b, m, r: (r * 9).long().to(COMPLEX),
    "as real": lambda a, b, m, r: torch.view_as_real(a) * 2,
    "sum": lambda a, b, m, r: a.sum(1),
    "mean": lambda a, b, m, r: a.t().mean(1),
    "prod": lambda a, b, m, r: a.prod(0),
    "var": lambda a, b, m, r: a.var(1),
    "norm": lambda a, b, m, r: torch.linalg.vector_norm(a, 3, dim=0),
    "cumsum": lambda a, b, m, r: a.cumsum(1),
    "cumprod": lambda a, b, m, r: a.cumprod(0),
    "matmul": lambda a, b, m, r: a @ m,
    "with its adjoint": lambda a, b, m, r: a @ b.mH,
    "vdot": lambda a, b, m, r: torch.vdot(a[0], b[0]),
    "einsum": lambda a, b, m, r: torch.einsum("ij,ij->i", a, b),
    "cat": lambda a, b, m, r: torch.cat([a, b[:2]]),
    "index": lambda a, b, m, r: a[ROWS.to(a.device)],
    "index_put": lambda a, b, m, r: a.index_put((ROWS[:2].to(a.device),), b[:2]),
    "index_add": lambda a, b, m, r: a.index_add(0, ROWS.to(a.device), b[:3]),
    "index_add into columns": lambda a, b, m, r: a.t().contiguous().t().index_add_(0, ROWS.to(a.device), b[:3]),
    "index_put into columns": lambda a, b, m, r: a.mT.clone().mT.index_put_(
        (ROWS.to(a.device),), b[:3], accumulate=True
    ),
    "scatter_add": lambda a, b, m, r: a.scatter_add(1, COLUMNS.to(a.device), b),
    "scatter_add into columns": lambda a, b, m, r: a.t().contiguous().t().scatter_add_(1, COLUMNS.to(a.device), b),
    "gather": lambda a, b, m, r: a.gather(1, COLUMNS.to(a.device)),
    "where": lambda a, b, m, r: torch.where(r > 0, a, b),
    "mask": lambda a, b, m, r: a[r > 0],
    "transposed": lambda a, b, m, r: a.t().contiguous(),
    "flip and roll": lambda a, b, m, r: a.flip(1).roll(2, 0),
    "tril": lambda a, b, m, r: a.tril(),
    "empty": lambda a, b, m, r: a[:0].sum(0) + b[:, :0].sum(),
    "slice": lambda a, b, m, r: a[1::2, ::3] * b[::2, 1::2][1:, :3],
    "full": lambda a, b, m, r: torch.full((3,), 1 + 1e300j, dtype=COMPLEX, device=a.device),
    "linspace": lambda a, b, m, r: torch.linspace(0, 1j, 5, dtype=COMPLEX, device=a.device),
    "eye": lambda a, b, m, r: torch.eye(3, dtype=COMPLEX, device=a.device),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    assert_same(CALLS[name], A, B, M, R)


def test_gradients():
    def gradients(a, b, m, r):
        leaves = [x.clone().requires_grad_() for x in (a, b, m)]
        x, y, z = leaves
        ((x * y.exp() + x / y).abs().sum() + (x @ z).angle().sum() + y.conj().sin().real.sum()).backward()
        return torch.cat([leaf.grad.flatten() for leaf in leaves])

    assert_same(gradients, A, B, M, R, rtol=1e-12)
