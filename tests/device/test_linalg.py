"""Factorisations and solves against the CPU: real and complex, batches, empty, sizes past one block, gradients."""

import pytest
import torch

from tests import needs
from tests.device._compare import D, close, gradients, same
from webgpu_backend.runtime.gpu import gpu

DTYPES = [torch.float32, torch.complex64]
OLD_CHOLESKY = hasattr(torch.ops.aten, "cholesky")  # until torch 2.14
SQUARES = [(0, 0), (1, 1), (5, 5), (3, 0, 0), (2, 1, 4, 4), (0, 3, 3), (20, 20), (2, 70, 70), (150, 150)]
RECTANGLES = [(5, 3), (3, 5), (2, 1, 4, 7), (0, 4), (4, 0), (2, 90, 70), (70, 130)]


def sample(shape, dtype, seed=0):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def definite(shape, dtype):
    """Hermitian, positive definite, well conditioned."""
    x = sample(shape, dtype)
    return x @ x.mH / max(shape[-1], 1) + torch.eye(shape[-1], dtype=dtype)


def regular(shape, dtype):
    """Neither symmetric nor badly conditioned."""
    return sample(shape, dtype) / max(shape[-1], 1) ** 0.5 + 2 * torch.eye(shape[-1], dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARES)
def test_cholesky(shape, dtype, adapter_class):
    x = definite(shape, dtype)
    g = x.to("webgpu")
    b = sample((*shape[:-1], 3), dtype, 1)
    for upper in (False, True):
        want = torch.linalg.cholesky(x, upper=upper)
        close(torch.linalg.cholesky(g, upper=upper), want)
        if OLD_CHOLESKY:
            close(torch.cholesky(g, upper), torch.cholesky(x, upper))
        close(torch.cholesky_inverse(want.to("webgpu"), upper), torch.cholesky_inverse(want, upper))
        close(torch.cholesky_solve(b.to("webgpu"), want.to("webgpu"), upper), torch.cholesky_solve(b, want, upper))


def test_cholesky_reads_one_triangle_and_reports():
    x = definite((6, 6), torch.float32)
    junk = x + torch.full((6, 6), 1e6).triu(1)
    close(torch.linalg.cholesky(junk.to("webgpu")), torch.linalg.cholesky(x))
    close(torch.linalg.cholesky(junk.mT.to("webgpu"), upper=True), torch.linalg.cholesky(x, upper=True))
    y = torch.stack([x, -x, x])
    y[2, 4, 4] = -1
    close(torch.linalg.cholesky_ex(y.to("webgpu")).info, torch.linalg.cholesky_ex(y).info)
    old = (torch.cholesky,) if OLD_CHOLESKY else ()
    for f in (torch.linalg.cholesky, *old, lambda t: torch.linalg.cholesky_ex(t, check_errors=True)):
        same_error(f, y)
        same_error(f, y[1])
    large = torch.eye(100)
    large[80, 80] = 0
    assert torch.linalg.cholesky_ex(large.to("webgpu")).info.item() == 81


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 3), (2, 4, 4), (0, 3, 2), (3, 0), (1, 1), (2, 33, 20)])
def test_roots_and_polar_factors(shape, dtype):
    needs.newer_torch("2.15", "it has neither `linalg.polar` nor `linalg.matrix_sqrth`")
    x = sample(shape, dtype)
    gram = definite((*shape[:-2], shape[-1], shape[-1]), dtype)
    same(torch.linalg.polar, x, tolerance=1e-4)
    same(torch.linalg.matrix_sqrth, gram + sample(gram.shape, dtype).triu(1), tolerance=1e-4)  # one triangle counts
    if not x.numel():
        return
    gradients(lambda a: torch.linalg.polar(a).U, x, tolerance=1e-3)
    gradients(lambda a: torch.linalg.polar(a).H, x, tolerance=1e-3)
    gradients(torch.linalg.matrix_sqrth, gram, tolerance=1e-3)
    outs = torch.empty_like(x, device=D), torch.empty_like(gram, device=D)
    torch.linalg.polar(x.to(D), out=outs)
    close(outs[0] @ outs[1], x, 1e-4)
    for call in (torch.linalg.polar, torch.linalg.matrix_sqrth):
        same_error(call, x[..., 0, 0])
        same_error(call, x.to(torch.float16))
        same_error(call, torch.ones(2, 3))


