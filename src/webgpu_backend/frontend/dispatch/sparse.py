"""Sparse tensors in coordinates (COO): indices and values are dense tensors of the device, the rest is torch's.

What only looks at a sparse tensor's parts is torch's own code for the CPU, which touches no element. Compressed rows
and columns have a module of their own; blocks and operators that are not here are refused in words.
"""

from collections.abc import Callable
from functools import partial

import torch

from ... import tensor as T
from ...plan.places import placed

aten = torch.ops.aten
_CPU, _SPARSE_CPU = torch._C.DispatchKey.CPU, torch._C.DispatchKey.SparseCPU
_PARTS = (
    "_indices", "_values", "_nnz", "sparse_dim", "dense_dim", "is_coalesced", "_coalesced_", "indices", "values",
    "_dimI", "_dimV",
)  # fmt: skip
_KERNELS: dict[str, Callable] = {}


def register(library: torch.library.Library) -> None:
    for name in _PARTS:
        op = getattr(aten, name).default
        library.impl(op, _of_the_cpu(op), "SparsePrivateUse1")
    for name, kernel in _KERNELS.items():
        library.impl(name, placed(kernel, name), "SparsePrivateUse1")
    for name in ("_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets"):
        # Strided nested tensors are refused, but autograd asks for these where an exception ends the process.
        op = getattr(aten, name).default
        library.impl(op, partial(op._op_dk, torch._C.DispatchKey.NestedTensorCPU), "NestedTensorPrivateUse1")
    library.impl("_to_sparse", placed(to_sparse, "_to_sparse"), "PrivateUse1")
    library.impl("_to_sparse.sparse_dim", placed(to_sparse_dim, "_to_sparse"), "PrivateUse1")
    for name in ("_to_sparse_bsr", "_to_sparse_bsc"):
        library.impl(name, _refused(f"aten::{name}"), "PrivateUse1")


def refusal(kind: str, name: str) -> NotImplementedError:
    return NotImplementedError(
        f"webgpu: {kind} tensors are not supported ({name}); keep them on the CPU, or use dense tensors"
    )


def _refused(name: str):
    def kernel(*args, **kwargs):
        raise refusal("compressed sparse", name)

    return kernel


def _of_the_cpu(op):
    return lambda *args, **kwargs: op._op_dk(_SPARSE_CPU, *args, **kwargs)


def kernel(*names: str):
    def register(function: Callable) -> Callable:
        _KERNELS.update(dict.fromkeys(names, function))
        return function

    return register


@kernel("_sparse_coo_tensor_with_dims_and_tensors")
def _make(sparse_dim, dense_dim, size, indices, values, *, dtype=None, layout=None, device=None, pin_memory=None,
          is_coalesced=None):  # fmt: skip
    return aten._sparse_coo_tensor_with_dims_and_tensors.default._op_dk(
        _SPARSE_CPU, sparse_dim, dense_dim, size, indices, values, dtype=dtype or values.dtype, layout=layout,
        device=T.here(), pin_memory=pin_memory, is_coalesced=is_coalesced,
    )  # fmt: skip


@kernel("_sparse_coo_tensor_with_dims")
def _make_empty(sparse_dim, dense_dim, size, *, dtype=None, layout=None, device=None, pin_memory=None):
    dtype = dtype or torch.get_default_dtype()
    indices = torch.empty((sparse_dim, 0), dtype=torch.int64, device=T.here())
    values = torch.empty((0, *size[sparse_dim:]), dtype=dtype, device=T.here())
    return _make(sparse_dim, dense_dim, size, indices, values, layout=layout)


@kernel("empty.memory_format")
def _empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return _make_empty(len(size), 0, size, dtype=dtype, layout=layout)


def _with(like, indices, values, size=None, coalesced=None):
    """A sparse tensor with as many sparse dimensions as another."""
    lead = like.sparse_dim()
    size = list(like.shape) if size is None else size
    return _make(lead, len(size) - lead, size, indices, values, layout=torch.sparse_coo, is_coalesced=coalesced)


# -- to and from dense tensors


def to_sparse(self, *, layout=None, blocksize=None, dense_dim=None):
    if layout not in (None, torch.sparse_coo):
        raise refusal(str(layout), "aten::_to_sparse")
    return aten._to_sparse.default._op_dk(_CPU, self, layout=layout, blocksize=blocksize, dense_dim=dense_dim)


def to_sparse_dim(self, sparse_dim):
    return aten._to_sparse.sparse_dim._op_dk(_CPU, self, sparse_dim)


@kernel("_to_dense")
def _to_dense(self, dtype=None, masked_grad=None):
    indices, values = self._indices(), self._values()
    if not self.sparse_dim():
        out = values.sum(0).to(values.dtype)
    else:
        out = torch.zeros(self.shape, dtype=values.dtype, device=T.here())
        if values.numel():
            out.index_put_(tuple(indices.unbind(0)), values, accumulate=True)
    return out if dtype is None else out.to(dtype)


