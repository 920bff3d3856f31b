"""Least squares, pseudo-inverses, ranks and the exponential: device factorisations and products put together."""

from math import ceil, factorial, isfinite, log2

import torch

from ... import tensor as T
from ..pointwise.elementwise import _scalar_name
from ..table import custom
from .batches import REAL, aten, copied, flat, flat_vector, on, reflect_, shaped, solve_triangular_, supported
from .qr import factored_qr


def _cutoff(x: torch.Tensor, top: torch.Tensor, atol, rtol) -> torch.Tensor:
    """max(atol, rtol * top), with torch's default for rtol: eps times the larger size unless atol is positive.

    In x's own precision: torch's composites ask for float64 here, which few adapters have.
    """

    def number(t):
        if isinstance(t, torch.Tensor):
            return t.to(x.device, top.dtype).unsqueeze(-1)
        return torch.full((1,), 0.0 if t is None else t, dtype=top.dtype, device=x.device)

    default = torch.finfo(top.dtype).eps * max(x.shape[-2:])
    if rtol is None:
        if isinstance(atol, torch.Tensor):
            rtol = torch.where(number(atol) > 0, 0.0, default)
        else:
            rtol = number(default if atol is None or atol <= 0 else 0.0)
    else:
        rtol = number(rtol)
    return torch.maximum(number(atol), rtol * top)


def _real(name: str, bound) -> None:
    if isinstance(bound, torch.Tensor) and bound.is_complex():
        got = _scalar_name(bound.dtype)
        raise RuntimeError(f"torch.linalg.pinv: {name} tensor of complex type is not supported. Got {got}")


@custom("linalg_pinv.rcond_tensor", key="AutogradPrivateUse1")
@custom("linalg_pinv.rcond_tensor")
def linalg_pinv_rcond_tensor(self, rcond, hermitian=False):
    """torch's own makes a zero of float64, which not every adapter has."""
    supported(self)
    _real("rcond", rcond)
    atol = torch.zeros((), dtype=REAL[self.dtype], device=self.device)
    return aten.linalg_pinv.atol_rtol_tensor(self, atol=atol, rtol=rcond, hermitian=hermitian)


@custom("linalg_pinv.atol_rtol_tensor")
def linalg_pinv(self, *, atol=None, rtol=None, hermitian=False):
    if self.dim() < 2 or (hermitian and self.shape[-1] != self.shape[-2]):
        on("cpu", aten.linalg_pinv.atol_rtol_tensor, (self,), {"hermitian": hermitian})
    supported(self)
    for name, bound in (("atol", atol), ("rtol", rtol)):
        _real(name, bound)
        if isinstance(bound, torch.Tensor) and bound.device != self.device:
            raise T.two_devices("aten::linalg_pinv", bound.device)
    if not self.numel():
        return torch.zeros(self.mT.shape, dtype=self.dtype, device=self.device)
    if hermitian:
        values, v = torch.linalg.eigh(self)
        size = values.abs()
        u, top = v, size.amax(-1, keepdim=True)
    else:
        u, values, vh = torch.linalg.svd(self, full_matrices=False)
        size, v, top = values, vh.mH, values[..., :1]
    inverse = torch.where(size > _cutoff(self, top, atol, rtol), 1.0 / values, 0.0).to(self.dtype)
    return (v * inverse.unsqueeze(-2)) @ u.mH


@custom("linalg_pinv.atol_rtol_float", key="AutogradPrivateUse1")
@custom("linalg_pinv.atol_rtol_float")
def linalg_pinv_floats(self, *, atol=None, rtol=None, hermitian=False):
    supported(self)
    if atol is None and rtol is None:
        return aten.linalg_pinv.atol_rtol_tensor(self, hermitian=hermitian)
    dtype, larger = REAL[self.dtype], max(self.shape[-2:], default=1)
    if rtol is None:
        rtol = 0.0 if atol > 0 else torch.finfo(dtype).eps * larger
    atol, rtol = (torch.full((), t or 0.0, dtype=dtype, device=self.device) for t in (atol, rtol))
    return aten.linalg_pinv.atol_rtol_tensor(self, atol=atol, rtol=rtol, hermitian=hermitian)


@custom("linalg_pinv", key="AutogradPrivateUse1")
@custom("linalg_pinv")
def linalg_pinv_rcond(self, rcond, hermitian=False):
    return linalg_pinv_floats(self, atol=0.0, rtol=rcond, hermitian=hermitian)


