"""Cholesky and LU: factors, determinants, and what unpacks them."""

import torch

from ... import tensor as T
from ...kernels.linalg.batches import BLOCK
from ...plan import caps, planned
from ..oversize import by_matrices
from ..shape.copy import device_copy, fill
from ..table import custom
from .batches import (  # fmt: skip
    REAL,
    aten,
    cholesky_,
    cholesky_panels,
    copied,
    eye,
    flat,
    like,
    lu_,
    shaped,
    swap_rows_,
    work,
    zeros,
)


def check(info: torch.Tensor, name: str, one: bool) -> None:
    """Raises torch's LinAlgError for a matrix that could not be factored: reads back, as on other devices."""
    aten._linalg_check_errors(info, name, is_matrix=one)


@planned
def _cholesky(x, upper: bool) -> tuple[torch.Tensor, torch.Tensor]:
    meta, _ = shaped(aten.linalg_cholesky_ex.default, x)
    out, info = like(meta), zeros(x.shape[:-2], torch.int32)
    if not out.numel():
        return out, info
    target = flat(out).mT if upper else flat(out)
    if caps().kind == "gpu":
        fill(out, 0)
        cholesky_panels(flat(work(x.mT if upper else x)), target, info)
    else:
        device_copy(x.triu() if upper else x.tril(), out)
        cholesky_(target, info)
        if x.shape[-1] > BLOCK:  # matrix products between blocks have written the other triangle
            device_copy(out.triu() if upper else out.tril(), out)
    return out, info


@custom("linalg_cholesky_ex", oversize=by_matrices)
def linalg_cholesky_ex(self, *, upper=False, check_errors=False):
    shaped(aten.linalg_cholesky_ex.default, self)
    out, info = _cholesky(self, upper)
    if check_errors:
        check(info, "linalg.cholesky_ex", self.dim() == 2)
    return out, info


if hasattr(aten, "cholesky"):  # until torch 2.13

    @custom("cholesky")
    def cholesky(self, upper=False):
        shaped(aten.cholesky.default, self)
        out, info = _cholesky(self, upper)
        if self.numel():
            check(info, "cholesky", self.dim() == 2)
        return out


@planned
def factored(x: torch.Tensor, pivot: bool = True):
    """LU, pivots and info of x, with the layout torch's own results have."""
    *batch, m, n = x.shape
    out = work(x)
    pivots, info = T.empty((*batch, min(m, n)), torch.int32), zeros(batch, torch.int32)
    lu_(flat(out), pivots, info, pivot)
    return out, pivots, info


@custom("linalg_lu_factor_ex", oversize=by_matrices)
def linalg_lu_factor_ex(A, *, pivot=True, check_errors=False):
    shaped(aten.linalg_lu_factor_ex.default, A)
    lu, pivots, info = factored(A, pivot)
    if check_errors:
        check(info, "torch.linalg.lu_factor_ex", A.dim() == 2)
    return lu, pivots, info


@custom("linalg_lu")
def linalg_lu(A, *, pivot=True):
    shaped(aten.linalg_lu.default, A)
    lu, pivots, _ = factored(A, pivot)
    p, low, up = lu_unpack(lu, pivots, True, pivot)
    return p, low, up


@custom("lu_unpack")
def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    metas = shaped(aten.lu_unpack.default, LU_data, LU_pivots, unpack_data, unpack_pivots)
    p, low, up = (like(m) for m in metas)
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    if unpack_data:
        device_copy(LU_data[..., :, :k].tril(-1), low)
        if low.numel():
            low.diagonal(dim1=-2, dim2=-1).fill_(1)
        device_copy(LU_data[..., :k, :].triu(), up)
    if unpack_pivots and p.numel():
        identity = copied(eye((), m, m, p.dtype).expand(p.shape), p)
        pivots = LU_pivots.contiguous()
        swap_rows_(flat(identity), pivots, 0, pivots.shape[-1], backwards=True)
    return p, low, up


def transposed_first(A: torch.Tensor) -> bool:
    """Where torch's own kernels factor the transpose: its gradient formulas look at A and expect the same."""
    return A.is_contiguous() and not A.is_complex()


def _permutation_sign(pivots: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    n = pivots.shape[-1]
    own = torch.arange(1, n + 1, dtype=torch.int32, device=pivots.device)
    odd = (pivots != own).sum(-1).remainder(2)
    return (1 - 2 * odd).to(dtype)


@custom("_linalg_det", oversize=by_matrices)
def linalg_det(A):
    shaped(aten._linalg_det.default, A)
    lu, pivots, _ = factored(A.mT if transposed_first(A) else A)
    result = lu.diagonal(dim1=-2, dim2=-1).prod(-1) * _permutation_sign(pivots, A.dtype)
    return result, lu, pivots


@custom("_linalg_slogdet", oversize=by_matrices)
def linalg_slogdet(A):
    shaped(aten._linalg_slogdet.default, A)
    lu, pivots, _ = factored(A.mT if transposed_first(A) else A)
    diagonal = lu.diagonal(dim1=-2, dim2=-1)
    sign = diagonal.sgn().prod(-1) * _permutation_sign(pivots, A.dtype)
    logabsdet = diagonal.abs().log().sum(-1)
    assert logabsdet.dtype == REAL[A.dtype]
    return sign, logabsdet, lu, pivots
