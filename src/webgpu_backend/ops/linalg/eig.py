"""Eigenvalues of small matrices without symmetry: balanced, reduced to Hessenberg form, then to Schur form by LAPACK's
own steps, in whose order the eigenvalues come. Larger matrices are left to the CPU."""

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.linalg.batches import LONGEST, TRIPS, team_size
from ...plan import caps
from ..shape.copy import device_copy
from ..table import custom
from .batches import aten, columns_first, copied, eye, flat, like, run, shaped, zeros

_ALONE = 32  # rows of a matrix without many others
_MANY = 8
_STEPS = 60  # for each row; LAPACK gives up after as many


def _small(x: torch.Tensor) -> bool:
    """The CPU is faster with larger matrices, but for a batch of them on a GPU."""
    n = x.shape[-1]
    many = caps().kind == "gpu" and x.numel() >= _MANY * n * n
    return n <= (LONGEST if many else _ALONE)


def _schur(x: torch.Tensor, z: torch.Tensor) -> None:
    """x, [batch, n, n], becomes z^-1 x z of Schur form, in place; z starts as the identity."""
    batch, n = x.shape[:2]
    state = zeros((4 * batch,), torch.int32)
    work = min(n, 16)  # a team's threads meet so often that few are best
    run("hessenberg", x.dtype, (x, z), (state,), work, n=n)
    trips = n * (8 + 6 * -(-n // team_size(work, caps())))
    rounds = TRIPS // trips
    for done in range(0, _STEPS * max(n, 10), rounds):
        run("schur", x.dtype, (x, z), (state,), work, n=n, rounds=rounds, fresh=not done)
        live = state.reshape(batch, 4)[:, 0]
        if not live.any():
            return
    at, row = next((i, r) for i, r in enumerate(live.tolist()) if r)
    raise torch._C._LinAlgError(
        f"linalg.eig: {f'(Batch element {at}): ' if batch > 1 else ''}The algorithm failed to converge because the "
        f"input matrix is ill-conditioned or has too many repeated eigenvalues (error code: {row})."
    )


@custom("linalg_eig")
def linalg_eig(self):
    values, vectors = shaped(aten.linalg_eig.default, self)
    values, vectors = like(values), T.empty(vectors.shape, vectors.dtype, columns_first(vectors.shape))
    if not self.numel():
        return values, vectors
    if not _small(self):
        raise Unsupported("webgpu: eigenvalues of so large a matrix")
    if not self.isfinite().all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    top = self.abs().amax((-2, -1), keepdim=True)
    scale = torch.ldexp(torch.ones_like(top), top.frexp()[1])  # a power of two: squares must not overflow
    scaled = flat(self / scale)
    x = copied(scaled, T.empty(scaled.shape, scaled.dtype))
    batch, n = x.shape[:2]
    z = eye((batch,), n, n, x.dtype)
    _schur(x, z)
    found, w = T.empty((batch, n, n), values.dtype), T.empty((batch, n), values.dtype)
    run("eigenvectors", x.dtype, (x,), (found, w), columns=n)
    v = torch.bmm(z.to(found.dtype), found)
    v = v / torch.linalg.vector_norm(v, dim=-2, keepdim=True)
    # As LAPACK: a complex vector's largest component is real.
    most = v.gather(-2, v.abs().argmax(-2, keepdim=True))
    turned = v * (most.conj() / most.abs())
    v = turned if self.is_complex() else torch.where(w.imag.unsqueeze(-2) != 0, turned, v)
    device_copy(w.reshape(values.shape) * scale.squeeze(-1), values)
    device_copy(v.reshape(vectors.shape), vectors)
    return values, vectors


@custom("_linalg_eigvals")
def linalg_eigvals(self):
    return linalg_eig(self)[0]
