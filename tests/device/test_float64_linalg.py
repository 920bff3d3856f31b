"""Factorisations, Fourier transforms, distances and alignments in float64 and complex128, against the CPU's."""

import math

import pytest
import torch
import torch.nn.functional as F

from tests import needs

needs.feature("f64")

L = torch.linalg
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)


def made(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def assert_same(call, *operands, rtol=1e-10, atol=1e-11):
    want = call(*operands)
    got = call(*(x.to("webgpu") for x in operands))
    many = isinstance(want, tuple)
    for one, other in zip(got if many else (got,), want if many else (want,), strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=rtol, atol=atol)


def gradient(call):
    def found(*operands):
        leaves = [x.detach().clone().requires_grad_() for x in operands]
        return torch.autograd.grad(call(*leaves).abs().sum(), leaves[0])[0]

    return found


def definite(a):
    return a @ a.mH + torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


def joined(u, s, vh):
    return (u * s.unsqueeze(-2).to(u.dtype)) @ vh


FACTORED = {
    "cholesky": lambda a: L.cholesky(definite(a)),
    "solve": lambda a: L.solve(a, a[..., :2]),
    "inv": L.inv,
    "det": L.det,
    "lu": L.lu,
    "qr": lambda a: (L.qr(a)[0] @ L.qr(a)[1], L.qr(a)[1].abs()),
    "solve_triangular": lambda a: L.solve_triangular(a.triu() + 9 * a.new_ones(6).diag(), a[..., :2], upper=True),
    "svdvals": L.svdvals,
    "svd": lambda a: joined(*L.svd(a[..., :4], full_matrices=False)),
    "eigvalsh": lambda a: L.eigvalsh(definite(a)),
    "eigh": lambda a: (lambda w, v: joined(v, w, v.mH))(*L.eigh(a + a.mH)),
    "eig": lambda a: (lambda w, v: joined(v, w, L.inv(v)))(*L.eig(a)),
    "pinv": lambda a: L.pinv(a[..., :4]),
    "lstsq": lambda a: L.lstsq(a[..., :4], a[..., :1]).solution,
    "matrix_exp": lambda a: L.matrix_exp(2 * a),
    "ldl_factor": lambda a: L.ldl_factor(definite(a))[0].tril(),
    "cond": L.cond,
}


@DTYPES
@pytest.mark.parametrize("name", FACTORED)
def test_factorisations(name, dtype):
    assert_same(FACTORED[name], made(3, 6, 6, dtype=dtype))


@DTYPES
def test_a_matrix_of_several_blocks(dtype):
    a = made(100, 100, dtype=dtype) + 10 * torch.eye(100, dtype=dtype)
    assert_same(lambda x: (L.solve(x, x[:, :3]), L.cholesky(x @ x.mH)), a)


def test_digits_that_float32_does_not_have():
    """Hilbert's matrix: in float32 its solution has none."""
    n = 8
    rows = torch.arange(n, dtype=torch.float64)
    hilbert = 1 / (rows[:, None] + rows + 1)
    x = L.solve(hilbert.to("webgpu"), (hilbert @ torch.ones(n, dtype=torch.float64)).to("webgpu"))
    assert (x.cpu() - 1).abs().max() < 1e-5
    values = L.eigvalsh(hilbert.to("webgpu")).cpu()
    torch.testing.assert_close(values, L.eigvalsh(hilbert), rtol=0, atol=1e-15)


@DTYPES
@pytest.mark.parametrize("name", ["inv", "cholesky", "svdvals", "eigvalsh", "solve"])
def test_gradients(name, dtype):
    assert_same(gradient(FACTORED[name]), made(2, 6, 6, dtype=dtype, seed=1), rtol=1e-9)


@DTYPES
@pytest.mark.parametrize("length", [1, 2, 12, 37, 97, 128, 1000])
def test_fourier_transforms(length, dtype):
    x = made(3, length, dtype=dtype)
    assert_same(lambda a: (torch.fft.fft(a), torch.fft.ifft(a, norm="ortho"), torch.fft.fft(a.mT, dim=0)), x)
    if dtype is torch.float64:
        assert_same(lambda a: (torch.fft.rfft(a), torch.fft.irfft(torch.fft.rfft(a), n=length), torch.fft.rfft2(a)), x)
        assert_same(gradient(torch.fft.rfft), x)


def test_fourier_transforms_keep_their_digits():
    x = made(4096)
    there = torch.fft.irfft(torch.fft.rfft(x.to("webgpu")), n=4096).cpu()
    torch.testing.assert_close(there, x, rtol=0, atol=1e-14)


def test_stft():
    signal, window = made(512).cumsum(0), torch.hann_window(64, dtype=torch.float64)
    assert_same(lambda x, w: torch.stft(x, 64, window=w, return_complex=True), signal, window)


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_distances(power):
    a, b = made(2, 7, 5), made(2, 4, 5, seed=2)
    assert_same(lambda x, y: torch.cdist(x, y, p=power), a, b)
    assert_same(gradient(lambda x, y: torch.cdist(x, y, p=power)), a, b)
    assert_same(lambda x: torch.pdist(x[0], p=power), a)


@DTYPES
def test_logcumsumexp(dtype):
    assert_same(lambda x: x.logcumsumexp(1), made(3, 41, dtype=dtype) * 3)


def test_logcumsumexp_of_a_long_row():
    assert_same(lambda x: x.logcumsumexp(0), torch.linspace(-5, 5, 40000, dtype=torch.float64))


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc(zero_infinity):
    def loss_and_gradient(x, labels):
        x = x.detach().clone().requires_grad_()
        loss = F.ctc_loss(x, labels, (12, 9, 3), (3, 4, 4), zero_infinity=zero_infinity)
        return (loss.detach(), torch.autograd.grad(loss, x)[0])

    labels = torch.tensor([[1, 2, 3, 0], [1, 1, 2, 2], [3, 1, 3, 1]])
    want = loss_and_gradient(made(12, 3, 5).log_softmax(-1), labels)
    got = loss_and_gradient(made(12, 3, 5).log_softmax(-1).to("webgpu"), labels.to("webgpu"))
    torch.testing.assert_close(got[0].cpu(), want[0])
    torch.testing.assert_close(got[1].cpu(), want[1], rtol=1e-10, atol=1e-12, equal_nan=True)


@DTYPES
def test_qr_of_columns_that_vanish(dtype, adapter_class):
    """Each smaller than the one before, down to where the reciprocal of what is left is infinite, and zero."""
    x = made(50, 40, dtype=dtype) * torch.logspace(0, -330, 40, dtype=torch.float64)
    assert 0 < x.abs().amax(0)[36:39].min() < 2.0**-1022 and not x[:, 39].any()
    q, r = (part.cpu() for part in L.qr(x.to("webgpu")))
    torch.testing.assert_close(q @ r, x, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(q.mH @ q, torch.eye(40, dtype=dtype), rtol=0, atol=1e-3)
    torch.testing.assert_close(q[:, :35].mH @ q[:, :35], torch.eye(35, dtype=dtype), rtol=0, atol=1e-13)
