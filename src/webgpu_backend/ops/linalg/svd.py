"""Singular values and eigenvalues of Hermitian matrices by Jacobi's methods, and what torch builds on them."""

import torch

from ... import tensor as T
from ...kernels.linalg.batches import TRIPS, near_of, team_size
from ...plan import caps, planned
from ..shape.copy import device_copy, fill
from ..table import custom
from . import blocks
from .batches import REAL, aten, copied, eye, flat, like, ranges, reflect_, run, run_panel, shaped, zeros
from .qr import factored_qr

# Convergence is quadratic: six to ten sweeps in float32. A matrix that is done returns at once.
_SWEEPS = 16


def _sweeps(name: str, operands: tuple, vectors: tuple, m: int, n: int, length: int, trips: int) -> None:
    """Rounds until nothing moves; `trips` is the loop trips of one round in one invocation."""
    state = zeros((2 * operands[0].shape[0],), torch.int32)
    rounds = (n + 1) // 2 * 2 - 1
    dtype = operands[0].dtype
    fit = TRIPS // (rounds * trips)
    if fit:
        for done in range(0, _SWEEPS, fit):
            run(
                name, dtype, operands, (*vectors, state), length, m=m, n=n, first=0, last=rounds,
                sweeps=min(fit, _SWEEPS - done), complete=1,
            )  # fmt: skip
        return
    parts = ranges(rounds, lambda _: trips)
    for _ in range(_SWEEPS):
        for first, last in parts:
            run(
                name, dtype, operands, (*vectors, state), length, m=m, n=n, first=first, last=last, sweeps=1,
                complete=last == rounds,
            )  # fmt: skip


def _scale(x: torch.Tensor) -> torch.Tensor:
    """The largest magnitude in each matrix, [..., 1, 1], or 1 where there is none: squares must not overflow."""
    top = x.abs().amax((-2, -1), keepdim=True)
    return torch.where(top == 0, 1.0, top)


def _faults(scale: torch.Tensor, code: int) -> torch.Tensor:
    """For each matrix LAPACK's code where it has NaN or infinities, else 0."""
    return torch.where(scale.isfinite(), 0, code).to(torch.int32).reshape(scale.shape[:-2])


def _ordered(values: torch.Tensor, descending: bool, *columns: torch.Tensor) -> list[torch.Tensor]:
    """values sorted, and the columns of matrices in the same order."""
    values, order = values.sort(-1, descending=descending)
    return [values, *(c.gather(-1, order.unsqueeze(-2).expand(c.shape)) for c in columns)]