def same_error(f, *inputs):
    with pytest.raises(RuntimeError) as want:
        f(*inputs)
    with pytest.raises(type(want.value)) as got:
        f(*(x.to("webgpu") for x in inputs))
    assert str(got.value).splitlines()[0] == str(want.value).splitlines()[0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARES + RECTANGLES)
def test_lu(shape, dtype, adapter_class):
    x = sample(shape, dtype)
    g = x.to("webgpu")
    tolerance = 1e-2 if max(shape[-2:]) > 30 else 1e-4  # the elements of a random matrix's factors are ill conditioned
    close(torch.linalg.lu_factor(g), torch.linalg.lu_factor(x), tolerance)
    close(torch.linalg.lu(g), torch.linalg.lu(x), tolerance)
    p, low, up = torch.linalg.lu(g)
    close(p.to(dtype) @ low @ up, x, 1e-4)


def test_lu_without_pivots_and_views():
    x = regular((2, 80, 80), torch.float32)
    g = x.to("webgpu")
    lu, pivots = torch.linalg.lu_factor(g, pivot=False)
    low, up = lu.tril(-1) + torch.eye(80, device="webgpu"), lu.triu()
    close(low @ up, x)
    assert (pivots.cpu() == torch.arange(1, 81)).all()
    view = sample((3, 9, 8), torch.float32).to("webgpu").permute(1, 2, 0)[1:6, 2:7]
    close(torch.linalg.lu_factor(view.mT), torch.linalg.lu_factor(view.cpu().mT))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARES)
def test_solve(shape, dtype, adapter_class):
    x, b = regular(shape, dtype), sample((*shape[:-1], 3), dtype, 1)
    g, gb = x.to("webgpu"), b.to("webgpu")
    close(torch.linalg.inv(g), torch.linalg.inv(x))
    close(torch.linalg.solve(g, gb), torch.linalg.solve(x, b))
    close(torch.linalg.solve(g, gb.mT, left=False), torch.linalg.solve(x, b.mT, left=False))
    close(torch.linalg.solve(g, gb[..., 0]), torch.linalg.solve(x, b[..., 0]))
    factors = torch.linalg.lu_factor(x)
    ours = [f.to("webgpu") for f in factors]
    for left in (True, False):
        for adjoint in (True, False):
            rhs = b if left else b.mT
            want = torch.linalg.lu_solve(*factors, rhs, left=left, adjoint=adjoint)
            close(torch.linalg.lu_solve(*ours, rhs.to("webgpu"), left=left, adjoint=adjoint), want)
    if shape[-1] < 100:
        close(torch.linalg.det(g / 2), torch.linalg.det(x / 2), 1e-3)
    close(torch.linalg.slogdet(g), torch.linalg.slogdet(x), 1e-3)


@pytest.mark.parametrize("subgroups", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_panels(dtype, subgroups, adapter_of):
    """Rows of a GPU's panels: one to a thread, two, four, and more than there is room for; columns beside them."""
    adapter_of(kind="gpu", workgroup_size=128, subgroups=subgroups and gpu().caps.subgroups)
    for shape in ((2, 33, 33), (200, 200), (300, 40), (40, 300), (530, 20)):
        x = sample(shape, dtype)
        p, low, up = torch.linalg.lu(x.to("webgpu"))
        close(p.to(dtype) @ low @ up, x, 1e-3)
        assert low.abs().max() <= (1.5 if x.is_complex() else 1)  # a pivot is the largest by LAPACK's measure
    x, b = regular((200, 200), dtype), sample((200, 35), dtype, 1)
    close(torch.linalg.solve(x.to("webgpu"), b.to("webgpu")), torch.linalg.solve(x, b), 1e-3)
    x = definite((200, 200), dtype)
    close(torch.linalg.cholesky(x.to("webgpu")), torch.linalg.cholesky(x))


def test_pivots_of_hard_matrices(adapter_class):
    """Rank, ties, NaN and infinities: the same pivots and the same complaints as the CPU's."""
    ones, zero = torch.ones(40, 40), torch.zeros(40, 40)
    late = torch.eye(40)
    late[37, 37] = 0
    for x in (ones, zero, late, torch.tril(ones), torch.stack([late, ones, torch.eye(40)])):
        ours, theirs = torch.linalg.lu_factor_ex(x.to("webgpu")), torch.linalg.lu_factor_ex(x)
        close(ours, theirs)
    x = regular((40, 40), torch.float32)
    x[5, 3] = float("nan")
    assert torch.linalg.solve_ex(x.to("webgpu"), x.to("webgpu")).result.isnan().any()
    assert torch.linalg.cholesky_ex((x @ x.mT).to("webgpu")).info.item() == 6


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARES)
def test_triangular(shape, dtype, adapter_class):
    x, b = regular(shape, dtype), sample((*shape[:-1], 3), dtype, 1)
    g, gb = x.to("webgpu"), b.to("webgpu")
    for upper in (True, False):
        t = x.triu() if upper else x.tril()
        for unit in (True, False):
            t = t / 4 if unit else t
            for left in (True, False):
                rhs, ours = (b, gb) if left else (b.mT, gb.mT)
                options = {"upper": upper, "left": left, "unitriangular": unit}
                close(
                    torch.linalg.solve_triangular(t.to("webgpu"), ours, **options),
                    torch.linalg.solve_triangular(t, rhs, **options),
                )
    close(torch.triangular_solve(gb, g, transpose=True), torch.triangular_solve(b, x, transpose=True))
    wide = sample((2, *shape[:-1], 3), dtype)
    close(
        torch.linalg.solve_triangular(g.mH, wide.to("webgpu"), upper=True),
        torch.linalg.solve_triangular(x.mH, wide, upper=True),
    )