@custom("linalg_matrix_rank.atol_rtol_float", "linalg_matrix_rank.atol_rtol_tensor", key="AutogradPrivateUse1")
@custom("linalg_matrix_rank.atol_rtol_float", "linalg_matrix_rank.atol_rtol_tensor")
def linalg_matrix_rank(self, *, atol=None, rtol=None, hermitian=False):
    if self.dim() < 2 or any(isinstance(t, torch.Tensor) and t.is_complex() for t in (atol, rtol)):
        op = aten.linalg_matrix_rank.atol_rtol_tensor
        on("cpu", op, (self,), {"atol": atol, "rtol": rtol, "hermitian": hermitian})
    supported(self)
    if not self.numel():
        return torch.zeros(self.shape[:-2], dtype=torch.int64, device=self.device)
    values = torch.linalg.eigvalsh(self).abs() if hermitian else torch.linalg.svdvals(self)
    return (values > _cutoff(self, values.amax(-1, keepdim=True), atol, rtol)).sum(-1)


@custom("linalg_matrix_rank", "linalg_matrix_rank.tol_tensor", key="AutogradPrivateUse1")
@custom("linalg_matrix_rank", "linalg_matrix_rank.tol_tensor")
def linalg_matrix_rank_tol(self, tol, hermitian=False):
    return linalg_matrix_rank(self, atol=tol, rtol=0.0, hermitian=hermitian)


# -- least squares


def _lstsq_arguments(a, b) -> bool:
    """Whether b is a vector for each matrix; torch's own error for shapes that do not fit."""
    vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
    fits = a.dim() >= 2 and b.dim() >= 1 and a.dtype == b.dtype and 0 <= a.dim() - b.dim() <= 1
    fits = fits and (vector or b.dim() >= 2) and a.shape[-2] == (b.shape[-1] if vector else b.shape[-2])
    if not fits:
        on("cpu", aten.linalg_lstsq.default, (a, b), {})
    return vector


def _by_qr(a, b):
    """The solution for full rank, and what of Q^H b is left over: a [..., m, n], b [..., m, k]."""
    *batch, m, n = a.shape
    k = b.shape[-1]
    tall = m >= n
    q, tau = factored_qr(a if tall else a.mH)
    q, tau = flat(q), flat_vector(tau)
    x = T.empty((q.shape[0], max(m, n), k), a.dtype)
    if tall:
        copied(flat(b), x)
        reflect_(q, tau, x, forwards=True, conjugate_tau=True)
        solve_triangular_(q[:, :n], x[:, :n], upper=True)
    else:
        x.zero_()
        copied(flat(b), x[:, :m])
        solve_triangular_(q[:, :m].mT, x[:, :m], upper=False, conjugate=a.is_complex())
        reflect_(q, tau, x, forwards=False)
    return x[:, :n].reshape(*batch, n, k), x[:, n:].reshape(*batch, max(m - n, 0), k)


def _by_svd(a, b, rcond: float):
    """The shortest solution, the rank and the singular values."""
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    keep = s > rcond * s[..., :1]
    inverse = torch.where(keep, 1.0 / s, 0.0).to(a.dtype)
    x = vh.mH @ (inverse.unsqueeze(-1) * (u.mH @ b))
    return x, keep.sum(-1), s


