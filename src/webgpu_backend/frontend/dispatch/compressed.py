"""Sparse matrices in compressed rows or columns (CSR, CSC), or blocks of them (BSR, BSC): three dense tensors of the
device, the rest is torch's.

Their parts are torch's own code for the CPU, which touches no element. Products and sums are made of the coordinates
that the parts stand for; those of batches, and some of blocks, are refused.
"""

from collections.abc import Callable

import torch

from ... import tensor as T
from ...ops.pointwise.elementwise import _scalar_name
from ...plan.places import placed
from . import layouts, meetings
from .sparse import LEAVE_ZEROS, check_mask, refusal

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


def _coo(x: torch.Tensor) -> torch.Tensor:
    return x if x.layout is torch.sparse_coo else layouts.to_coordinates(x)


def coordinates(matrix: torch.Tensor, name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows, columns and values."""
    if matrix.dim() != 2 or matrix.dense_dim():
        raise refusal(f"batches or dense dimensions of {matrix.layout}", name)
    if matrix.layout in layouts.BLOCKS:
        found = layouts.to_coordinates(matrix)
        return *found._indices().unbind(0), found._values()
    return layouts.places(matrix)[1:]


def _to_dense(self, dtype=None, masked_grad=None):
    return layouts.to_dense(self, dtype)


def _mm(self, mat2):
    if _is(self) and _is(mat2):
        return _of_two(self, mat2).to_sparse_csr()
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


def _of_two(self, mat2) -> torch.Tensor:
    """The product of two sparse matrices, in coordinates."""
    unfit = [x for x in (self, mat2) if x.layout not in _OTHER or x.dim() != 2]
    if unfit:
        raise refusal(f"products of two {unfit[0].layout}", "aten::mm")
    return meetings.matmul(*[layouts.to_coordinates(x) for x in (self, mat2)])


def _addmm(self, mat1, mat2, *, beta=1, alpha=1):
    if _is(mat1) and _is(mat2):
        product = _of_two(mat1, mat2) * alpha
        if not _is(self):
            return product.to_dense() if beta == 0 else torch.add(self * beta, product)
        product = product if beta == 0 else product + _coo(self) * beta
        return product.to_sparse_csr()
    if _is(self):
        kinds = [layouts.NAMES[x.layout] for x in (self, mat1, mat2)]
        raise RuntimeError(f"addmm: computation on webgpu is not implemented for {kinds[0]} + {kinds[1]} @ {kinds[2]}")
    product = _mm(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (self if beta == 1 else self * beta)


def _mv(self, vec):
    return _mm(self, vec.unsqueeze(1)).squeeze(1)


def _mm_reduce(self, other, reduce):
    """The product with its sums exchanged for means, largest or smallest terms; of these also which one it was, where a
    gradient will ask for it."""
    reduce = _check_mm_reduce(self, other, reduce)
    rows, columns, values = coordinates(self, "aten::_sparse_mm_reduce_impl")
    kind, count = self.col_indices().dtype, len(values)
    values, wide = _wide(values), _wide(other)
    out = torch.zeros((self.shape[0], other.shape[1]), dtype=wide.dtype, device=T.here())
    which = torch.empty(0, dtype=kind, device=T.here())
    if not count:
        return out.to(other.dtype), which
    terms = wide.index_select(0, columns) * values.unsqueeze(1)
    if reduce in ("sum", "mean"):
        out = _mean_of(self, out.index_add_(0, rows, terms), reduce)
        return out.to(other.dtype), which
    out.index_reduce_(0, rows, terms, reduce, include_self=False)
    if torch.is_grad_enabled() and (self.requires_grad or other.requires_grad):
        chosen = (terms == out[rows]) | terms.isnan()
        places = torch.arange(count, device=T.here()).unsqueeze(1).where(chosen, count)
        which = torch.full(out.shape, count, device=T.here()).index_reduce_(0, rows, places, "amin").to(kind)
    return out.to(other.dtype), which


def _mm_reduce_backward(self, grad_out, weight, reduce, arg_out, output_mask):
    rows, columns, values = coordinates(self, "aten::_sparse_mm_reduce_impl_backward")
    values, weight, grad = _wide(values), _wide(weight), _wide(grad_out)
    of_self, of_other = torch.zeros_like(values), torch.zeros_like(weight)
    if len(values) and reduce in ("sum", "mean"):
        grad = _mean_of(self, grad, reduce).index_select(0, rows)
        if output_mask[0]:
            of_self = (grad * weight.index_select(0, columns)).sum(1)
        if output_mask[1]:
            of_other.index_add_(0, columns, grad * values.unsqueeze(1))
    elif len(values):  # a row without elements has no term that was chosen
        chosen = arg_out.long().clamp(max=len(values) - 1)
        grad = grad.where(arg_out < len(values), 0)
        place = columns.long()[chosen]
        if output_mask[0]:
            of_self.index_add_(0, chosen.view(-1), (grad * weight.gather(0, place)).view(-1))
        if output_mask[1]:
            of_other.scatter_add_(0, place, grad * values[chosen])
    return (
        _with_values(self, of_self.to(self.dtype)) if output_mask[0] else None,
        of_other.to(grad_out.dtype) if output_mask[1] else None,
    )


def _wide(x: torch.Tensor) -> torch.Tensor:
    """What terms are made and added in: those of 16 bits are rounded at the end."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _mean_of(self, sums, reduce: str) -> torch.Tensor:
    return sums if reduce == "sum" else sums / self.crow_indices().diff().clamp_(min=1).unsqueeze(1)


def _check_mm_reduce(self, other, reduce: str) -> str:
    """What the CPU refuses, and the reduction by one of its names."""
    name = "sparse_mm_reduce"
    if self.layout is not torch.sparse_csr:
        raise RuntimeError(f"{name}: expect self to be SparseCsr, got {layouts.NAMES[self.layout]}")
    if self.dim() != 2:
        raise RuntimeError(f"{name}: expected self to be a 2-D tensor, got {self.dim()}-D tensor.")
    if _is(other):
        kind = layouts.NAMES[other.layout]
        raise RuntimeError(f"Expected tensor to have Strided Layout, but got tensor with {kind} Layout (in {name})")
    if other.dtype != self.dtype:
        kinds = f"{_scalar_name(self.dtype)}; but got {_scalar_name(other.dtype)}"
        raise RuntimeError(f"Expected tensor for argument #1 'other' to have scalar type {kinds} instead (in {name})")
    if other.dim() != 2 or other.shape[0] != self.shape[1]:
        raise RuntimeError(
            f"Expected a tensor of dimension 2 and tensor.size[0] == {self.shape[1]} but got: dimension {other.dim()} "
            f"and tensor.size[0] = {other.shape[0] if other.dim() else 1}"
        )
    if reduce == "prod":
        raise RuntimeError(f"{name}: reduce type of prod has not been enabled.")
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce not in ("sum", "mean", "amax", "amin"):
        raise RuntimeError("reduce argument must be either sum, prod, mean, amax or amin, got " + reduce)
    return reduce


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


def _as(like, found):
    """What was computed in coordinates, in another's layout."""
    convert = getattr(found, f"to_sparse{layouts.suffix(like.layout)}")
    return convert(layouts.block_of(like)) if like.layout in layouts.BLOCKS else convert()


def _mul(self, other):
    """What is at the places that both have."""
    if not _is(self):
        self, other = other, self
    if not isinstance(other, torch.Tensor) or not other.dim() and not _is(other):
        return _with_values(self, self.values() * other)
    if not _is(other):
        check_mask(other, self)
        return _with_values(self, self.values() * layouts.at(other, self))
    if self.layout is torch.sparse_coo:
        raise RuntimeError("Expected result Tensor to be of format CSR")
    return _as(self, layouts.to_coordinates(self) * _coo(other))


def _add(self, other, *, alpha=1):
    """In coordinates; of a dense tensor and a compressed one it is dense."""
    if not _is(self):
        return torch.add(self, layouts.to_coordinates(other), alpha=alpha)
    if not _is(other):
        dense = torch.as_tensor(other, device=T.here()) * alpha
        return torch.add(dense, layouts.to_coordinates(self))
    if self.layout is not other.layout:
        raise RuntimeError(
            f"add: expected both tensors to have one layout, but got {layouts.NAMES[self.layout]} and "
            f"{layouts.NAMES[other.layout]}"
        )
    return _as(self, torch.add(*[layouts.to_coordinates(x).coalesce() for x in (self, other)], alpha=alpha))


def _div(self, other):
    if not _is(self) or (isinstance(other, torch.Tensor) and (_is(other) or other.dim())):
        raise refusal("quotients of compressed sparse", "aten::div.Tensor")
    return _with_values(self, self.values() / other)


def _sampled_addmm(self, mat1, mat2, *, beta=1, alpha=1):
    """The elements of a dense product at a sparse matrix's places, and that matrix."""
    name = "sampled_addmm"
    for which, x in (("mat1", mat1), ("mat2", mat2)):
        if _is(x):
            raise RuntimeError(f"{name}: Expected {which} to have strided layout, but got {layouts.NAMES[x.layout]}")
    for which, x, y in (("mat1 and mat2", mat1, mat2), ("mat1 and self", mat1, self)):
        if x.dtype != y.dtype:
            kinds = f"{_scalar_name(x.dtype)} and {_scalar_name(y.dtype)}"
            raise RuntimeError(f"{name}: Expected {which} to have the same dtype, but got {kinds}")
    for which, x in (("mat1", mat1), ("mat2", mat2)):
        if x.dim() < 2:
            raise RuntimeError(f"{name}: Expected {which} to be a matrix, got {x.dim()}-D tensor")
    (m, k), (rows, n) = mat1.shape[-2:], mat2.shape[-2:]
    if k != rows:
        raise RuntimeError(f"{name}: mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {rows}x{n})")
    for d, size, which in ((-2, m, "mat1"), (-1, n, "mat2")):
        if self.shape[d] != size:
            raise RuntimeError(f"{name}: self.shape[{d}] must match {which}.shape[{d}]")
    if self.dim() == mat1.dim() == mat2.dim() == 2 and self._nnz() * k < m * n:
        rows, columns, _ = coordinates(self, "aten::sparse_sampled_addmm")
        product = (mat1[rows] * mat2.t()[columns]).sum(1, dtype=mat1.dtype)
    else:
        dense = mat1 @ mat2
        if dense.dim() > self.dim():
            raise refusal("batches of products at the places of one compressed sparse", "aten::sparse_sampled_addmm")
        product = layouts.at(dense.expand(self.shape), self)
    product = product if alpha == 1 else product * alpha
    return _with_values(self, product if beta == 0 else product + self.values() * beta)


def _empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """Without elements."""
    if layout not in _OTHER:
        raise RuntimeError(
            f"empty_sparse_compressed expected sparse compressed (non-block) tensor layout but got "
            f"{layouts.NAMES[layout]}"
        )
    if len(size) < 2:
        raise RuntimeError(
            f"torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got size {list(size)}"
        )
    lines = size[-2 if layout is torch.sparse_csr else -1]
    ends = torch.zeros((*size[:-2], lines + 1), dtype=torch.int64, device=T.here())
    inner = torch.zeros((*size[:-2], 0), dtype=torch.int64, device=T.here())
    values = torch.zeros((*size[:-2], 0), dtype=dtype or torch.get_default_dtype(), device=T.here())
    return torch.sparse_compressed_tensor(ends, inner, values, size, layout=layout, check_invariants=False)


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
    check_mask(self, mask)
    if self.layout is torch.strided:
        return _with_values(mask, layouts.at(self, mask))
    return _with_values(mask, meetings.matched(_coo(self), layouts.to_coordinates(mask)).view(mask.values().shape))


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


def _of_values(function: Callable) -> Callable:
    return lambda self: _with_values(self, function(self.values()))


def _empty_like(self, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    dtype, layout = dtype or self.dtype, layout or self.layout
    if layout is torch.strided:
        return torch.empty(self.shape, dtype=dtype, device=T.here())
    if layout is not self.layout:
        raise refusal(f"{layout} tensors like {self.layout}", "aten::empty_like")
    ends, inner = (x.clone() for x in layouts.indices(self))
    values = torch.empty_like(self.values(), dtype=dtype)
    return torch.sparse_compressed_tensor(ends, inner, values, self.shape, layout=layout, check_invariants=False)


_KERNELS: dict[str, Callable] = {
    "_to_sparse": _to_sparse,
    "_to_sparse.sparse_dim": _to_sparse_dim,
    **{f"_to_sparse{layouts.suffix(layout)}": layouts.kernel(layouts.convert, layout) for layout in layouts.COMPRESSED},
    "sparse_mask": _sparse_mask,
    "_to_dense": _to_dense,
    "mm": _mm,
    "addmm": _addmm,
    "mv": _mv,
    "_sparse_mm_reduce_impl": _mm_reduce,
    "_sparse_mm_reduce_impl_backward": _mm_reduce_backward,
    "transpose.int": _transpose,
    "clone": lambda self, *, memory_format=None: _with_values(self, self.values().clone()),
    **{name: _of_values(getattr(aten, name)) for name in (*LEAVE_ZEROS, "angle")},
    "add.Tensor": _add,
    "sub.Tensor": lambda self, other, *, alpha=1: _add(self, other, alpha=-alpha),
    "select.int": lambda self, dim, index: layouts.to_coordinates(self).select(dim, index),
    "mul.Tensor": _mul,
    "div.Tensor": _div,
    "sparse_sampled_addmm": _sampled_addmm,
    "_conj_physical": _of_values(aten.conj_physical),
    "empty.memory_format": _empty,
    "empty_like": _empty_like,
    "sum": lambda self, *, dtype=None: self.values().sum(dtype=dtype),
    "sum.dim_IntList": _sum,
    "normal_": _normal,
    "_sparse_csr_sum.dim_dtype": _reduced("sum"),
    "_sparse_csr_prod.dim_dtype": _reduced("prod"),
}
