"""Sparse layouts become one another: coordinates (COO), compressed rows and columns (CSR, CSC), and blocks of them
(BSR, BSC), with batches and dense dimensions. What the CPU refuses is refused in its words."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch

from ... import tensor as T

NAMES = {
    torch.strided: "Strided", torch.sparse_coo: "Sparse", torch.sparse_csr: "SparseCsr", torch.sparse_csc: "SparseCsc",
    torch.sparse_bsr: "SparseBsr", torch.sparse_bsc: "SparseBsc",
}  # fmt: skip
BLOCKS = (torch.sparse_bsr, torch.sparse_bsc)
COMPRESSED = (torch.sparse_csr, torch.sparse_csc, *BLOCKS)
_BY_ROWS = (torch.sparse_csr, torch.sparse_bsr)


class Places(NamedTuple):
    """Which elements, or blocks, there are: the matrix of a batch, the row and column (of blocks), and the values."""

    batch: torch.Tensor
    rows: torch.Tensor
    columns: torch.Tensor
    values: torch.Tensor


def suffix(layout) -> str:
    """By which operators that make it are known: _csr."""
    return f"_{str(layout).rpartition('_')[2]}"


def kernel(convert: Callable, layout) -> Callable:
    """One of `from_dense`, `from_coordinates` and `convert` as the operator of a layout."""
    if layout in BLOCKS:
        return lambda self, blocksize, dense_dim=None: convert(self, layout, blocksize, dense_dim, suffix(layout))
    return lambda self, dense_dim=None: convert(self, layout, None, dense_dim, suffix(layout))


def ends_of(places: torch.Tensor, count: int) -> torch.Tensor:
    """Where each row begins among elements that are sorted by rows, and where the last one ends."""
    ends = torch.zeros(count + 1, dtype=torch.int64, device=T.here())
    if len(places):
        ends[1:] = torch.bincount(places, minlength=count).cumsum(0)
    return ends


def indices(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where each row or column ends, and the places within it."""
    return (x.crow_indices(), x.col_indices()) if x.layout in _BY_ROWS else (x.ccol_indices(), x.row_indices())


def _lead(x: torch.Tensor) -> int:
    """How many dimensions are batches."""
    return x.dim() - 2 - x.dense_dim()


def block_of(x: torch.Tensor) -> tuple[int, int]:
    lead = _lead(x)
    return tuple(x.values().shape[lead + 1 : lead + 3]) if x.layout in BLOCKS else (1, 1)


def places(x: torch.Tensor) -> Places:
    """Of a compressed tensor."""
    lead = _lead(x)
    ends, inner = indices(x)
    ends, values = ends.reshape(math.prod(x.shape[:lead]), ends.shape[-1]), x.values()
    outer = torch.arange(ends.shape[0] * (ends.shape[1] - 1), device=T.here())
    outer = outer.repeat_interleave(ends.diff().reshape(-1), output_size=inner.numel())
    batch, outer = outer // max(ends.shape[1] - 1, 1), outer % max(ends.shape[1] - 1, 1)
    inner = inner.reshape(-1).long()
    rows, columns = (outer, inner) if x.layout in _BY_ROWS else (inner, outer)
    return Places(batch, rows, columns, values.reshape(inner.numel(), *values.shape[lead + 1 :]))


