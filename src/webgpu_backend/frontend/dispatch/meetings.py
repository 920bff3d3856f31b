"""Operators on sparse tensors in coordinates whose elements meet others by their places: rows that are chosen, products
of two, softmax, and what a sum hands back."""

import torch

from ... import tensor as T
from ...ops.pointwise.elementwise import _scalar_name
from ...ops.reduce.reduction import normal_dims
from .sparse import _coalesce, _make, _with, flat, kernel


def meeting(wanted: torch.Tensor, there: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """All i and j for which wanted[i] is there[j], in the order of i, then of j."""
    values, order = there.sort(stable=True)
    first = torch.searchsorted(values, wanted)
    count = torch.searchsorted(values, wanted, right=True) - first
    i = torch.arange(len(wanted), device=T.here()).repeat_interleave(count)
    within = torch.arange(len(i), device=T.here()) - (count.cumsum(0) - count)[i]
    return i, order[first[i] + within]


def _dimension(dim: int, count: int) -> int:
    return next(iter(normal_dims(dim, count)), 0)


def matched(self, like, dims=None) -> torch.Tensor:
    """The values of self at the places of another, by these of its sparse dimensions; 0 where there are none."""
    self = self.coalesce()
    mine, wanted, values = flat(self), flat(like, dims), self._values()
    if not len(mine):
        return torch.zeros((len(wanted), *values.shape[1:]), dtype=values.dtype, device=T.here())
    at = torch.searchsorted(mine, wanted).clamp_(max=len(mine) - 1)
    found = (mine[at] == wanted).view(-1, *[1] * (values.dim() - 1))
    return torch.where(found, values[at], 0)


@kernel("index_select")
def _index_select(self, dim, index):
    if not self.dim():
        raise IndexError("index_select() cannot be applied to a 0-dim tensor.")
    if index.dim() != 1 or index.dtype is not torch.int64 or index.layout is not torch.strided:
        raise IndexError("index_select() argument index must be 1-D strided (non-sparse) long-tensor.")
    dim = _dimension(dim, self.dim())
    size, lead = list(self.shape), self.sparse_dim()
    bad = index[(index < -size[dim]) | (index >= size[dim])]
    if len(bad):
        raise IndexError(
            f"index_select(): index contains {bad[0].item()} that is out of range for tensor of size {size} at "
            f"dimension {dim}"
        )
    index = torch.where(index < 0, index + size[dim], index)
    size[dim] = len(index)
    if dim >= lead:
        values = self._values().index_select(dim - lead + 1, index)
        return _with(self, self._indices(), values, size, self.is_coalesced())
    chosen, at = meeting(index, self._indices()[dim])
    indices = self._indices()[:, at]
    indices[dim] = chosen
    return _with(self, indices, self._values()[at], size, self.is_coalesced() and dim == 0)


@kernel("_sparse_sparse_matmul")
def matmul(self, other):
    for which, x in (("mat1", self), ("mat2", other)):
        if x.dim() != 2 or x.dense_dim():
            raise RuntimeError(f"_sparse_sparse_matmul: {which} must be a sparse matrix, but has shape {list(x.shape)}")
    if self.shape[1] != other.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({self.shape[0]}x{self.shape[1]} and "
            f"{other.shape[0]}x{other.shape[1]})"
        )
    if self.dtype != other.dtype:
        mine, theirs = _scalar_name(self.dtype), _scalar_name(other.dtype)
        raise RuntimeError(f"mat1 dtype {mine} does not match mat2 dtype {theirs}")
    i, j = meeting(self._indices()[1], other._indices()[0])
    indices = torch.stack([self._indices()[0, i], other._indices()[1, j]])
    values = self._values()[i] * other._values()[j]
    size = [self.shape[0], other.shape[1]]
    return _coalesce(_make(2, 0, size, indices, values, layout=torch.sparse_coo))


# -- softmax of the elements that are there


def _along(self, dim: int) -> tuple[torch.Tensor, int]:
    """For each element the number of the line along a sparse dimension that it lies on, and how many there are."""
    others = [d for d in range(self.sparse_dim()) if d != dim]
    lines, which = torch.unique(flat(self, others), return_inverse=True)
    return which, len(lines)


def _sums(values, which, count: int) -> torch.Tensor:
    """Of its line, for each element."""
    sums = torch.zeros((count, *values.shape[1:]), dtype=values.dtype, device=T.here())
    return sums.index_add_(0, which, values)[which]


def _softmax(name: str, log: bool):
    def softmax(self, dim, half_to_float):
        dim = _dimension(dim, self.dim())
        if self.dtype not in (torch.float32, torch.float64):
            raise NotImplementedError(f"\"{name}\" not implemented for '{_scalar_name(self.dtype)}'")
        self = self.coalesce()
        values = self._values()
        if dim >= self.sparse_dim():
            at = dim - self.sparse_dim() + 1
            values = values.log_softmax(at) if log else values.softmax(at)
        elif values.numel():
            which, count = _along(self, dim)
            most = torch.full((count, *values.shape[1:]), -torch.inf, dtype=values.dtype, device=T.here())
            most = most.index_reduce_(0, which, values, "amax")[which]
            values = values - torch.where(most == -torch.inf, 0, most)
            sums = _sums(values.exp(), which, count)
            values = values - sums.log() if log else values.exp() / sums
        return _with(self, self._indices(), values, coalesced=True)

    def backward(grad_output, output, dim, self):
        dim = _dimension(dim, output.dim())
        if grad_output.shape != output.shape or grad_output.sparse_dim() != output.sparse_dim():
            raise RuntimeError(
                f"{name} backward: grad has size {list(grad_output.shape)} and {grad_output.sparse_dim()} sparse "
                f"dimensions, but output has size {list(output.shape)} and {output.sparse_dim()}"
            )
        output = output.coalesce()
        grad, values = matched(grad_output, output), output._values()
        if dim >= output.sparse_dim():
            sums = (grad if log else grad * values).sum(dim - output.sparse_dim() + 1, keepdim=True)
        else:
            sums = _sums(grad if log else grad * values, *_along(output, dim))
        grad = grad - values.exp() * sums if log else (grad - sums) * values
        return _with(output, output._indices(), grad, coalesced=True)

    kernel(f"_sparse_{name}")(softmax)
    kernel(f"_sparse_{name}_backward_data")(backward)


_softmax("softmax", log=False)
_softmax("log_softmax", log=True)


# -- sums


@kernel("_sparse_sum_backward")
def _sum_backward(grad, input, dim):
    input = input.coalesce()
    lead, dims = input.sparse_dim(), {d % input.dim() for d in dim}
    kept = [d for d in range(lead) if d not in dims]
    values = matched(grad, input, kept) if kept else grad.to_dense().unsqueeze(0) if grad.is_sparse else grad[None]
    for d in range(lead, input.dim()):
        if d in dims:
            values = values.unsqueeze(d - lead + 1)
    values = values.expand(input._values().shape).contiguous()
    return _with(input, input._indices(), values, coalesced=True)
