"""Singular values and eigenvalues of matrices that go by blocks, as exact as LAPACK's: errors are counted in the
dtype's last place of the largest value."""

import pytest
import torch

from tests import needs
from webgpu_backend.ops.linalg import blocks

D = "webgpu"
L = torch.linalg
EXACT = {torch.float32: torch.float64, torch.complex64: torch.complex128}
MOST = 60  # units


def made(*shape, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


def unitary(n: int, dtype: torch.dtype, columns: int = 0) -> torch.Tensor:
    return L.qr(made(n, n, dtype=EXACT.get(dtype, dtype)))[0][:, : columns or n]


def with_values(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    n = len(values)
    q = unitary(n, dtype)
    return (q.roll(1, 0) * values.to(q.dtype) @ q.mH).to(dtype)


KINDS = {
    "random": lambda n, dtype: made(n, n, dtype=dtype),
    "tall": lambda n, dtype: made(n + 37, n, dtype=dtype),
    "wide": lambda n, dtype: made(n, n + 61, dtype=dtype),
    "batch": lambda n, dtype: made(2, 1, n, n, dtype=dtype),
    "tiny": lambda n, dtype: made(n, n, dtype=dtype) * 1e-25,
    "zero": lambda n, dtype: torch.zeros(n, n, dtype=dtype),
    "identity": lambda n, dtype: torch.eye(n, dtype=dtype),
    "rank of ten": lambda n, dtype: made(n, 10, dtype=dtype) @ made(10, n, dtype=dtype),
    "ones": lambda n, dtype: torch.ones(n, n, dtype=dtype),
    "few elements": lambda n, dtype: made(n, n, dtype=dtype) * (made(n, n).abs() < 0.02),
    "values of all sizes": lambda n, dtype: with_values(torch.logspace(0, -12, n), dtype),
    "values many times": lambda n, dtype: with_values(torch.arange(n) // 20 + 1.0, dtype),
    "projection": lambda n, dtype: (lambda q: (q @ q.mH).to(dtype))(unitary(n, dtype, n // 2)),
}
SIZES = pytest.mark.parametrize("n", [50, 97])  # blocks of 16, whose number is odd or even


def units(difference: torch.Tensor, top: float, dtype: torch.dtype) -> float:
    assert difference.isfinite().all()
    return difference.abs().max().item() / (max(top, torch.finfo(dtype).tiny) * torch.finfo(dtype).eps)


def assert_unitary(q: torch.Tensor, dtype: torch.dtype, most: float = 2 * MOST) -> None:
    assert units(q.mH @ q - torch.eye(q.shape[-1]), 1.0, dtype) < most


@pytest.fixture(autouse=True)
def by_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "_LEAST", dict.fromkeys(blocks._LEAST, 2))


@SIZES
@pytest.mark.parametrize("kind", KINDS)
def test_svd(kind, n, adapter_class):
    check_svd(KINDS[kind](n, torch.float32))


@pytest.mark.parametrize("kind", ["random", "wide", "rank of ten", "values many times"])
def test_svd_of_complex(kind, adapter_class):
    check_svd(KINDS[kind](70, torch.complex64))


def check_svd(x: torch.Tensor) -> None:
    exact = x.to(EXACT.get(x.dtype, x.dtype))
    want = L.svdvals(exact)
    top = want.max().item()
    for full in (False, True):
        u, s, vh = (part.cpu().to(exact.dtype) for part in L.svd(x.to(D), full_matrices=full))
        wanted = L.svd(x, full_matrices=full)
        assert (u.shape, s.shape, vh.shape) == tuple(part.shape for part in wanted)
        assert units(s.real - want, top, x.dtype) < MOST
        k = s.shape[-1]
        assert units(u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :] - exact, top, x.dtype) < MOST
        assert_unitary(u, x.dtype), assert_unitary(vh.mH, x.dtype)
    assert units(L.svdvals(x.to(D)).cpu().to(want.dtype) - want, top, x.dtype) < MOST


@SIZES
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("tall", "wide")])
def test_eigh(kind, n, adapter_class):
    check_eigh(KINDS[kind](n, torch.float32))


@pytest.mark.parametrize("kind", ["random", "rank of ten", "values many times"])
def test_eigh_of_complex(kind, adapter_class):
    check_eigh(KINDS[kind](70, torch.complex64))


def check_eigh(x: torch.Tensor) -> None:
    x = (x + x.mH) / 2
    exact = x.to(EXACT.get(x.dtype, x.dtype))
    want = L.eigvalsh(exact)
    top = want.abs().max().item()
    values, vectors = (part.cpu() for part in L.eigh(x.to(D)))
    vectors = vectors.to(exact.dtype)
    assert units(values.to(want.dtype) - want, top, x.dtype) < MOST
    assert units(exact @ vectors - vectors * values.to(exact.dtype).unsqueeze(-2), top, x.dtype) < MOST
    assert_unitary(vectors, x.dtype)
    assert units(L.eigvalsh(x.to(D)).cpu().to(want.dtype) - want, top, x.dtype) < MOST


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_wide_dtypes(dtype, adapter_class):
    needs.feature("f64")
    for kind in ("random", "rank of ten", "values of all sizes"):
        x = KINDS[kind](90, dtype)
        check_svd(x), check_eigh(x)


def test_what_torch_builds_on_them():
    x = made(180, 90) @ made(90, 170)
    assert L.matrix_rank(x.to(D)).item() == 90
    torch.testing.assert_close(L.pinv(x.to(D), rtol=1e-4).cpu(), L.pinv(x, rtol=1e-4), rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(L.matrix_norm(x.to(D), 2).cpu(), L.matrix_norm(x, 2), rtol=1e-5, atol=0)
    leaf = made(100, 90).to(D).requires_grad_()
    L.svdvals(leaf).sum().backward()
    host = made(100, 90).requires_grad_()
    L.svdvals(host).sum().backward()
    torch.testing.assert_close(leaf.grad.cpu(), host.grad, rtol=1e-4, atol=1e-5)


def test_what_is_not_finite_is_refused():
    x = made(200, 200)
    x[5, 3] = torch.nan
    with pytest.raises(L.LinAlgError, match="contained non-finite values"):
        L.svd(x.to(D))
    with pytest.raises(L.LinAlgError, match="eigh"):
        L.eigh(x.to(D))
