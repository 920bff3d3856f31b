"""Matrix products with sparse tensors in coordinates: a row of the dense matrix for each value, added to a row of the
result."""

import torch

from ... import tensor as T
from ...ops.pointwise.elementwise import _scalar_name
from .sparse import _make, _make_empty, _put, kernel, refusal

aten = torch.ops.aten


def _check_dtype(wanted: torch.dtype, got: torch.dtype) -> None:
    if wanted != got:
        raise RuntimeError(f"expected scalar type {_scalar_name(wanted)} but found {_scalar_name(got)}")


def _rows(count: int, rows, columns, values, dense) -> torch.Tensor:
    """So many rows, each the sum of values times rows of the dense matrix."""
    _check_dtype(values.dtype, dense.dtype)
    out = torch.zeros((count, dense.shape[1]), dtype=values.dtype, device=T.here())
    return out.index_add_(0, rows, dense.index_select(0, columns) * values.unsqueeze(1))


@kernel("mm")
def _mm(self, mat2):
    """Of two sparse matrices it is sparse."""
    if self.is_sparse and mat2.is_sparse:
        return aten._sparse_sparse_matmul(self, mat2)
    sparse = self if self.is_sparse else mat2
    if sparse.dense_dim():
        raise refusal("products of matrices with dense dimensions and other sparse", "aten::mm")
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(f"mm: Argument #3: Expected dim 0 size {self.shape[1]}, got {mat2.shape[0]}")
    rows, columns = sparse._indices().unbind(0)
    if self.is_sparse:
        return _rows(self.shape[0], rows, columns, self._values(), mat2)
    out = torch.zeros((self.shape[0], mat2.shape[1]), dtype=sparse.dtype, device=T.here())
    return out.index_add_(1, columns, self.index_select(1, rows) * mat2._values())


@kernel("mv")
def _mv(self, vec):
    if self.dim() != 2 or vec.dim() != 1:
        raise RuntimeError(
            f"mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: {self.dim()}Tensor Dim: {vec.dim()}"
        )
    if self.shape[-1] != vec.shape[-1]:
        raise RuntimeError("mv: expected self.size(-1) == vec.size(-1)")
    return _mm(self, vec.unsqueeze(1)).squeeze(1)


@kernel("addmm")
def _addmm(self, mat1, mat2, *, beta=1, alpha=1):
    product = _mm(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (self if beta == 1 else self * beta)


@kernel("bmm")
def _bmm(self, mat2):
    """As one product of matrices that lie along a diagonal."""
    if mat2.is_sparse:
        raise RuntimeError("bmm_sparse: Tensor 'mat2' must be dense")
    if self.dense_dim():
        raise RuntimeError(f"bmm_sparse: Tensor 'self' must have 0 dense dims, but has {self.dense_dim()}")
    if self.dim() != 3:
        raise RuntimeError(f"bmm_sparse: Tensor 'self' must have 3 sparse dims, but has {self.dim()}")
    if mat2.dim() != 3:
        raise RuntimeError(f"bmm_sparse: Tensor 'mat2' must have 3 dims, but has {mat2.dim()}")
    for mine, other in ((0, 0), (2, 1)):
        if self.shape[mine] != mat2.shape[other]:
            raise RuntimeError(f"bmm_sparse: 'self.size({mine})' and 'mat2.size({other})' must match")
    batches, rows, inner = self.shape
    batch, row, column = self._indices().unbind(0)
    flat = mat2.reshape(batches * inner, mat2.shape[2])
    out = _rows(batches * rows, batch * rows + row, batch * inner + column, self._values(), flat)
    return out.view(batches, rows, mat2.shape[2])


@kernel("bmm.out")
def _bmm_out(self, mat2, *, out):
    made = _bmm(self, mat2)
    _check_dtype(made.dtype, out.dtype)
    return out.resize_(made.shape).copy_(made)


@kernel("hspmm")
def _hspmm(mat1, mat2):
    return _filled_rows("hspmm", mat1, mat2)


def _filled_rows(name: str, mat1, mat2):
    """The rows of a product that are not empty, as a tensor with one sparse dimension and one dense."""
    for place, matrix in ((2, mat1), (3, mat2)):
        if matrix.dim() != 2:
            raise RuntimeError(f"{name}: Argument #{place}: matrices expected, got {matrix.dim()}D tensor")
    if mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(f"{name}: Argument #3: Expected dim 0 size {mat1.shape[1]}, got {mat2.shape[0]}")
    if mat1.dense_dim():
        raise refusal("products of matrices with dense dimensions and other sparse", f"aten::{name}")
    mat1 = mat1.coalesce()
    rows, columns = mat1._indices().unbind(0)
    some, place = rows.unique_consecutive(return_inverse=True)
    values = _rows(len(some), place, columns, mat1._values(), mat2)
    size = [mat1.shape[0], mat2.shape[1]]
    return _make(1, 1, size, some.unsqueeze(0), values, layout=torch.sparse_coo)


@kernel("hspmm.out")
def _hspmm_out(mat1, mat2, *, out):
    return _put(out, _hspmm(mat1, mat2))


@kernel("sspaddmm.out")
def _sspaddmm(self, mat1, mat2, *, beta=1, alpha=1, out):
    """The elements of a sparse matrix, then those of a product's rows that are not empty."""
    for name, matrix in (("self", self), ("mat1", mat1)):
        if not matrix.is_sparse:
            raise RuntimeError(
                f"sspaddmm: expected '{name}' to have sparse layout, got '{name}' with layout {matrix.layout}"
            )
    product = _filled_rows("sspaddmm", mat1, mat2)
    if self is out and not self.numel():  # as smm calls it
        self = _make_empty(2, 0, list(product.shape), dtype=product.dtype, layout=torch.sparse_coo)
    for d, size in enumerate(product.shape):
        if self.shape[d] != size:
            raise RuntimeError(f"sspaddmm: Argument #1: Expected dim {d} size {size}, got {self.shape[d]}")
    rows, columns = product._indices()[0], torch.arange(product.shape[1], device=T.here())
    places = torch.stack([rows.repeat_interleave(len(columns)), columns.repeat(len(rows))])
    indices = torch.cat([self._indices(), places], 1)
    values = torch.cat([self._values() * beta, product._values().flatten() * alpha])
    return _put(out, _make(2, 0, list(self.shape), indices, values, layout=torch.sparse_coo))