@kernel("sparse_mask")
def _sparse_mask(self, mask):
    """The elements of self at the places that a mask names."""
    dense = self.to_dense() if self.is_sparse else self
    if not mask.is_sparse:
        raise refusal("dense masks of sparse", "aten::sparse_mask")
    indices = mask._indices()
    values = dense[tuple(indices.unbind(0))] if len(indices) else dense.expand(mask._values().shape).clone()
    return _with(mask, indices, values, coalesced=mask.is_coalesced())


@kernel("_coalesce")
def _coalesce(self):
    """Each place once, in order, with the sum of what was there."""
    indices, values = self._indices(), self._values()
    if self._nnz() < 2:
        return _with(self, indices, values, coalesced=True)
    flat = torch.zeros(indices.shape[1], dtype=torch.int64, device=T.here())
    for d in range(self.sparse_dim()):
        flat = flat * self.shape[d] + indices[d]
    places, at = torch.unique(flat, return_inverse=True)
    sums = torch.zeros((len(places), *values.shape[1:]), dtype=values.dtype, device=T.here()).index_add_(0, at, values)
    kept = []
    for size in reversed(self.shape[: self.sparse_dim()]):
        kept.append(places % size)
        places = places // size
    indices = torch.stack(kept[::-1]) if kept else indices[:, :1]
    return _with(self, indices, sums, coalesced=True)


@kernel("clone")
def _clone(self, *, memory_format=None):
    return _with(self, self._indices().clone(), self._values().clone(), coalesced=self.is_coalesced())


@kernel("t")
def _t(self):
    return _transpose(self, 0, 1) if self.dim() > 1 else self.clone()


@kernel("transpose.int")
def _transpose(self, dim0, dim1):
    dim0, dim1 = dim0 % self.dim(), dim1 % self.dim()
    if max(dim0, dim1) >= self.sparse_dim():
        raise refusal("transposed dense dimensions of sparse", "aten::transpose")
    order, size = list(range(self.sparse_dim())), list(self.shape)
    order[dim0], order[dim1] = dim1, dim0
    size[dim0], size[dim1] = size[dim1], size[dim0]
    return _with(self, self._indices()[order], self._values(), size)


# -- arithmetic


@kernel("add.Tensor")
def _add(self, other, *, alpha=1):
    if not self.is_sparse:
        return _add_(self.clone(), other, alpha=alpha)
    if not other.is_sparse or self.shape != other.shape or self.sparse_dim() != other.sparse_dim():
        raise refusal("sums of sparse and dense", "aten::add.Tensor")
    values = torch.cat([self._values(), other._values() * alpha])
    both = _with(self, torch.cat([self._indices(), other._indices()], 1), values)
    return _coalesce(both) if self.is_coalesced() and other.is_coalesced() else both


@kernel("add_.Tensor")
def _add_(self, other, *, alpha=1):
    if self.is_sparse and other.is_sparse:  # a gradient that is accumulated
        return aten.copy_sparse_to_sparse_.default._op_dk(_SPARSE_CPU, self, _add(self, other, alpha=alpha))
    if self.is_sparse or not other.is_sparse:
        raise refusal("changed sparse", "aten::add_.Tensor")
    values = other._values().to(self.dtype)
    values = values if alpha == 1 else values * alpha
    if other.sparse_dim() == 0:
        return self.add_(values.sum(0))
    return self.index_put_(tuple(other._indices().unbind(0)), values, accumulate=True) if values.numel() else self


def _scaled(name: str, function) -> Callable:
    def scale(self, other):
        if not self.is_sparse or (isinstance(other, torch.Tensor) and (other.is_sparse or other.dim())):
            raise refusal("products of sparse", f"aten::{name}.Tensor")
        values = function(self._values(), other)
        return _with(self, self._indices(), values, coalesced=self.is_coalesced())

    return scale


kernel("mul.Tensor")(_scaled("mul", torch.mul))
kernel("div.Tensor")(_scaled("div", torch.div))


@kernel("neg")
def _neg(self):
    return _with(self, self._indices(), -self._values(), coalesced=self.is_coalesced())


@kernel("mm")
def _mm(self, mat2):
    """A sparse matrix and a dense one: a row of the dense one for each value, added to a row of the result; or a
    column."""
    sparse = self if self.is_sparse else mat2
    if (self.is_sparse and mat2.is_sparse) or sparse.dense_dim():
        raise refusal("products of two sparse", "aten::mm")
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(f"mm: Argument #3: Expected dim 0 size {self.shape[1]}, got {mat2.shape[0]}")
    rows, columns = sparse._indices().unbind(0)
    out = torch.zeros((self.shape[0], mat2.shape[1]), dtype=sparse.dtype, device=T.here())
    if self.is_sparse:
        return out.index_add_(0, rows, mat2.index_select(0, columns) * self._values().unsqueeze(1))
    return out.index_add_(1, columns, self.index_select(1, rows) * mat2._values())


@kernel("mv")
def _mv(self, vec):
    return _mm(self, vec.unsqueeze(1)).squeeze(1)


@kernel("addmm")
def _addmm(self, mat1, mat2, *, beta=1, alpha=1):
    product = _mm(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (self if beta == 1 else self * beta)
