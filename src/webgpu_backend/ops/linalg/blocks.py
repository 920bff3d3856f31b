"""Columns of large matrices are made orthogonal by Jacobi's method, block by block: what the rotations within two
blocks come to is one small unitary matrix, so that nearly all of the work is matrix products.

In each round every block meets another one; pairs lie side by side, and move on as in a tournament.
"""

import torch

from ... import tensor as T
from ...kernels.linalg.batches import near_of, near_size
from ...plan import caps, planned
from .batches import run_panel, zeros

_LEAST = {"svd": 160, "svdvals": 200, "eigh": 80}  # columns from which on a software adapter is faster by blocks
_SWEEPS = 40


def serves(name: str, x: torch.Tensor) -> bool:
    """A GPU has what is smaller in workgroup memory."""
    n, here = min(x.shape[-2:]), caps()
    if here.kind == "gpu":
        return near_of(f"{name}_near", n, T.dtype_of(x), here) is None
    return n >= _LEAST[name]


def orthogonal(x: torch.Tensor) -> torch.Tensor:
    """x V for some unitary V by which its columns are orthogonal; x is [batch, m, n]. What is neglected is small beside
    the longest column."""
    batch, m, n = x.shape
    width = near_size("gram_block", T.dtype_of(x), caps())[0] // 2
    count = -(-n // (2 * width)) * 2
    rows, norm = _laid_out(x, count * width)
    move = torch.tensor(_moves(count), dtype=torch.int64, device="cpu").to(x.device)
    for _ in range(_SWEEPS):
        rows, state = _sweep(rows, norm, move, width)
        if not state.any():
            break
    return rows[:, :n].mT


def _moves(count: int) -> list[int]:
    """From where the block at each place comes: the first stays, the others go round, outwards in the even places and
    back in the odd ones."""
    ring = [*range(2, count, 2), *range(count - 1, 0, -2)]
    came = dict(zip(ring[1:] + ring[:1], ring))
    return [came.get(i, i) for i in range(count)]


@planned
def _laid_out(x, padded: int):
    """Columns as rows, with those of zeros behind them, and the longest one's norm."""
    batch, m, n = x.shape
    rows = zeros((batch, padded, m), x.dtype)
    rows[:, :n] = x.mT
    return rows, torch.linalg.vector_norm(x, dim=1).amax(1)


@planned
def _sweep(rows, norm, move, width: int):
    """Every block has met every other one when they are back in their places; and whether anything has turned."""
    batch, padded, m = rows.shape
    count = padded // width
    state = zeros((batch,), torch.int32)
    for _ in range(count - 1):
        pairs = rows.view(batch * count // 2, 2 * width, m)
        products = torch.bmm(pairs.conj().resolve_conj(), pairs.mT)
        turned = torch.bmm(_rotations(products, state, norm).mT, pairs)
        rows = turned.view(batch, count, width, m).index_select(1, move).view(rows.shape)
    return rows, state


def _rotations(products: torch.Tensor, state: torch.Tensor, norm: torch.Tensor) -> torch.Tensor:
    count, n, _ = products.shape
    width, threads = near_size("gram_block", T.dtype_of(products), caps())
    found = T.empty(products.shape, products.dtype)
    run_panel(
        "gram_block", (products, found), (state, norm), 1, (threads, width, 1), n=n, sweeps=1,
        each=count // state.shape[0],
    )  # fmt: skip
    return found