@custom("linalg_lstsq")
def linalg_lstsq(self, b, rcond=None, *, driver=None):
    supported(self, b)
    vector = _lstsq_arguments(self, b)
    driver = driver or "gelsy"
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError("torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    m, n = self.shape[-2:]
    rhs = b.unsqueeze(-1) if vector else b
    batch = torch.broadcast_shapes(self.shape[:-2], rhs.shape[:-2])
    a, rhs = self.expand(*batch, m, n), rhs.expand(*batch, m, rhs.shape[-1])
    none = T.empty((0,), REAL[self.dtype])
    rank, values, residuals = T.empty((0,), torch.int64), none, T.empty((0,), none.dtype)
    if not a.numel() or not rhs.numel():
        x = torch.zeros((*batch, n, rhs.shape[-1]), dtype=self.dtype, device=self.device)
        if driver == "gels" and m > n:
            residuals = torch.zeros((*batch, rhs.shape[-1]), dtype=none.dtype, device=self.device)
        if driver != "gels":
            rank = torch.zeros(batch, dtype=torch.int64, device=self.device)
        if driver in ("gelsd", "gelss"):
            values = torch.zeros((*batch, min(m, n)), dtype=none.dtype, device=self.device)
        full = not n and driver != "gels"
    elif driver == "gels":
        x, left = _by_qr(a, rhs)
        if m > n:
            residuals = left.abs().square().sum(-2)
        full = False  # the residuals are there
    else:
        x, rank, s = _by_svd(a, rhs, torch.finfo(none.dtype).eps * max(m, n) if rcond is None else rcond)
        if driver in ("gelsd", "gelss"):
            values = s
        full = m > n and driver != "gelsy" and bool((rank == n).all())
    if full and m > n and driver != "gelsy":
        residuals = (rhs - a @ x).abs().square().sum(-2)
    columns = T.empty((*batch, rhs.shape[-1], max(m, n)), self.dtype).mT[..., :n, :]  # as LAPACK leaves them
    x = columns.copy_(x)
    return x.squeeze(-1) if vector else x, residuals, rank, values


# -- the exponential

_DEGREE = 18
# The norm up to which the Taylor polynomial of this degree is exact.
_REACH = {torch.float32: 3.010066362817634, torch.float64: 1.090863719290036}


@custom("linalg_matrix_exp")
def linalg_matrix_exp(self):
    if self.dim() < 2 or self.shape[-1] != self.shape[-2] or not (self.is_floating_point() or self.is_complex()):
        on("cpu", aten.linalg_matrix_exp.default, (self,), {})
    if self.dtype in (torch.float16, torch.bfloat16):
        return linalg_matrix_exp(self.to(torch.float32)).to(self.dtype)
    supported(self)
    if not self.numel():
        return T.empty(self.shape, self.dtype)
    if self.shape[-1] == 1:
        return self.exp()
    x = flat(self)
    # How often to halve is decided for each matrix, and the host must know: torch's other devices read it back, too.
    norms = x.abs().sum(-2).amax(-1).tolist()
    reach = _REACH[REAL[x.dtype]]
    halvings = [ceil(log2(v / reach)) if isfinite(v) and v > reach else 0 for v in norms]
    most = max(halvings)
    if most:
        x = x * torch.tensor([0.5**h for h in halvings], dtype=REAL[x.dtype], device="cpu").to(x.device).view(-1, 1, 1)
    result = _taylor(x)
    counts = torch.tensor(halvings, device="cpu").view(-1, 1, 1).to(x.device) if min(halvings) < most else None
    for step in range(most):
        square = torch.bmm(result, result)
        result = square if counts is None or step < min(halvings) else torch.where(counts > step, square, result)
    return result.reshape(self.shape)


if hasattr(aten, "linalg_matrix_sqrth"):  # since torch 2.15

    @custom("linalg_matrix_sqrth", autocast="float32")
    def linalg_matrix_sqrth(self):
        (meta,) = shaped(aten.linalg_matrix_sqrth.default, self)
        values, vectors = torch.linalg.eigh(self)
        roots = values.clamp(min=0).sqrt().to(self.dtype)
        return ((vectors * roots.unsqueeze(-2)) @ vectors.mH).view(meta.shape)

    @custom("linalg_polar")
    def linalg_polar(A):
        shaped(aten.linalg_polar.default, A)
        u, values, vh = torch.linalg.svd(A, full_matrices=False)
        return u @ vh, (vh.mH * values.to(A.dtype).unsqueeze(-2)) @ vh


def _taylor(x: torch.Tensor) -> torch.Tensor:
    """The exponential's Taylor polynomial, in blocks of x^3 (Paterson and Stockmeyer)."""
    squared = torch.bmm(x, x)
    cubed = torch.bmm(squared, x)
    result = None
    for block in range(_DEGREE - 3, -1, -3):
        c0, c1, c2 = (1.0 / factorial(block + i) for i in range(3))
        part = squared * c2 + x * c1
        part.diagonal(dim1=-2, dim2=-1).add_(c0)
        if result is None:
            result = part + cubed * (1.0 / factorial(_DEGREE))
        else:
            result = torch.baddbmm(part, cubed, result)
    return result


@custom("_compute_linear_combination")
def linear_combination(input, coefficients):
    """Sums of parts of the first dimension, weighted by rows of coefficients."""
    if not input.dim() or not input.numel():
        raise RuntimeError("Empty tensor not supported")
    supported(input)
    rows = coefficients.to(input.dtype) @ input.reshape(input.shape[0], -1)
    return rows.reshape(-1, *input.shape[1:])


@custom("_compute_linear_combination.out")
def linear_combination_out(input, coefficients, *, out):
    """Added to what is there, as torch does here alone."""
    return out.add_(linear_combination(input, coefficients))


# -- renorm


@custom("renorm", key="AutogradPrivateUse1")
@custom("renorm", autocast="float32")
def renorm(self, p, dim, maxnorm):
    """Above autograd, for its gradient: torch's formula would compute the norms in float64."""
    wrong = p <= 0 or maxnorm < 0 or self.dim() < 2 or isinstance(p, complex) or isinstance(maxnorm, complex)
    if wrong or not -self.dim() <= dim < self.dim():
        on("cpu", aten.renorm.default, (self, p, dim, maxnorm), {})
    own = dim % self.dim()
    wide = self.contiguous()  # as the result is on the CPU, wherever the elements lie
    wide = wide.float() if self.dtype in (torch.float16, torch.bfloat16) else wide
    norm = torch.linalg.vector_norm(wide, p, [d for d in range(self.dim()) if d != own], keepdim=True)
    factor = torch.where(norm > maxnorm, maxnorm / (norm + 1e-7), 1.0)
    return (wide * factor).to(self.dtype)


@custom("renorm_", key="AutogradPrivateUse1")
def renorm_(self, p, dim, maxnorm):
    return self.copy_(renorm(self.clone(), p, dim, maxnorm))  # whose gradient needs what was there
