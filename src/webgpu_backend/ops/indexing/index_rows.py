"""Writing whole slices at a vector of indices: index_add, index_copy, index_fill, index_reduce, and what counts."""

import torch
from torch._prims_common import canonicalize_dim

from ... import tensor as T
from ...plan.outline import not_lasting
from ..overlap import expanded, no_internal_overlap, no_overlap, warn_expanded
from ..pointwise.elementwise import _scalar_name
from ..shape.copy import clone, fill
from ..table import custom
from . import oversize
from .read import INDEX_SIZE, axis
from .scatter import REDUCES, WIDE, apart, both, reduce_into, write


def rows_into(self, dim, index, value, how, op, wraps=False):
    """self[.., index, ..] (how)= value."""
    if not index.numel() or not self.numel():
        return self
    index, value = apart(self, index, value)

    def layout(target):
        shape, strides, steps = list(target.shape), list(target.stride()), [0] * target.dim()
        one = axis(index, (), target.shape[dim], target.stride(dim), op, dim, wraps)
        shape[dim], strides[dim], steps[dim] = index.numel(), 0, index.stride(0) if index.dim() else 0
        return tuple(shape), tuple(strides), [one._replace(strides=tuple(steps))]

    write(how, self, [index], value, layout, index.numel())
    return self


def _check_filled(index: torch.Tensor) -> None:
    if index.dtype is not torch.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index.dim() > 1:
        raise RuntimeError("Index has to be a vector/scalar")


def _check_copied(self, dim: int, index, source) -> None:
    count = index.numel()
    if index.dim() > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index.dim()})")
    if not source.dim() and count != 1:
        raise IndexError(f"index_copy_(): When source is scalar, index should have one element (got {count})")
    if source.dim() != self.dim() and source.dim() and self.dim():
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({source.dim()}), destination dimensionality ({self.dim()})"
        )
    if index.dtype is not torch.int64:
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {_scalar_name(index.dtype)}")
    if self.dtype != source.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{_scalar_name(self.dtype)} and (source) {_scalar_name(source.dtype)}"
        )
    into, of = (" ".join([str(n) for d, n in enumerate(x.shape) if d != dim]) for x in (self, source))
    if into != of:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{into} at dimension {dim} and source slice shape: {of} at dimension {dim}."
        )
    if source.dim() and source.shape[dim] != count:
        raise IndexError(
            f"index_copy_(): Number of indices ({count}) should be equal to source.size(dim) ({source.shape[dim]})"
        )


def _check_joined(op: str, self, dim: int, index, source) -> None:
    """Of index_add and index_reduce."""
    if index.dim() > 1:
        raise IndexError(
            f"{op}_(): Index is supposed to be a vector, but got dim: {index.dim()} with type: "
            f"{_scalar_name(index.dtype)} and size: {list(index.shape)}"
        )
    if index.dtype not in INDEX_SIZE:
        raise RuntimeError(f"{op}_(): Expected dtype int32/int64 for index but got: {_scalar_name(index.dtype)}")
    if self.dtype != source.dtype:
        names = f"self ({_scalar_name(self.dtype)}) and source ({_scalar_name(source.dtype)})"
        raise RuntimeError(f"{op}_(): {names} must have the same scalar type")
    if dim and dim >= source.dim():
        raise RuntimeError(f"{op}_(): Indexing dim {dim} is out of bounds of the source tensor with dim {source.dim()}")
    if index.numel() != (source.shape[dim] if source.dim() else 1):
        source.size(dim)  # which says that there is none
        raise RuntimeError(
            f"{op}_(): Number of indices ({index.numel()}) should be equal to source.size(dim): "
            f"({source.shape[dim]}), for dim: {dim}"
        )
    into, of = list(self.shape), list(source.shape)
    if into and of:
        del into[dim], of[dim]
    if into != of:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got "
            f"self.shape = {list(self.shape)} source.shape = {list(source.shape)}"
        )


def _row_operands(self, dim, index, source, op):
    """Checks torch's rules and gives self and source at least one dimension."""
    dim = canonicalize_dim(max(self.dim(), 1), dim)
    if source is None:
        _check_filled(index)
        return self.reshape(1) if not self.dim() else self, dim, None
    if op == "index_copy":
        _check_copied(self, dim, index, source)
    else:
        _check_joined(op, self, dim, index, source)
    if index.numel() and source.numel() and not self.numel():
        raise IndexError("index out of range in self")
    target = self.reshape(1) if not self.dim() else self
    if not source.dim():
        source = source.reshape([1] * target.dim())
    return target, dim, source


