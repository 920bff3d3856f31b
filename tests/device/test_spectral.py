"""Singular values, Hermitian eigenvalues, least squares, pseudo-inverses, ranks and exponentials against the CPU.

Singular and eigenvectors are not unique: they are checked by what they must do.
"""

import pytest
import torch

import webgpu_backend
from tests.device._compare import close, gradients
from webgpu_backend.runtime.gpu import gpu

DTYPES = [torch.float32, torch.complex64]
SHAPES = [(1, 1), (4, 4), (2, 1, 5, 3), (3, 8), (2, 0, 3), (3, 0), (20, 50), (90, 90)]


def sample(shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def orthonormal(x):
    n = x.shape[-1]
    close(x.mH @ x, torch.eye(n, dtype=x.dtype).expand(*x.shape[:-2], n, n), 1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_svd(shape, dtype, adapter_class):
    x = sample(shape, dtype)
    g = x.to("webgpu")
    want = torch.linalg.svdvals(x)
    close(torch.linalg.svdvals(g), want)
    k = min(shape[-2:])
    for full in (False, True):
        u, s, vh = torch.linalg.svd(g, full_matrices=full)
        reference = torch.linalg.svd(x, full_matrices=full)
        assert [t.shape for t in (u, s, vh)] == [t.shape for t in reference]
        close(s, want)
        orthonormal(u)
        orthonormal(vh.mH)
        close((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], x, 5e-5)


def test_svd_of_special_matrices():
    low = sample((6, 2)) @ sample((2, 5), seed=1)
    for x in (low, torch.zeros(4, 3), torch.eye(5), torch.ones(3, 7), sample((4, 4)) * 1e30, sample((5, 4)) * 1e-30):
        top = x.abs().max().clamp(min=1e-37)  # no denormal: some adapters flush those
        u, s, vh = torch.linalg.svd(x.to("webgpu"))
        orthonormal(u)
        orthonormal(vh.mH)
        close(s / top, torch.linalg.svdvals(x) / top)
        k = s.shape[-1]
        close((u[:, :k] * (s / top)) @ vh[:k], x / top)
    with pytest.raises(torch._C._LinAlgError, match="non-finite"):
        torch.linalg.svd(torch.full((2, 2), float("nan"), device="webgpu"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 1, 5, 5), (0, 0), (2, 0, 0), (90, 90)])
def test_eigh(shape, dtype, adapter_class):
    x = sample(shape, dtype)
    for uplo in "LU":
        want = torch.linalg.eigvalsh(x, UPLO=uplo)
        values, v = torch.linalg.eigh(x.to("webgpu"), UPLO=uplo)
        close(values, want)
        close(torch.linalg.eigvalsh(x.to("webgpu"), UPLO=uplo), want)
        orthonormal(v)
        t = x.tril(-1) if uplo == "L" else x.triu(1).mH
        h = t + t.mH + torch.diag_embed(x.diagonal(dim1=-2, dim2=-1).real.to(dtype))
        top = torch.linalg.matrix_norm(h)[..., None, None].clamp(min=1)
        close((v * values.unsqueeze(-2)) @ v.mH / top.to("webgpu"), h / top)


def test_eigh_of_special_matrices():
    for x in (torch.zeros(4, 4), torch.eye(5), torch.ones(6, 6), torch.diag(torch.tensor([3.0, -1, 2])) * 1e20):
        values, v = torch.linalg.eigh(x.to("webgpu"))
        close(values, torch.linalg.eigvalsh(x))
        orthonormal(v)
    with pytest.raises(torch._C._LinAlgError, match="failed to converge"):
        torch.linalg.eigh(torch.full((2, 2), float("nan"), device="webgpu"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_pinv_and_rank(dtype):
    low = sample((5, 2), dtype) @ sample((2, 6), dtype, 1)
    for x in (sample((4, 3), dtype), sample((2, 3, 5), dtype), low, torch.zeros(3, 2, dtype=dtype)):
        g = x.to("webgpu")
        close(torch.linalg.pinv(g, rtol=1e-5), torch.linalg.pinv(x, rtol=1e-5))
        close(torch.linalg.pinv(g, atol=0.5), torch.linalg.pinv(x, atol=0.5))
        close(torch.pinverse(g, 1e-4), torch.pinverse(x, 1e-4))
        close(torch.linalg.matrix_rank(g, rtol=1e-5), torch.linalg.matrix_rank(x, rtol=1e-5))
        close(torch.linalg.matrix_rank(g, tol=0.5), torch.linalg.matrix_rank(x, tol=0.5))
    full = sample((4, 4), dtype)
    h = full + full.mH
    g = h.to("webgpu")
    close(torch.linalg.pinv(g, hermitian=True), torch.linalg.pinv(h, hermitian=True), 1e-3)
    close(torch.linalg.pinv(full.to("webgpu")), torch.linalg.pinv(full), 1e-3)
    close(torch.linalg.matrix_rank(g, hermitian=True), torch.linalg.matrix_rank(h, hermitian=True))
    atol = torch.tensor([0.1, 5.0])
    x = sample((2, 3, 3), dtype)
    want = torch.linalg.matrix_rank(x, atol=atol)
    close(torch.linalg.matrix_rank(x.to("webgpu"), atol=atol.to("webgpu")), want)
    close(torch.linalg.pinv(torch.empty(2, 0, 3, dtype=dtype, device="webgpu")), torch.empty(2, 3, 0, dtype=dtype))
    with pytest.raises(RuntimeError, match="2 or more dimensions"):
        torch.linalg.pinv(torch.ones(3, device="webgpu"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_lstsq(driver, dtype):
    for shape in ((5, 3), (3, 5), (2, 4, 4), (70, 20), (4, 0)):
        a, b = sample(shape, dtype), sample((*shape[:-1], 2), dtype, 1)
        got = torch.linalg.lstsq(a.to("webgpu"), b.to("webgpu"), driver=driver)
        want = torch.linalg.lstsq(a, b, driver=driver)
        for ours, theirs in zip(got, want):
            close(ours, theirs, 1e-3)
    a, b = sample((2, 5, 3), dtype), sample((2, 5), dtype, 1)
    close(torch.linalg.lstsq(a.to("webgpu"), b.to("webgpu")).solution, torch.linalg.lstsq(a, b).solution, 1e-3)
    with pytest.raises(RuntimeError, match="lstsq"):
        torch.linalg.lstsq(torch.ones(3, 2, device="webgpu"), torch.ones(4, 2, device="webgpu"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrix_exp(dtype):
    for shape, scale in (
        ((3, 3), 1.0),
        ((3, 3), 1e-4),
        ((2, 1, 4, 4), 3.0),
        ((1, 1), 2.0),
        ((0, 0), 1.0),
        ((30, 30), 0.5),
    ):
        x = sample(shape, dtype) * scale
        want = torch.matrix_exp(x)
        top = want.abs().max() if want.numel() else 1
        close(torch.matrix_exp(x.to("webgpu")) / top, want / top)
    mixed = sample((3, 4, 4), dtype) * torch.tensor([0.01, 1.0, 8.0]).view(3, 1, 1)
    got, want = torch.matrix_exp(mixed.to("webgpu")), torch.matrix_exp(mixed)
    for i in range(3):
        close(got[i] / want[i].abs().max(), want[i] / want[i].abs().max())


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients(dtype):
    x, b = sample((2, 5, 3), dtype), sample((2, 5, 2), dtype, 1)
    square = sample((4, 4), dtype)
    gradients(torch.linalg.svdvals, x, tolerance=1e-3)
    gradients(lambda t: torch.linalg.svd(t, full_matrices=False)[0].abs(), x, tolerance=1e-3)
    gradients(lambda t: torch.linalg.eigh(t + t.mH)[1].abs(), square, tolerance=1e-3)
    gradients(lambda t: torch.linalg.eigvalsh(t + t.mH), square, tolerance=1e-3)
    gradients(torch.linalg.pinv, x, tolerance=1e-3)
    gradients(lambda t, c: torch.linalg.lstsq(t, c).solution, x, b, tolerance=1e-3)
    gradients(torch.matrix_exp, square, tolerance=1e-3)
    gradients(lambda t: torch.linalg.norm(t, "nuc", dim=(-2, -1)), x, tolerance=1e-3)
    gradients(lambda t: torch.linalg.cond(t), square, tolerance=1e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_matrix_exp_of_halves(dtype):
    x = (torch.randn(3, 4, 4) / 2).to(dtype)
    got = torch.matrix_exp(x.to("webgpu"))
    assert got.dtype is dtype
    close(got, torch.matrix_exp(x.float()).to(dtype))


def eigenpairs(x, tolerance=1e-5):
    """Vectors of length one that the matrix stretches by the values; returns these."""
    values, vectors = torch.linalg.eig(x.to("webgpu"))
    wide, v, w = x.to(torch.complex64), vectors.cpu(), values.cpu()
    size = x.abs().amax((-2, -1), keepdim=True).clamp_min(1e-30)
    close((wide @ v / size).to("webgpu"), v * (w.unsqueeze(-2) / size), tolerance * x.shape[-1])
    close(torch.linalg.vector_norm(vectors, dim=-2), torch.ones(x.shape[:-1]), 1e-5)
    return w


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvalues_of_any_matrix(dtype, adapter_class):
    """Small ones come in LAPACK's order; larger ones may be deflated in another."""
    for shape in [(1, 1), (2, 2), (3, 5, 5), (2, 3, 4, 4), (8, 3, 3), (2, 0, 0), (0, 3, 3)]:
        x = sample(shape, dtype)
        values, vectors = torch.linalg.eig(x.to("webgpu"))
        wanted = torch.linalg.eig(x)
        assert values.shape == wanted.eigenvalues.shape and vectors.stride() == wanted.eigenvectors.stride()
        if not x.numel():
            continue
        if gpu().caps.kind == "gpu":  # whose division is not exact: one matrix in a hundred is deflated otherwise
            eigenpairs(x)
            continue
        close(values, wanted.eigenvalues, 1e-4)
        close(vectors.abs(), wanted.eigenvectors.abs(), 1e-3)
        close(torch.linalg.eigvals(x.to("webgpu")), wanted.eigenvalues, 1e-4)
    for n in (12, 20, 32, 49) if adapter_class == "gpu" else (12, 20, 32):
        x = sample((8 if n > 32 else 4, n, n), dtype, n)
        close(eigenpairs(x).sum(-1).to("webgpu"), x.diagonal(dim1=-2, dim2=-1).sum(-1).to(torch.complex64), 1e-4 * n)
        eigenpairs(x * torch.logspace(-3, 3, n).unsqueeze(-1), 1e-4)
        eigenpairs(x + x.mH)
        eigenpairs(torch.linalg.qr(x)[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvalues_of_matrices_with_structure(dtype):
    g = torch.Generator().manual_seed(5)
    for n in (2, 5, 12):
        x = sample((20, n, n), dtype, n)
        eigenpairs(x * (torch.rand(x.shape, generator=g) < 0.2))  # defective and singular ones among them
        for triangle in (x.tril(), x.triu(), torch.diag_embed(x[..., 0])):
            close(eigenpairs(triangle).to("webgpu"), torch.linalg.eigvals(triangle), 1e-4)
    jordan = torch.diag_embed(torch.ones(3, dtype=dtype), 1)
    close(eigenpairs(jordan).to("webgpu"), torch.zeros(4, dtype=torch.complex64), 1e-6)
    eigenpairs(torch.zeros(3, 3, dtype=dtype))
    eigenpairs(sample((4, 4), dtype) * 1e30)
    eigenpairs(sample((4, 4), dtype) * 1e-30)
    turn = torch.tensor([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]], dtype=dtype)  # shifts of its corner alone never converge
    close(eigenpairs(turn).to("webgpu").pow(3), torch.ones(3, dtype=torch.complex64), 1e-4)


def test_gradients_of_eigenvalues():
    x = sample((3, 4, 4)) + torch.diag(torch.arange(4.0) * 5)
    gradients(lambda t: torch.linalg.eigvals(t).real, x, tolerance=1e-3)
    gradients(lambda t: torch.linalg.eig(t).eigenvectors.abs(), x, tolerance=1e-3)
    with pytest.raises(RuntimeError, match="should not contain infs or NaNs"):
        torch.linalg.eig(torch.full((3, 3), float("nan"), device="webgpu"))
    with pytest.raises(RuntimeError, match="must be batches of square matrices"):
        torch.linalg.eig(torch.ones(2, 3, device="webgpu"))


@pytest.mark.fallback("aten::linalg_eig", "aten::_linalg_eigvals")
def test_eigenvalues_of_a_large_matrix_are_a_counted_fallback():
    x = sample((33, 33))
    webgpu_backend.reset_fallbacks()
    values, vectors = torch.linalg.eig(x.to("webgpu"))
    assert values.device.type == vectors.device.type == "webgpu"
    close(values, torch.linalg.eig(x).eigenvalues)
    close(torch.linalg.eigvals(x.to("webgpu")), torch.linalg.eigvals(x))
    assert webgpu_backend.fallbacks() == {"aten::linalg_eig": 1, "aten::_linalg_eigvals": 1}


def test_eigenvalues_of_a_large_matrix_are_refused_where_the_cpu_is():
    with pytest.raises(NotImplementedError, match="aten::linalg_eig has no device kernel"):
        torch.linalg.eig(sample((33, 33)).to("webgpu"))


def test_bounds_that_are_tensors():
    x, bound = torch.diag(torch.tensor([3.0, 2.0, 1e-3])), torch.tensor(1e-2)
    for name in ("rcond", "rtol", "atol"):
        close(torch.linalg.pinv(x.to("webgpu"), **{name: bound.to("webgpu")}), torch.linalg.pinv(x, **{name: bound}))


def test_bounds_elsewhere_and_orders_that_are_complex_are_refused():
    x = torch.eye(3, device="webgpu")
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.linalg.pinv(x, rcond=torch.full((), 1e-2))
    for device in ("cpu", "webgpu"):
        for name in ("atol", "rtol", "rcond"):
            with pytest.raises(RuntimeError, match=f"{name} tensor of complex type is not supported. Got ComplexFloat"):
                torch.linalg.pinv(torch.eye(3, device=device), **{name: torch.full((), 1j, device=device)})
        with pytest.raises(RuntimeError, match="Expected a non-complex scalar as the order of norm"):
            torch.linalg.vector_norm(torch.ones(3, device=device), 1j)
