"""Systems of linear equations: triangular, by LU, by Cholesky; inverses."""

import torch

from ... import tensor as T
from ...plan import caps, planned
from ..oversize import by_matrices, by_pairs
from ..shape.copy import device_copy
from ..table import custom
from .batches import (
    aten,
    columns_first,
    eye,
    flat,
    flat_vector,
    like,
    lu_panels,
    shaped,
    solve_triangular_,
    swap_rows_,
    work,
    zeros,
)
from .lu import check, factored


def _broadcast(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])


@custom("linalg_solve_triangular", conj="resolve")
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
    x = work(b) if left else work(b.mT).mT  # by rows, as on the CPU
    _solve_factored(lu, pivots.expand(*lu.shape[:-2], pivots.shape[-1]), x, left, adjoint)
    return x


@planned
def _solved(A, b):
    """A^-1 b, both of one batch shape, with LU, pivots and info of A. A GPU takes b along while it factors A."""
    *batch, n, columns = b.shape
    pivots, info = T.empty((*batch, n), torch.int32), zeros(batch, torch.int32)
    if b.numel() and caps().kind == "gpu":
        both = T.empty((*batch, n, n + columns), A.dtype, columns_first((*batch, n, n + columns)))
        device_copy(A, both[..., :n])
        device_copy(b, both[..., n:])
        if lu_panels(flat(both), flat_vector(pivots), info, True):
            lu, x = work(both[..., :n]), work(both[..., n:])
            solve_triangular_(flat(lu), flat(x), upper=True)
            return x, lu, pivots, info
    lu, pivots, info = factored(A)
    x = work(b)
    _solve_factored(lu, pivots, x, True, False)
    return x, lu, pivots, info


@custom("_linalg_solve_ex")
def linalg_solve_ex(A, B, *, left=True, check_errors=False):
    metas = shaped(aten._linalg_solve_ex.default, A, B, left=left)
    vector = metas[0].dim() < A.dim()
    b = B.unsqueeze(-1) if vector else B
    if A.shape[:-2] == b.shape[:-2] and (left or vector):
        x, lu, pivots, info = _solved(A, b)
    else:
        lu, pivots, info = factored(A)
        a, b = _broadcast(lu, b)
        x = work(b)
        _solve_factored(a, pivots.expand(*a.shape[:-2], pivots.shape[-1]), x, True if vector else left, False)
    if check_errors:
        check(info, "torch.linalg.solve_ex", A.dim() == 2)
    return x.squeeze(-1) if vector else x, lu, pivots, info


@custom("linalg_inv_ex", oversize=by_matrices)
def linalg_inv_ex(A, *, check_errors=False):
    shaped(aten.linalg_inv_ex.default, A)
    n = A.shape[-1]
    out, _, _, info = _solved(A, eye((), n, n, A.dtype).expand(A.shape))
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


def _by_matrices(overload, self, A, *rest):
    return by_pairs(overload, self, A, *rest) if self.dim() > 2 else NotImplemented


@custom("_cholesky_solve_helper", oversize=_by_matrices)
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