def test_errors():
    singular = torch.zeros(3, 3)
    for f in (torch.linalg.inv, lambda t: torch.linalg.solve(t, t), torch.linalg.lu_factor):
        same_error(f, singular)
        same_error(f, torch.stack([torch.eye(3), singular]))
    for f in (torch.linalg.inv, torch.linalg.cholesky, torch.linalg.det, torch.linalg.slogdet):
        same_error(f, torch.ones(2, 3))
    same_error(torch.linalg.solve, torch.eye(3), torch.ones(2))
    same_error(torch.linalg.lu, torch.ones(3))
    same_error(torch.linalg.qr, torch.ones(3))
    same_error(torch.geqrf, torch.ones(3))
    same_error(torch.linalg.inv, torch.ones(3, 3, dtype=torch.int64))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARES + RECTANGLES)
def test_qr(shape, dtype, adapter_class):
    x = sample(shape, dtype)
    g = x.to("webgpu")
    for mode in ("reduced", "complete", "r"):
        q, r = torch.linalg.qr(g, mode)
        want_q, want_r = torch.linalg.qr(x, mode)
        assert q.shape == want_q.shape and r.shape == want_r.shape
        if mode != "r":
            close(q @ r, x)
            identity = torch.eye(q.shape[-1], dtype=dtype).expand(*q.shape[:-2], q.shape[-1], q.shape[-1])
            close(q.mH @ q, identity)
        if dtype is torch.float32 and shape[-2] <= 20:
            close(q, want_q)
        if dtype is torch.float32 or max(shape[-2:]) < 20:  # large complex ones differ by the last column's phase
            close(r, want_r)
    if max(shape[-2:]) < 20:
        close(torch.geqrf(g), torch.geqrf(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_qr_of_very_large_and_small(scale, dtype, adapter_class):
    x = sample((6, 4), dtype)
    q, r = torch.linalg.qr((x * scale).to("webgpu"))
    want_q, want_r = torch.linalg.qr(x)
    close(q, want_q)
    close(r / scale, want_r)
    zero = torch.zeros(3, 2, dtype=dtype)
    close(torch.linalg.qr(zero.to("webgpu")), torch.linalg.qr(zero))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 3), (2, 4, 4), (2, 1, 200, 130), (3, 0)])
def test_reflectors(shape, dtype, adapter_class):
    a, tau = torch.geqrf(sample(shape, dtype))
    ours = a.to("webgpu"), tau.to("webgpu")
    close(torch.linalg.householder_product(*ours), torch.linalg.householder_product(a, tau))
    c = sample((*shape[:-1], 3), dtype, 1)
    for transpose in (True, False):
        close(torch.ormqr(*ours, c.to("webgpu"), True, transpose), torch.ormqr(a, tau, c, True, transpose))
        want = torch.ormqr(a, tau, c.mT.contiguous(), False, transpose)
        close(torch.ormqr(*ours, c.mT.to("webgpu"), False, transpose), want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 6, 6)])