def _check_memory(self, index, source) -> None:
    no_internal_overlap(self)
    no_overlap(self, index, source)


@both("index_add", oversize=(oversize.index_add_, oversize.index_add))
def index_add_(self, dim, index, source, *, alpha=1):
    _check_memory(self, index, source)
    target, dim, source = _row_operands(self, dim, index, source, "index_add")
    if alpha != 1:
        source = source & bool(alpha) if source.dtype is torch.bool else source * alpha
    rows_into(target, dim, index, source, "sum", "index_add")
    return self


@both("index_copy")
def index_copy_(self, dim, index, source):
    _check_memory(self, index, source)
    target, dim, source = _row_operands(self, dim, index, source, "index_copy")
    rows_into(target, dim, index, source, "set", "index_copy")
    return self


def _filled(self, dim, index) -> tuple[torch.Tensor, int]:
    target, dim, _ = _row_operands(self, dim, index, None, "index_fill")
    if expanded(self):
        not_lasting()
        warn_expanded("index_fill_")
    no_overlap(self, index)
    return target, dim


@both("index_fill", ".int_Scalar", copy=clone)
def index_fill_(self, dim, index, value):
    if isinstance(value, complex) and not self.is_complex():
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    target, dim = _filled(self, dim, index)
    rows_into(target, dim, index, value, "set", "index_fill", wraps=True)
    return self


@both("index_fill", ".int_Tensor", copy=clone)
def index_fill_tensor_(self, dim, index, value):
    if value.dim():
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.dim()} dimension(s)."
        )
    if value.is_complex() and not self.is_complex():
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    if value.is_cpu:
        return index_fill_(self, dim, index, value.item())
    target, dim = _filled(self, dim, index)
    shape = [index.numel() if d == dim else s for d, s in enumerate(target.shape)]
    rows_into(target, dim, index, value.to(self.dtype).expand(shape), "set", "index_fill", wraps=True)
    return self


@both("index_reduce")
def index_reduce_(self, dim, index, source, reduce, *, include_self=True):
    _check_memory(self, index, source)
    target, dim, source = _row_operands(self, dim, index, source, "index_reduce")
    if reduce == "sum" or reduce not in REDUCES and reduce != "mean":
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    if index.numel():
        reduce_into(target, source, reduce, include_self,
                lambda into, value, how: rows_into(into, dim, index, value, how, "index_reduce"))  # fmt: skip
    return self


@custom("embedding_dense_backward", oversize=oversize.embedding_backward)
def embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    width = grad_output.shape[-1] if grad_output.dim() else 1
    dtype = grad_output.dtype
    out = fill(T.empty((num_weights, width), torch.float32 if dtype in WIDE else dtype), 0)
    rows = indices.reshape(-1)
    grad = grad_output.reshape(rows.numel(), width)
    if grad.dtype != out.dtype:
        grad = grad.to(out.dtype)
    if scale_grad_by_freq and rows.numel():
        counts = fill(T.empty((num_weights,), torch.float32), 0)
        ones = fill(T.empty((1,), torch.float32), 1).expand(rows.numel())
        rows_into(counts, 0, rows, ones, "sum", "embedding_backward")
        grad = grad / counts.index_select(0, rows).unsqueeze(1)
    rows_into(out, 0, rows, grad, "sum", "embedding_backward")
    if 0 <= padding_idx < num_weights:
        fill(out[padding_idx], 0)
    return out if out.dtype == dtype else out.to(dtype)


@custom("bincount", oversize=oversize.bincount)
def bincount(self, weights=None, minlength=0):
    if self.is_floating_point() or self.is_complex() or self.dtype is torch.bool:
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{_scalar_name(self.dtype)}'")
    if self.dim() != 1:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if weights is not None and weights.shape != self.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    dtype = torch.int64
    if weights is not None:
        dtype = torch.float32 if weights.dtype is torch.float32 else torch.float64
    if not self.numel():
        return fill(T.empty((minlength,), torch.int64), 0)
    least, most = torch.stack(torch.aminmax(self)).to(torch.int64).tolist()
    if least < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    out = fill(T.empty((max(most + 1, minlength),), dtype), 0)
    ones = fill(T.empty((1,), dtype), 1).expand(self.numel()) if weights is None else weights.to(dtype)
    index = self if self.dtype in INDEX_SIZE else self.to(torch.int64)
    return rows_into(out, 0, index, ones, "sum", "bincount")