def compressed(found: Places, shape, lead: int, layout, kind: torch.dtype) -> torch.Tensor:
    """A tensor of what is found, in the order of its rows or columns."""
    block = found.values.shape[1:3] if layout in BLOCKS else (1, 1)
    counts = [n // max(k, 1) for n, k in zip(shape[lead : lead + 2], block)]
    by_rows = layout in _BY_ROWS
    outer, inner = (found.rows, found.columns) if by_rows else (found.columns, found.rows)
    size, within = counts if by_rows else counts[::-1]
    many = math.prod(shape[:lead])
    line = found.batch * size + outer
    order = (line * max(within, 1) + inner).argsort(stable=True)
    ends = torch.zeros((many, size + 1), dtype=torch.int64, device=T.here())
    ends[:, 1:] = ends_of(line, many * size).diff().view(many, size).cumsum(1)
    if many > 1 and not (ends[:, -1] == ends[0, -1]).all():
        raise RuntimeError("Expect the same number of specified elements per batch.")
    batch, there = shape[:lead], line.numel() // many
    return torch.sparse_compressed_tensor(
        ends.to(kind).view(*batch, size + 1),
        inner[order].to(kind).view(*batch, there),
        found.values[order].view(*batch, there, *found.values.shape[1:]),
        shape, layout=layout, check_invariants=False,
    )  # fmt: skip


def _blocks(dense: torch.Tensor, lead: int, block: tuple[int, int]) -> torch.Tensor:
    """[matrix, row of blocks, column of blocks, row, column, dense dimensions ...] of a dense tensor."""
    high, wide = block
    rows, columns = dense.shape[lead : lead + 2]
    many = math.prod(dense.shape[:lead])
    cut = dense.reshape(many, rows // high, high, columns // wide, wide, *dense.shape[lead + 2 :])
    return cut.transpose(2, 3)


def to_dense(x: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    lead, (high, wide), found = _lead(x), block_of(x), places(x)
    rows, columns = x.shape[lead : lead + 2]
    values = found.values.to(dtype or x.dtype)
    inside = (high, wide) if x.layout in BLOCKS else ()
    out = torch.zeros(
        (math.prod(x.shape[:lead]), rows // max(high, 1), columns // max(wide, 1), *inside, *x.shape[lead + 2 :]),
        dtype=values.dtype, device=T.here(),
    )  # fmt: skip
    out.index_put_((found.batch, found.rows, found.columns), values, accumulate=True)
    return (out.transpose(2, 3) if inside else out).reshape(x.shape)


def at(dense: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The elements of a dense tensor at a compressed one's places, as its values lie."""
    lead, found = _lead(mask), places(mask)
    cut = _blocks(dense, lead, block_of(mask))
    cut = cut if mask.layout in BLOCKS else cut.flatten(2, 4)
    return cut[found.batch, found.rows, found.columns].reshape(mask.values().shape)


def _check_block(name: str, source, layout, sizes, blocksize) -> tuple[int, int]:
    to = f"{name}: conversion from {NAMES[source]} to {NAMES[layout]}"
    if layout not in BLOCKS:
        if blocksize is not None:
            raise RuntimeError(f"{to} with blocksize argument given is not supported")
        return 1, 1
    if blocksize is None:
        raise RuntimeError(f"{to} without blocksize argument given is not supported")
    high, wide = blocksize
    if high <= 0 or wide <= 0:
        raise RuntimeError(f"{name}: blocksize needs to be positive, but got {list(blocksize)}")
    if sizes[0] % high or sizes[1] % wide:
        raise RuntimeError(
            f"{name}: tensor sparse size ({sizes[0]},{sizes[1]}) must be divisible by given blocksize ({high},{wide})"
        )
    return high, wide


def from_dense(x: torch.Tensor, layout, blocksize=None, dense_dim=None, by: str = "") -> torch.Tensor:
    name, dense = f"dense_to_sparse{by}", dense_dim or 0
    if x.dim() < 2:
        raise IndexError(f"{name}: a tensor of two dimensions or more is needed, but got one of {x.dim()}")
    if not 0 <= dense <= x.dim() - 2:
        raise RuntimeError(f"{name}: dense_dim argument must be in [0,{x.dim() - 2}] range, but {dense} is given")
    lead = x.dim() - 2 - dense
    block = _check_block(name, torch.strided, layout, x.shape[lead : lead + 2], blocksize)
    if 0 in x.shape[:lead]:
        raise RuntimeError(f"to_sparse{suffix(layout)}: Expected product of batch dimensions to be non-zero.")
    cut = _blocks(x, lead, block)
    if layout not in BLOCKS:
        cut = cut.flatten(2, 4)
    there = cut != 0
    there = there.flatten(3).any(3) if there.dim() > 3 else there
    batch, rows, columns = there.nonzero().unbind(1)
    found = Places(batch, rows, columns, cut[batch, rows, columns])
    return compressed(found, x.shape, lead, layout, torch.int64)


def from_coordinates(x: torch.Tensor, layout, blocksize=None, dense_dim=None, by: str = "") -> torch.Tensor:
    name = f"coo_to_sparse{by}" if by else "sparse_coo_to_sparse"
    to = f"{name}: conversion from Sparse to {NAMES[layout]}"
    if x.sparse_dim() != 2:
        raise RuntimeError(f"{to} for input tensors with sparse_dim()!=2 is not supported")
    if dense_dim is not None:
        raise RuntimeError(f"{to} with dense_dim argument given is not supported")
    block = _check_block(name, torch.sparse_coo, layout, x.shape[:2], blocksize)
    x = x.coalesce()
    rows, columns = x._indices().unbind(0)
    found = Places(torch.zeros_like(rows), rows, columns, x._values())
    return compressed(_gathered(found, block) if layout in BLOCKS else found, x.shape, 0, layout, torch.int64)


def _gathered(found: Places, block: tuple[int, int]) -> Places:
    """Elements of a matrix as the blocks that they lie in."""
    (high, wide), rows, columns = block, found.rows, found.columns
    most = int(columns.max()) // wide + 1 if columns.numel() else 1
    line, inverse = torch.unique(rows // high * most + columns // wide, return_inverse=True)
    values = torch.zeros((len(line), high, wide, *found.values.shape[1:]), dtype=found.values.dtype, device=T.here())
    values.index_put_((inverse, rows % high, columns % wide), found.values)
    return Places(torch.zeros_like(line), line // most, line % most, values)


def convert(x: torch.Tensor, layout, blocksize=None, dense_dim=None, by: str = "") -> torch.Tensor:
    """A compressed tensor in another compressed layout."""
    same = x.layout is layout
    name = f"to_sparse{by}" if same else f"sparse_compressed_to_sparse{by}"
    to = f"{name}: conversion from {NAMES[x.layout]} to {NAMES[layout]}"
    lead, own = _lead(x), block_of(x)
    if lead and layout in BLOCKS and x.layout not in BLOCKS:
        raise RuntimeError(f"{to} for batched inputs is not supported")
    if dense_dim is not None:
        raise RuntimeError(f"{to} with dense_dim argument given is not supported")
    if layout in BLOCKS and x.layout in BLOCKS and blocksize is not None and tuple(blocksize) != own:
        raise RuntimeError(f"{to} with blocksize changed from {list(own)} to {list(blocksize)} is not supported")
    if same:
        return x
    if layout not in BLOCKS and x.layout in BLOCKS:
        raise RuntimeError(
            f"sparse_compressed_to_sparse{suffix(layout)}: expected SparseCsr or SparseCsc layout but got "
            f"{NAMES[x.layout]}"
        )
    found = places(x)
    if layout in BLOCKS and x.layout not in BLOCKS:
        block = _check_block(name, x.layout, layout, x.shape[lead : lead + 2], blocksize)
        found = _gathered(found, block)
    return compressed(found, x.shape, lead, layout, indices(x)[0].dtype)


def to_coordinates(x: torch.Tensor) -> torch.Tensor:
    lead, (high, wide), found = _lead(x), block_of(x), places(x)
    rows, columns, values, matrix = found.rows, found.columns, found.values, found.batch
    if x.layout in BLOCKS:
        inside = torch.arange(high * wide, device=T.here())
        rows = (rows[:, None] * high + inside // wide).reshape(-1)
        columns = (columns[:, None] * wide + inside % wide).reshape(-1)
        matrix, values = matrix.repeat_interleave(high * wide), values.flatten(0, 2)
    lines = []
    for length in reversed(x.shape[:lead]):
        lines.append(matrix % length)
        matrix = matrix // length
    ordered = x.layout is torch.sparse_csr or 0 in x.shape
    return torch.sparse_coo_tensor(
        torch.stack([*lines[::-1], rows, columns]), values, x.shape, is_coalesced=ordered, check_invariants=False
    )
