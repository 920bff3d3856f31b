"""QR by Householder reflections, and products with the Q they stand for."""

import torch

from ... import tensor as T
from ..shape.copy import device_copy, fill
from ..table import custom
from .batches import aten, columns_first, flat, flat_vector, householder_, like, reflect_, shaped, supported, work


@custom("geqrf")
def geqrf(self):
    if self.dim() < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    supported(self)
    return factored_qr(self)


def factored_qr(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    *batch, m, n = x.shape
    a, tau = work(x), T.empty((*batch, min(m, n)), x.dtype)
    householder_(flat(a), tau)
    return a, tau


def q_of(a: torch.Tensor, tau: torch.Tensor, columns: int) -> torch.Tensor:
    """The first columns of Q, which a and tau hold as geqrf leaves them."""
    sizes = (*a.shape[:-1], columns)
    out = T.empty(sizes, a.dtype, columns_first(sizes))
    if out.numel():
        fill(out, 0)
        fill(out.diagonal(dim1=-2, dim2=-1), 1)
        reflect_(flat(a), flat_vector(tau), flat(out), forwards=False)
    return out


@custom("linalg_qr")
def linalg_qr(A, mode="reduced"):
    q_meta, r_meta = shaped(aten.linalg_qr.default, A, mode)
    a, tau = factored_qr(A)
    r = like(r_meta)
    if r.numel():
        device_copy(a[..., : r.shape[-2], :].triu(), r)
    q = like(q_meta) if mode == "r" else q_of(a, tau, q_meta.shape[-1])
    return q, r


@custom("linalg_householder_product")
def linalg_householder_product(input, tau):
    shaped(aten.linalg_householder_product.default, input, tau)
    return q_of(input, tau, input.shape[-1])


@custom("ormqr")
def ormqr(self, input2, input3, left=True, transpose=False):
    shaped(aten.ormqr.default, self, input2, input3, left, transpose)
    out = work(input3)
    if out.numel() and input2.shape[-1]:
        a, tau, x = flat(self), flat_vector(input2), flat(out)
        # Q x ends with H(1), Q^H x begins with it. From the right, x Q is (Q^T x^T)^T, and Q^T has conjugated vectors.
        if left:
            reflect_(a, tau, x, forwards=transpose, conjugate_tau=transpose)
        else:
            reflect_(a, tau, x.mT, forwards=not transpose, conjugate=True, conjugate_tau=transpose)
    return out