def _svd_tall(x: torch.Tensor, vectors: bool, columns: int):
    """x [batch, m, n] with m >= n, no element beyond 1: the first `columns` of U, S, V."""
    batch, m, n = x.shape
    factors = factored_qr(x) if m > n else None
    small = factors[0][:, :n].triu() if factors else copied(x, T.empty(x.shape, x.dtype))
    name = "svd" if vectors else "svdvals"
    near = near_of(f"{name}_near", n, T.dtype_of(x), caps())
    v = (T.empty((batch, n, n), x.dtype) if near else eye((batch,), n, n, x.dtype)) if vectors else None
    operands = (small, v) if vectors else (small,)
    if near:
        width, threads = near
        run_panel(f"{name}_near", operands, (), 1, (threads, width, 1), n=n, sweeps=_SWEEPS)
    elif n > 1:
        trips = -(-((n + 1) // 2) // team_size(n, caps())) * (3 * n + 2) + 1
        _sweeps(name, operands, (), n, n, n, trips)
    s = torch.linalg.vector_norm(small, dim=-2)
    if not vectors:
        return None, s.sort(-1, descending=True).values, None
    s, small, v = _ordered(s, True, small, v)
    return _unitary(small, m, columns, factors), s, v


def _unitary(small: torch.Tensor, m: int, columns: int, factors=None) -> torch.Tensor:
    """The first `columns` of a unitary matrix of m rows that begins with the columns of `small` over their norms; of
    `factors` it is Q times that. Householder makes columns orthonormal whatever they are, so that those which are zero
    or noise need no care, and finds the rest of a complete basis."""
    batch, _, n = small.shape
    r, beta = factored_qr(small)
    u = T.empty((batch, m, columns), small.dtype, (m * columns, 1, m))
    fill(u, 0)
    fill(u.diagonal(dim1=-2, dim2=-1), 1)
    reflect_(r, beta, u[:, :n], forwards=False)
    if factors:
        reflect_(*factors, u, forwards=False)
    sign = torch.where(r.diagonal(dim1=-2, dim2=-1).real < 0, -1.0, 1.0)
    first = u[:, :, :n]
    device_copy(first * sign.unsqueeze(-2), first)
    return u


@planned
def _factored(x):
    """x, or x^H where it is wide, as Q R with its longest columns first. Those of R^H are nearer to orthogonal."""
    x = _tall(flat(x))
    order = torch.linalg.vector_norm(x, dim=-2).argsort(-1, descending=True)
    q, tau = factored_qr(x.gather(-1, order.unsqueeze(-2).expand(x.shape)))
    r = q[:, : q.shape[-1]].triu()
    return q, tau, r, order, r.mH.resolve_conj()


def _tall(x: torch.Tensor) -> torch.Tensor:
    return x.mH.resolve_conj() if x.shape[-2] < x.shape[-1] else x


def _svd_factored(q, tau, r, order, turned, vectors: bool, columns: int):
    """As _svd_tall, of what `_factored` gives, and R^H with columns made orthogonal: their directions are the right
    vectors, which R takes to the left ones."""
    batch, m, n = q.shape
    right = _unitary(_ordered(torch.linalg.vector_norm(turned, dim=-2), True, turned)[1], n, n)
    small = torch.bmm(r, right)
    s, small, right = _ordered(torch.linalg.vector_norm(small, dim=-2), True, small, right)
    if not vectors:
        return None, s, None
    back = order.argsort(-1).unsqueeze(-1).expand(right.shape)
    return _unitary(small, m, columns, (q, tau)), s, right.gather(-2, back)


def _columns(meta) -> torch.Tensor:
    """Column by column, as the CPU has it; the meta device has CUDA's layout."""
    if meta.dim() < 2:  # not asked for
        return like(meta)
    return T.empty((*meta.shape[:-2], meta.shape[-1], meta.shape[-2]), meta.dtype).mT


@custom("_linalg_svd")
def linalg_svd(A, full_matrices=False, compute_uv=True, *, driver=None):
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )
    u_meta, s_meta, vh_meta = shaped(aten._linalg_svd.default, A, full_matrices, compute_uv)
    u, s, vh = like(u_meta), like(s_meta), _columns(vh_meta)
    m, n = A.shape[-2:]
    if not A.numel():
        for t in (u, vh):
            if compute_uv and t.numel():
                device_copy(eye((), *t.shape[-2:], t.dtype).expand(t.shape), t)
        return u, s, vh
    x, scale, info = _scaled(A)
    aten._linalg_check_errors(info, "linalg.svd", is_matrix=A.dim() == 2)
    factored = ()
    if blocks.serves("svd" if compute_uv else "svdvals", x):
        *factored, adjoint = _factored(x)
        factored.append(blocks.orthogonal(adjoint))
    return _svd(x, scale, A.shape, full_matrices, compute_uv, *factored)


@planned
def _scaled(A) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    scale = _scale(A)
    return A / scale, scale, _faults(scale, -4)


@planned
def _svd(x, scale, shape, full_matrices: bool, compute_uv: bool, *factored):
    u_meta, s_meta, vh_meta = shaped(aten._linalg_svd.default, x, full_matrices, compute_uv)
    u, s, vh = like(u_meta), like(s_meta), _columns(vh_meta)
    m, n = shape[-2:]
    columns = max(m, n) if full_matrices else min(m, n)
    if factored:
        left, values, right = _svd_factored(*factored, compute_uv, columns)
    else:
        left, values, right = _svd_tall(_tall(flat(x)), compute_uv, columns)
    device_copy(values.reshape(s.shape) * scale.squeeze(-1), s)
    if compute_uv:
        if m < n:
            left, right = right, left
        device_copy(left.reshape(u.shape), u)
        device_copy(right.mH.reshape(vh.shape), vh)
    return u, s, vh


@custom("_linalg_eigh")
def linalg_eigh(A, UPLO="L", compute_v=True):
    w_meta, v_meta = shaped(aten._linalg_eigh.default, A, UPLO, compute_v)
    if not A.numel():
        return like(w_meta), like(v_meta)
    x, scale, info = _hermitian(A, UPLO.upper() == "L")
    aten._linalg_check_errors(info, "linalg.eigh", is_matrix=A.dim() == 2)
    turned = (blocks.orthogonal(_root(x)),) if blocks.serves("eigh", x) else ()
    return _eigh(x, scale, compute_v, *turned)


@planned
def _hermitian(A, lower: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    below = A.tril(-1) if lower else A.triu(1).mH
    x = below + below.mH
    diagonal = A.diagonal(dim1=-2, dim2=-1)
    device_copy(diagonal.real if A.is_complex() else diagonal, x.diagonal(dim1=-2, dim2=-1))
    scale = _scale(x)
    return x / scale, scale, _faults(scale, A.shape[-1])


@planned
def _root(A) -> torch.Tensor:
    """The Cholesky factor of a Hermitian A with so much more on its diagonal that it is positive definite: its left
    vectors are those of A. The fourth root of a norm of A^4 is little more than the largest eigenvalue."""
    x = flat(A)
    square = torch.bmm(x, x)
    bound = torch.bmm(square, square).abs().sum(-1).amax(-1) ** 0.25
    x = copied(x, T.empty(x.shape, x.dtype))
    diagonal = x.diagonal(dim1=-2, dim2=-1)
    device_copy(diagonal + torch.where(bound == 0, 1.0, 1.25 * bound).unsqueeze(-1), diagonal)
    factor, info = aten.linalg_cholesky_ex.default(x)
    return factor


def _vectors_of(turned: torch.Tensor) -> torch.Tensor:
    """Columns of length 1 of orthogonal ones, whose products are then the square of what they were."""
    v = turned / torch.linalg.vector_norm(turned, dim=-2, keepdim=True)
    return torch.baddbmm(v, v, torch.bmm(v.mH.resolve_conj(), v), beta=1.5, alpha=-0.5)


def _vectors_near(x: torch.Tensor, near: tuple[int, int]) -> torch.Tensor:
    v = T.empty(x.shape, x.dtype)
    width, threads = near
    run_panel("eigh_near", (x, v), (), 1, (threads, width, 1), n=x.shape[-1], sweeps=_SWEEPS)
    return v


def _vectors_by_sweeps(x: torch.Tensor) -> torch.Tensor:
    batch, n, _ = x.shape
    v = eye((batch,), n, n, x.dtype)
    half = (n + 1) // 2
    work = half * n // 4  # each thread of a team has a few elements of a round
    team = team_size(work, caps())
    trips = 3 * -(-half * n // team) + -(-half // team) + 1
    rotations = T.empty((batch * half * 4,), REAL[x.dtype])
    if n > 1:
        _sweeps("eigh", (x, v), (rotations,), n, n, work, trips)
    return v


@planned
def _eigh(A, scale, compute_v: bool, *turned) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and vectors of `scale` times a whole Hermitian A whose largest element is 1."""
    values, vectors = (like(m) for m in shaped(aten._linalg_eigh.default, A, "L", compute_v))
    n, scaled = A.shape[-1], flat(A)
    if turned:
        v = _vectors_of(*turned)
    else:
        x = copied(scaled, T.empty(scaled.shape, scaled.dtype))
        near = near_of("eigh_near", n, T.dtype_of(A), caps())
        v = _vectors_near(x, near) if near else _vectors_by_sweeps(x)
    # Rayleigh's quotients rather than the diagonal, which thousands of rotations have rounded: their error is the
    # square of the vectors'. That is why the vectors are computed even where only the values are wanted.
    w = (v.conj() * torch.bmm(scaled, v)).sum(-2)
    w = (w.real if w.is_complex() else w).reshape(values.shape) * scale.squeeze(-1)
    if compute_v:
        w, v = _ordered(w, False, v.reshape(A.shape))
        device_copy(v, vectors)
    else:
        w = w.sort(-1).values
    device_copy(w, values)
    return values, vectors
