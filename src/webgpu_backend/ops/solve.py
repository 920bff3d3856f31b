"""Systems of linear equations: triangular, by LU, by Cholesky; inverses."""

import torch

from .. import tensor as T
from .copy import device_copy, fill
from .factor import check, factored
from .linalg import aten, columns_first, eye, flat, like, shaped, solve_triangular_, swap_rows_, work
from .table import custom


def _broadcast(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])


@custom("linalg_solve_triangular")
def linalg_solve_triangular(self, B, *, upper, left=True, unitriangular=False):
    shaped(aten.linalg_solve_triangular.default, self, B, upper=upper, left=left, unitriangular=unitriangular)
    a, b = _broadcast(self, B)
    x = work(b)
    if left:
        solve_triangular_(flat(a), flat(x), upper, unitriangular)
    else:
        solve_triangular_(flat(a).mT, flat(x).mT, not upper, unitriangular)
    return x


@custom("triangular_solve")
def triangular_solve(self, A, upper=True, transpose=False, unitriangular=False):
    shaped(aten.triangular_solve.default, self, A, upper, transpose, unitriangular)
    a, b = _broadcast(A, self)
    x, m = work(b), work(a)
    if transpose:
        solve_triangular_(flat(m).mT, flat(x), not upper, unitriangular)
    else:
        solve_triangular_(flat(m), flat(x), upper, unitriangular)
    return x, m


def _lu_solve(lu, pivots, x, transpose: bool, conjugate: bool) -> None:
    """x = op(P L U)^-1 x in place; all [batch, ...]."""
    k = pivots.shape[-1]
    if not transpose:
        swap_rows_(x, pivots, 0, k)
        solve_triangular_(lu, x, upper=False, unit=True, conjugate=conjugate)
        solve_triangular_(lu, x, upper=True, conjugate=conjugate)
    else:
        solve_triangular_(lu.mT, x, upper=False, conjugate=conjugate)
        solve_triangular_(lu.mT, x, upper=True, unit=True, conjugate=conjugate)
        swap_rows_(x, pivots, 0, k, backwards=True)


def _solve_factored(lu, pivots, x, left: bool, adjoint: bool) -> None:
    """As linalg_lu_solve, in place on [..., m, n] tensors of one batch shape."""
    if not x.numel():
        return
    lu, x = flat(lu), flat(x)
    pivots = pivots.reshape(lu.shape[0], -1).contiguous()
    conjugate = adjoint and lu.is_complex()
    if left:
        _lu_solve(lu, pivots, x, adjoint, conjugate)
    else:
        # x A = b is A^T x^T = b^T
        _lu_solve(lu, pivots, x.mT, not adjoint, conjugate)


@custom("linalg_lu_solve")
def linalg_lu_solve(LU, pivots, B, *, left=True, adjoint=False):
    shaped(aten.linalg_lu_solve.default, LU, pivots, B, left=left, adjoint=adjoint)
    lu, b = _broadcast(LU, B)
    x = work(b)
    _solve_factored(lu, pivots.expand(*lu.shape[:-2], pivots.shape[-1]), x, left, adjoint)
    return x


@custom("_linalg_solve_ex")
def linalg_solve_ex(A, B, *, left=True, check_errors=False):
    metas = shaped(aten._linalg_solve_ex.default, A, B, left=left)
    lu, pivots, info = factored(A)
    vector = metas[0].dim() < A.dim()
    b = B.unsqueeze(-1) if vector else B
    a, b = _broadcast(lu, b)
    x = work(b)
    _solve_factored(a, pivots.expand(*a.shape[:-2], pivots.shape[-1]), x, True if vector else left, False)
    if check_errors:
        check(info, "torch.linalg.solve_ex", A.dim() == 2)
    return x.squeeze(-1) if vector else x, lu, pivots, info


@custom("linalg_inv_ex")
def linalg_inv_ex(A, *, check_errors=False):
    shaped(aten.linalg_inv_ex.default, A)
    lu, pivots, info = factored(A)
    out = T.empty(A.shape, A.dtype, columns_first(A.shape))
    if out.numel():
        fill(out, 0)
        fill(out.diagonal(dim1=-2, dim2=-1), 1)
        _solve_factored(lu, pivots, out, True, False)
    if check_errors:
        check(info, "linalg.inv_ex", A.dim() == 2)
    return out, info


def _cholesky_solve(a, x, upper: bool) -> None:
    """x = (L L^H)^-1 x or (U^H U)^-1 x in place; all [..., m, n] of one batch shape."""
    if not x.numel():
        return
    a, x = flat(a), flat(x)
    conjugate = a.is_complex()
    if upper:
        solve_triangular_(a.mT, x, upper=False, conjugate=conjugate)
        solve_triangular_(a, x, upper=True)
    else:
        solve_triangular_(a, x, upper=False)
        solve_triangular_(a.mT, x, upper=True, conjugate=conjugate)


@custom("_cholesky_solve_helper")
def cholesky_solve_helper(self, A, upper):
    shaped(aten._cholesky_solve_helper.default, self, A, upper)
    x = work(self)
    _cholesky_solve(A, x, upper)
    return x


@custom("cholesky_inverse")
def cholesky_inverse(self, upper=False):
    (meta,) = shaped(aten.cholesky_inverse.default, self, upper)
    out = like(meta)
    if out.numel():
        device_copy(eye((), self.shape[-1], self.shape[-1], self.dtype).expand(self.shape), out)
        _cholesky_solve(self, out, upper)
    return out
