"""Sparse matrices in compressed rows or columns (CSR, CSC), or blocks of them (BSR, BSC): three dense tensors of the
device, the rest is torch's.

Their parts are torch's own code for the CPU, which touches no element. Products and sums are made of the coordinates
that the parts stand for; those of blocks and batches are refused.
"""

from collections.abc import Callable

import torch

from ... import tensor as T
from ...plan.places import placed
from . import layouts
from .sparse import refusal

aten = torch.ops.aten
_CPU = torch._C.DispatchKey.SparseCsrCPU
_KEY = "SparseCsrPrivateUse1"
_PARTS = (
    "crow_indices", "col_indices", "ccol_indices", "row_indices", "values", "_nnz", "sparse_dim", "dense_dim",
)  # fmt: skip


def register(library: torch.library.Library) -> None:
    for name in _PARTS:
        op = getattr(aten, name).default
        library.impl(op, _of_the_cpu(op), _KEY)
    for name, kernel in _KERNELS.items():
        library.impl(name, placed(kernel, name), _KEY)


def _of_the_cpu(op):
    return lambda *args, **kwargs: op._op_dk(_CPU, *args, **kwargs)


def _is(x) -> bool:
    return isinstance(x, torch.Tensor) and x.layout is not torch.strided


def coordinates(matrix: torch.Tensor, name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows, columns and values."""
    if matrix.dim() != 2 or matrix.dense_dim() or matrix.layout in layouts.BLOCKS:
        raise refusal(f"{matrix.layout} (batches, blocks)", name)
    return layouts.places(matrix)[1:]


def _to_dense(self, dtype=None, masked_grad=None):
    return layouts.to_dense(self, dtype)


def _mm(self, mat2):
    if _is(self) and _is(mat2):
        raise refusal("products of two compressed sparse", "aten::mm")
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({self.shape[0]}x{self.shape[1]} and "
            f"{mat2.shape[0]}x{mat2.shape[1]})"
        )
    out = torch.zeros((self.shape[0], mat2.shape[1]), dtype=mat2.dtype, device=T.here())
    if _is(self):
        rows, columns, values = coordinates(self, "aten::mm")
        return out.index_add_(0, rows, mat2.index_select(0, columns) * values.unsqueeze(1))
    rows, columns, values = coordinates(mat2, "aten::mm")
    return out.index_add_(1, columns, self.index_select(1, rows) * values)


def _addmm(self, mat1, mat2, *, beta=1, alpha=1):
    if _is(self):
        raise refusal("sums of compressed sparse", "aten::addmm")
    product = _mm(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (self if beta == 1 else self * beta)


def _mv(self, vec):
    return _mm(self, vec.unsqueeze(1)).squeeze(1)


def _with_values(self, values):
    return torch.sparse_compressed_tensor(
        *layouts.indices(self), values, self.shape, layout=self.layout, check_invariants=False
    )


_OTHER = {torch.sparse_csr: torch.sparse_csc, torch.sparse_csc: torch.sparse_csr}


def _transpose(self, dim0, dim1):
    if self.dim() != 2 or self.layout not in _OTHER:
        raise refusal(f"{self.layout} (batches, blocks)", "aten::transpose")
    if dim0 % 2 == dim1 % 2:
        return self
    return torch.sparse_compressed_tensor(
        *layouts.indices(self), self.values(), self.shape[::-1], layout=_OTHER[self.layout], check_invariants=False
    )


def _scaled(name: str, function) -> Callable:
    def scale(self, other):
        if not _is(self) or (isinstance(other, torch.Tensor) and (_is(other) or other.dim())):
            raise refusal("products of compressed sparse", f"aten::{name}.Tensor")
        return _with_values(self, function(self.values(), other))

    return scale


def _to_sparse(self, *, layout=None, blocksize=None, dense_dim=None):
    if layout not in (None, torch.sparse_coo):
        return layouts.convert(self, layout, blocksize, dense_dim)
    if dense_dim is not None:
        raise RuntimeError(
            f"sparse_compressed_to_sparse: conversion from {layouts.NAMES[self.layout]} to Sparse with dense_dim "
            "argument given is not supported"
        )
    return layouts.to_coordinates(self)


def _to_sparse_dim(self, sparse_dim):
    if sparse_dim != 2:
        raise RuntimeError(
            f"sparse_compressed_to_sparse: conversion from {layouts.NAMES[self.layout]} to Sparse with sparse_dim "
            "argument !=2 is not supported"
        )
    return layouts.to_coordinates(self)


def _sparse_mask(self, mask):
    """The elements of self at the places that a mask names."""
    if self.layout is not torch.strided or self.shape != mask.shape:
        raise refusal("masks of compressed sparse", "aten::sparse_mask")
    return _with_values(mask, layouts.at(self, mask))


def _reduced(name: str) -> Callable:
    """Sums or products of what is there, of rows, columns or all; where nothing is, there is nothing after it."""
    join = {"sum": torch.add, "prod": torch.mul}[name]

    def reduce(self, dim, keepdim=False, *, dtype=None):
        if not keepdim:
            raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
        if self.dtype is torch.bool:
            raise NotImplementedError(f"\"_sparse_csr_{name}_cpu\" not implemented for 'Bool'")
        rows, columns, values = coordinates(self, f"aten::_sparse_csr_{name}")
        floating = values.is_floating_point() or values.is_complex()
        values = values.to(dtype or (values.dtype if floating else torch.int64))
        over, kind = {d % 2 for d in dim} or {0, 1}, self.crow_indices().dtype
        if over == {0, 1}:
            rows = torch.zeros_like(rows)
        found, place = torch.unique(columns if over == {0} else rows, return_inverse=True)
        order = place.argsort(stable=True)
        size = [1 if d in over else n for d, n in enumerate(self.shape)]
        ends = layouts.ends_of(torch.zeros_like(found) if 0 in over else found, size[0])
        inner = found if over == {0} else torch.zeros_like(found)
        values = _joined(place[order], values[order], len(found), join)
        return torch.sparse_csr_tensor(ends.to(kind), inner.to(kind), values, size, check_invariants=False)

    return reduce


def _joined(place, values, count: int, join: Callable) -> torch.Tensor:
    """One value for each of `count` places, whose values follow one another: neighbours are joined until one is left,
    in any dtype, with no more memory for places that have many."""
    while len(place) > count:
        within = torch.arange(len(place), device=T.here()) - layouts.ends_of(place, count)[place]
        first = (within % 2 == 0).nonzero().squeeze(1)
        second = (first + 1).clamp_(max=len(place) - 1)
        pairs = (second > first) & (place[second] == place[first])
        values = torch.where(pairs, join(values[first], values[second]), values[first])
        place = place[first]
    return values


def _sum(self, dim=None, keepdim=False, *, dtype=None):
    if self.layout is not torch.sparse_csr:
        got = layouts.NAMES[self.layout]
        raise RuntimeError(
            f"Currently the only compressed sparse format supported for sum.dim_IntList is CSR, but got layout {got}"
        )
    return aten._sparse_csr_sum.dim_dtype(self, dim or (), keepdim, dtype=dtype)


def _normal(self, mean=0.0, std=1.0, *, generator=None):
    self.values().normal_(mean, std, generator=generator)
    return self


_KERNELS: dict[str, Callable] = {
    "_to_sparse": _to_sparse,
    "_to_sparse.sparse_dim": _to_sparse_dim,
    **{f"_to_sparse{layouts.suffix(layout)}": layouts.kernel(layouts.convert, layout) for layout in layouts.COMPRESSED},
    "sparse_mask": _sparse_mask,
    "_to_dense": _to_dense,
    "mm": _mm,
    "addmm": _addmm,
    "mv": _mv,
    "transpose.int": _transpose,
    "clone": lambda self, *, memory_format=None: _with_values(self, self.values().clone()),
    "neg": lambda self: _with_values(self, -self.values()),
    "mul.Tensor": _scaled("mul", torch.mul),
    "div.Tensor": _scaled("div", torch.div),
    "sum": lambda self, *, dtype=None: self.values().sum(dtype=dtype),
    "sum.dim_IntList": _sum,
    "normal_": _normal,
    "_sparse_csr_sum.dim_dtype": _reduced("sum"),
    "_sparse_csr_prod.dim_dtype": _reduced("prod"),
}
