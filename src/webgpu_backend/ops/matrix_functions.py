"""Least squares, pseudo-inverses, ranks and the exponential: device factorisations and products put together."""

from math import ceil, factorial, isfinite, log2

import torch

from .. import tensor as T
from .linalg import REAL, _on, aten, copied, flat, flat_vector, reflect_, solve_triangular_, supported
from .orthogonal import factored_qr
from .table import custom

_EPS = torch.finfo(torch.float32).eps


def _constant(x: torch.Tensor, value: float) -> torch.Tensor:
    """A 0-dim tensor of x's real dtype: torch's composites would ask for float64, which few adapters have."""
    return torch.full((), value, dtype=REAL.get(x.dtype, torch.float64), device=x.device)


def _tolerances(x: torch.Tensor, atol, rtol) -> tuple[torch.Tensor, torch.Tensor]:
    """atol and rtol with torch's defaults: eps times the larger size, unless atol alone is given."""
    if rtol is None:
        rtol = _EPS * max(x.shape[-2:]) if atol is None or isinstance(atol, torch.Tensor) or atol <= 0 else 0.0
    return tuple(t if isinstance(t, torch.Tensor) else _constant(x, t) for t in (0.0 if atol is None else atol, rtol))


@custom("linalg_pinv.atol_rtol_float", key="AutogradPrivateUse1")
@custom("linalg_pinv.atol_rtol_float")
def linalg_pinv(self, *, atol=None, rtol=None, hermitian=False):
    supported(self)
    atol, rtol = _tolerances(self, atol, rtol)
    return aten.linalg_pinv.atol_rtol_tensor(self, atol=atol, rtol=rtol, hermitian=hermitian)


@custom("linalg_pinv", key="AutogradPrivateUse1")
@custom("linalg_pinv")
def linalg_pinv_rcond(self, rcond, hermitian=False):
    supported(self)
    zero, rtol = _constant(self, 0.0), _constant(self, rcond)
    return aten.linalg_pinv.atol_rtol_tensor(self, atol=zero, rtol=rtol, hermitian=hermitian)


@custom("linalg_matrix_rank.atol_rtol_float", key="AutogradPrivateUse1")
@custom("linalg_matrix_rank.atol_rtol_float")
def linalg_matrix_rank(self, *, atol=None, rtol=None, hermitian=False):
    supported(self)
    atol, rtol = _tolerances(self, atol, rtol)
    return aten.linalg_matrix_rank.atol_rtol_tensor(self, atol=atol, rtol=rtol, hermitian=hermitian)


@custom("linalg_matrix_rank", key="AutogradPrivateUse1")
@custom("linalg_matrix_rank")
def linalg_matrix_rank_tol(self, tol, hermitian=False):
    supported(self)
    atol, zero = _constant(self, tol), _constant(self, 0.0)
    return aten.linalg_matrix_rank.atol_rtol_tensor(self, atol=atol, rtol=zero, hermitian=hermitian)


# -- least squares


def _lstsq_arguments(a, b) -> bool:
    """Whether b is a vector for each matrix; torch's own error for shapes that do not fit."""
    vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
    fits = a.dim() >= 2 and b.dim() >= 1 and a.dtype == b.dtype
    fits = fits and (vector or b.dim() >= 2) and a.shape[-2] == (b.shape[-1] if vector else b.shape[-2])
    if not fits:
        _on("cpu", aten.linalg_lstsq.default, (a, b), {})
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
    rank, values, residuals = T.empty((0,), torch.int64), none, none
    if not a.numel() or not rhs.numel():
        x = torch.zeros((*batch, n, rhs.shape[-1]), dtype=self.dtype, device=self.device)
        if driver != "gels":
            rank = torch.zeros(batch, dtype=torch.int64, device=self.device)
        if driver in ("gelsd", "gelss"):
            values = torch.zeros((*batch, min(m, n)), dtype=none.dtype, device=self.device)
        full = not n
    elif driver == "gels":
        x, left = _by_qr(a, rhs)
        if m > n:
            residuals = left.abs().square().sum(-2)
        full = False  # the residuals are there
    else:
        x, rank, s = _by_svd(a, rhs, _EPS * max(m, n) if rcond is None else rcond)
        if driver in ("gelsd", "gelss"):
            values = s
        full = m > n and driver != "gelsy" and bool((rank == n).all())
    if full and m > n and driver != "gelsy":
        residuals = (rhs - a @ x).abs().square().sum(-2)
    return x.squeeze(-1) if vector else x, residuals, rank, values


# -- the exponential

_DEGREE = 12
_REACH = 1.461661507209034  # the norm up to which the Taylor polynomial of this degree is exact in float32


@custom("linalg_matrix_exp")
def linalg_matrix_exp(self):
    if self.dim() < 2 or self.shape[-1] != self.shape[-2] or not (self.is_floating_point() or self.is_complex()):
        _on("cpu", aten.linalg_matrix_exp.default, (self,), {})
    supported(self)
    if not self.numel():
        return T.empty(self.shape, self.dtype)
    if self.shape[-1] == 1:
        return self.exp()
    x = flat(self)
    # How often to halve is decided for each matrix, and the host must know: torch's other devices read it back, too.
    norms = x.abs().sum(-2).amax(-1).tolist()
    halvings = [ceil(log2(v / _REACH)) if isfinite(v) and v > _REACH else 0 for v in norms]
    most = max(halvings)
    if most:
        x = x * torch.tensor([0.5**h for h in halvings], dtype=torch.float32).to(x.device).view(-1, 1, 1)
    result = _taylor(x)
    counts = torch.tensor(halvings).view(-1, 1, 1).to(x.device) if min(halvings) < most else None
    for step in range(most):
        square = torch.bmm(result, result)
        result = square if counts is None or step < min(halvings) else torch.where(counts > step, square, result)
    return result.reshape(self.shape)


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