def test_gradients(shape, dtype):
    x, b = regular(shape, dtype), sample((*shape[:-1], 3), dtype, 1)
    for f in (torch.linalg.inv, torch.linalg.det, lambda t: torch.linalg.slogdet(t)[1]):
        gradients(f, x)
    gradients(lambda t: torch.linalg.cholesky(t @ t.mH), x)
    gradients(lambda t: torch.linalg.lu(t)[1], x)
    gradients(lambda t: torch.linalg.lu_factor(t)[0], x)
    gradients(torch.linalg.solve, x, b)
    gradients(lambda t, c: torch.linalg.solve_triangular(t.tril(), c, upper=False), x, b)
    gradients(lambda t, c: torch.cholesky_solve(c, torch.linalg.cholesky(t @ t.mH)), x, b)
    gradients(lambda t: torch.linalg.qr(t)[0] if dtype is torch.float32 else torch.linalg.qr(t)[0].abs(), x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 1, 6, 6), (2, 0, 0), (40, 40), (130, 130)])
def test_ldl(shape, hermitian, dtype, adapter_class):
    x = sample(shape, dtype)
    x = x + (x.mH if hermitian else x.mT)
    x.diagonal(dim1=-2, dim2=-1).mul_(0.1)  # so that pivots of two rows are taken
    g = x.to("webgpu")
    factors = torch.linalg.ldl_factor(x, hermitian=hermitian)
    ours = torch.linalg.ldl_factor(g, hermitian=hermitian)
    b = sample((*shape[:-1], 3), dtype, 1)
    if shape[-1] < 10:
        close(ours, factors)
    want = torch.linalg.ldl_solve(*factors, b, hermitian=hermitian)
    tolerance = 5e-3 * max(1.0, float(want.abs().max())) if want.numel() else None
    for used in (ours, [f.to("webgpu") for f in factors]):
        close(torch.linalg.ldl_solve(*used, b.to("webgpu"), hermitian=hermitian), want, tolerance)


def test_renorm():
    for dtype in DTYPES:
        x = sample((3, 4, 5), dtype) * torch.tensor([0.1, 1.0, 5.0]).view(3, 1, 1)
        for p in (1, 2, 3.5):
            gradients(lambda t, p=p: torch.renorm(t, p, 0, 2.0), x)
            gradients(lambda t, p=p: torch.renorm(t, p, -1, 2.0), x)
            gradients(lambda t, p=p: t.clone().renorm_(p, -1, 2.0), x)
    x = torch.randn(3, 4, 5, dtype=torch.complex64).to(D).requires_grad_()  # NaN on the CPU, by the largest
    (one,) = torch.autograd.grad(torch.renorm(x, float("inf"), 2, 0.5).abs().sum(), x)
    (other,) = torch.autograd.grad(x.clone().renorm_(float("inf"), 2, 0.5).abs().sum(), x)
    assert one.isfinite().all() and torch.equal(one.cpu(), other.cpu())
    same_error(lambda t: t.detach().requires_grad_().renorm_(2, 0, 1.0), torch.ones(2, 2))
    same_error(lambda t: torch.renorm(t, 0, 0, 1.0), torch.ones(2, 2))
    same_error(lambda t: torch.renorm(t, 2, 0, -1.0), torch.ones(2, 2))
    same_error(lambda t: torch.renorm(t, 2, 0, 1.0), torch.ones(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize(("coefficients", "shape"), [((1, 3), (2, 2)), ((5, 3), (100, 7)), ((3, 1), (2, 3, 4))])
def test_linear_combinations_are_added_to_an_output(dtype, coefficients, shape):
    if dtype is torch.float64:
        needs.feature("f64")
    c, x = torch.rand(coefficients, dtype=dtype.to_real()), torch.rand(coefficients[1], *shape, dtype=dtype)
    same(torch._compute_linear_combination, x, c, tolerance=1e-5)
    expected, out = (torch.ones(coefficients[0], *shape, dtype=dtype, device=d) for d in ("cpu", D))
    torch._compute_linear_combination(x, c, out=expected)
    assert torch._compute_linear_combination(x.to(D), c.to(D), out=out) is out
    close(out, expected, 1e-5)
    with pytest.raises(RuntimeError):
        torch._compute_linear_combination(torch.rand((), device=D), torch.rand(2, 2, device=D))
