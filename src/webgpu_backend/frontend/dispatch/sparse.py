"""Sparse tensors in coordinates (COO): indices and values are dense tensors of the device, the rest is torch's.

What only looks at a sparse tensor's parts is torch's own code for the CPU, which touches no element. Compressed rows
and columns have a module of their own, as have what becomes of one layout in another and elements that meet others;
operators that are not here are refused in words.
"""

import math
from collections.abc import Callable
from functools import partial

import torch

from ... import tensor as T
from ...ops.pointwise.elementwise import _scalar_name, broadcast_shape
from ...plan.places import placed
from . import layouts

aten = torch.ops.aten
_CPU, _SPARSE_CPU = torch._C.DispatchKey.CPU, torch._C.DispatchKey.SparseCPU
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_CHECKS = torch.sparse.check_sparse_tensor_invariants
_PARTS = (
    "_indices", "_values", "_nnz", "sparse_dim", "dense_dim", "is_coalesced", "_coalesced_", "indices", "values",
    "_dimI", "_dimV",
)  # fmt: skip
# Functions with f(0) = 0, which leave what is not there alone.
LEAVE_ZEROS = (
    "abs", "asin", "asinh", "atan", "atanh", "ceil", "conj_physical", "deg2rad", "erf", "erfinv", "expm1", "floor",
    "frac", "isinf", "isnan", "isneginf", "isposinf", "log1p", "neg", "rad2deg", "relu", "round", "sgn", "sign",
    "signbit", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
# torch's own code for these is made of calls of the tensors' parts. (What reads elements through a pointer must not be
# here; it is in `meetings`.)
_MADE_OF_PARTS = (
    *LEAVE_ZEROS, "nan_to_num", "threshold_backward", "any", "zero", "norm", "narrow_copy", "cat", "permute", "sum",
    "pow", "unsqueeze", "view_as_real", "sparse_resize", "resize_as_sparse", "sparse_resize_and_clear",
    "view_as_complex", "floor_divide", "copy_sparse_to_sparse", "copy", "native_norm",
)  # fmt: skip
_KERNELS: dict[str, Callable] = {}


def register(library: torch.library.Library) -> None:
    for name in _PARTS:
        op = getattr(aten, name).default
        library.impl(op, _of_the_cpu(op), "SparsePrivateUse1")
    for op in _overloads_for_sparse(_MADE_OF_PARTS):
        library.impl(op, placed(_of_the_cpu(op), op.name()), "SparsePrivateUse1")
    for name, kernel in _KERNELS.items():
        library.impl(name, placed(kernel, name), "SparsePrivateUse1")
    makers = aten.sparse_coo_tensor
    for op in (makers.indices, makers.indices_size, aten._sparse_coo_tensor_unsafe.default):
        for key in ("PrivateUse1", "AutogradPrivateUse1"):
            library.impl(op, _checked(op), key)
    library.impl("_to_sparse", placed(to_sparse, "_to_sparse"), "PrivateUse1")
    library.impl("_to_sparse.sparse_dim", placed(to_sparse_dim, "_to_sparse"), "PrivateUse1")
    for layout in layouts.COMPRESSED:
        name = f"_to_sparse{layouts.suffix(layout)}"
        for convert, key in ((layouts.from_dense, "PrivateUse1"), (layouts.from_coordinates, "SparsePrivateUse1")):
            library.impl(name, placed(layouts.kernel(convert, layout), name), key)


def _overloads_for_sparse(names: tuple[str, ...]) -> list:
    """The overloads, in-place and out= too, that torch has for sparse tensors of the CPU."""
    packets = [getattr(aten, base) for name in names for base in (name, f"{name}_") if hasattr(aten, base)]
    every = [getattr(packet, overload) for packet in packets for overload in packet.overloads()]
    known = set(torch._C._dispatch_get_registrations_for_dispatch_key("SparseCPU"))
    return [op for op in every if op.name() in known]


def refusal(kind: str, name: str) -> NotImplementedError:
    return NotImplementedError(
        f"webgpu: {kind} tensors are not supported ({name}); keep them on the CPU, or use dense tensors"
    )


def _of_the_cpu(op):
    def call(*args, **kwargs):
        if not _CHECKS.is_enabled():
            return op._op_dk(_SPARSE_CPU, *args, **kwargs)
        with _CHECKS(False):  # which it would do by kernels of the CPU's, of what it has made itself
            return op._op_dk(_SPARSE_CPU, *args, **kwargs)

    return call


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


def _checked(op):
    """Where invariants are checked, torch looks with a kernel of the CPU's whether what is said to be coalesced is."""

    def make(indices, values, *size, is_coalesced=None, **rest):
        given = partial(op._op_dk, _COMPOSITE, indices, values, *size, **rest)
        if not is_coalesced or not _CHECKS.is_enabled():
            return given(is_coalesced=is_coalesced)
        if not (flat(given(is_coalesced=None)).diff() > 0).all():
            raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")
        with _CHECKS(False):
            return given(is_coalesced=True)

    return make


def _with(like, indices, values, size=None, coalesced=None):
    """A sparse tensor with as many sparse dimensions as another."""
    lead = like.sparse_dim()
    size = list(like.shape) if size is None else size
    return _make(lead, len(size) - lead, size, indices, values, layout=torch.sparse_coo, is_coalesced=coalesced)


@kernel("_sparse_broadcast_to")
def _broadcast_to(self, size, implicit=False):
    """As torch lays it out: each element is followed by its copies. New dimensions are sparse ones."""
    size, more = list(size), len(size) - self.dim()
    if more < 0:
        raise RuntimeError("the requested broadcast shape has fewer dimensions than the input")
    for d, (own, wanted) in enumerate(zip(self.shape, size[more:])):
        if own not in (1, wanted):
            raise RuntimeError(
                f"The input's length {own} at dimension {d} does not broadcast over the requested shape of length "
                f"{wanted} at dimension {d + more}"
            )
    lead = self.sparse_dim() + more
    kept = [d for d in range(more, lead) if self.shape[d - more] == size[d]]
    free = [d for d in range(lead) if d not in kept]
    sizes = [size[d] for d in free]
    copies = math.prod(sizes)
    values = self._values()
    values = values.unsqueeze(1).expand(values.shape[0], copies, *size[lead:]).flatten(0, 1)
    own = self._indices().repeat_interleave(copies, 1)
    rows = dict(zip(kept, [own[d - more] for d in kept]))
    place = torch.arange(copies, device=self.device).repeat(self._nnz())
    for d, after in zip(free, [math.prod(sizes[i + 1 :]) for i in range(len(free))]):
        rows[d] = place // max(after, 1) % max(size[d], 1)
    indices = torch.stack([rows[d] for d in range(lead)]) if lead else own
    in_order = self.is_coalesced() and (not free or not kept or max(kept) < min(free))
    return _make(lead, len(size) - lead, size, indices, values, layout=torch.sparse_coo, is_coalesced=in_order)


# -- to and from dense tensors


def to_sparse(self, *, layout=None, blocksize=None, dense_dim=None):
    if layout not in (None, torch.sparse_coo):
        return layouts.from_dense(self, layout, blocksize, dense_dim)
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


@kernel("_to_sparse")
def _coordinates_to(self, *, layout=None, blocksize=None, dense_dim=None):
    if layout in (None, torch.sparse_coo):
        return self
    return layouts.from_coordinates(self, layout, blocksize, dense_dim)


@kernel("_to_sparse.sparse_dim")
def _coordinates_to_dim(self, sparse_dim):
    return aten._to_sparse.sparse_dim._op_dk(_SPARSE_CPU, self, sparse_dim)


def check_mask(self, mask) -> None:
    if self.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask has size "
            f"{list(mask.shape)}"
        )


@kernel("sparse_mask")
def _sparse_mask(self, mask):
    """The elements of self at the places that a mask names."""
    dense = self.to_dense() if self.is_sparse else self
    if not mask.is_sparse:
        raise refusal("dense masks of sparse", "aten::sparse_mask")
    check_mask(dense, mask)
    indices = mask._indices()
    values = dense[tuple(indices.unbind(0))] if len(indices) else dense.expand(mask._values().shape).clone()
    return _with(mask, indices, values, coalesced=mask.is_coalesced())


def flat(self, dims=None) -> torch.Tensor:
    """The places as whole numbers, in the order of the coordinates, or of these of them."""
    indices = self._indices()
    found = torch.zeros(indices.shape[1], dtype=torch.int64, device=T.here())
    for d in range(self.sparse_dim()) if dims is None else dims:
        found = found * self.shape[d] + indices[d]
    return found


@kernel("_sparse_mask_projection")
def _projected(self, mask, accumulate_matches=False):
    """The elements of self that a mask names too, as often as it does where that is asked for; others are 0."""
    if self.shape != mask.shape or self.sparse_dim() != mask.sparse_dim():
        raise RuntimeError(
            f"_sparse_mask_projection: operands have incompatible sizes; self has size {list(self.shape)} but mask has "
            f"size {list(mask.shape)}"
        )
    mine, named = flat(self), flat(mask).sort()[0]
    times = torch.searchsorted(named, mine, right=True) - torch.searchsorted(named, mine)
    values = self._values()
    times = times.view(-1, *[1] * (values.dim() - 1))
    found = values * times.to(values.dtype) if accumulate_matches else values
    return _with(self, self._indices(), torch.where(times > 0, found, 0), coalesced=self.is_coalesced())


@kernel("_coalesce")
def _coalesce(self):
    """Each place once, in order, with the sum of what was there."""
    indices, values = self._indices(), self._values()
    if self._nnz() < 2:
        return _with(self, indices, values, coalesced=True)
    places, at = torch.unique(flat(self), return_inverse=True)
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


def _common(self, other, into=None, where="") -> torch.dtype:
    """The dtype of a result; it must fit into one that is written."""
    dtype = torch.result_type(self, other)
    if into is not None and not torch.can_cast(dtype, into):
        got, want = _scalar_name(dtype), _scalar_name(into)
        raise RuntimeError(f"Can't convert result type {got} to output {want}{where}")
    return dtype


def _times(values, alpha, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(alpha, bool) and dtype is not torch.bool:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float) and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    values = values.to(dtype)
    return values if alpha == 1 else values * alpha


@kernel("add.Tensor")
def _add(self, other, *, alpha=1):
    if not self.is_sparse:
        return _add_to_dense(self.to(_common(self, other), copy=True), other, alpha)
    if not isinstance(other, torch.Tensor) or not other.is_sparse:
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if self.shape != other.shape:
        mine, theirs = list(self.shape), list(other.shape)
        raise RuntimeError(f"add: expected sizes of 'self' and 'other' to match, but {mine} != {theirs}")
    if not other._nnz():  # however its dimensions are divided
        return _with(self, self._indices().clone(), self._values().to(_common(self, other), copy=True), None,
                     self.is_coalesced())  # fmt: skip
    if not self._nnz():
        values = _times(other._values(), alpha, _common(self, other))
        return _with(other, other._indices().clone(), values.clone(), None, other.is_coalesced())
    if self.sparse_dim() != other.sparse_dim():
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same density, but 'self' has {self.sparse_dim()} sparse "
            f"dimensions while 'other' has {other.sparse_dim()} sparse dimensions"
        )
    dtype = _common(self, other)
    values = torch.cat([self._values().to(dtype), _times(other._values(), alpha, dtype)])
    both = _with(self, torch.cat([self._indices(), other._indices()], 1), values)
    return _coalesce(both) if self.is_coalesced() and other.is_coalesced() else both


def _add_to_dense(self, other, alpha):
    if self.shape != other.shape:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {list(self.shape)} while other has "
            f"size {list(other.shape)} (FYI: dense-sparse addition does not currently support broadcasting)"
        )
    values = _times(other._values(), alpha, self.dtype)
    if other.sparse_dim() == 0:
        return self.add_(values.sum(0, dtype=values.dtype))
    return self.index_put_(tuple(other._indices().unbind(0)), values, accumulate=True) if values.numel() else self


@kernel("add_.Tensor")
def _add_(self, other, *, alpha=1):
    if self.is_sparse and (not isinstance(other, torch.Tensor) or not other.is_sparse):
        return _add(self, other, alpha=alpha)  # refused
    _common(self, other, self.dtype, " in add operation")
    if not self.is_sparse:
        return _add_to_dense(self, other, alpha)
    return _put(self, _add(self, other, alpha=alpha))  # a gradient that is accumulated


def _put(self, result):
    """A sparse tensor becomes another."""
    return aten.copy_sparse_to_sparse_.default._op_dk(_SPARSE_CPU, self, result.to(self.dtype))


def _no_masks(self, other) -> None:
    if self.dtype is torch.bool and isinstance(other, torch.Tensor) and other.dtype is torch.bool:
        raise NotImplementedError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
            "operator instead."
        )


@kernel("sub.Tensor")
def _sub(self, other, *, alpha=1):
    _no_masks(self, other)
    return _add(self, other, alpha=-alpha)


@kernel("sub_.Tensor")
def _sub_(self, other, *, alpha=1):
    _no_masks(self, other)
    return _add_(self, other, alpha=-alpha)


def _product(self, other) -> torch.Tensor:
    """Of two sparse tensors, or of one and a dense one: what is at the places that both have."""
    if not self.is_sparse:
        self, other = other, self
    if not other.is_sparse:
        shape = torch.Size(broadcast_shape([self.shape, other.shape]))
        self = (self if self.shape == shape else _broadcast_to(self, shape)).coalesce()
        beside = other.expand(shape)
        beside = beside[tuple(self._indices().unbind(0))] if self.sparse_dim() else beside
        return _with(self, self._indices(), self._values() * beside, coalesced=True)
    lead = self.sparse_dim()
    if self.dim() != other.dim() or lead != other.sparse_dim() or self.shape[:lead] != other.shape[:lead]:
        raise RuntimeError(
            "sparse_binary_op_intersection_cpu(): expects sparse inputs with equal dimensionality, number of sparse "
            "dimensions, and shape of sparse dimensions"
        )
    self, other = self.coalesce(), other.coalesce()
    mine, theirs = flat(self), flat(other)
    at = torch.searchsorted(theirs, mine).clamp_(max=max(len(theirs) - 1, 0))
    kept = (theirs[at] == mine).nonzero().squeeze(1) if len(theirs) else at[:0]
    values = self._values()[kept] * other._values()[at[kept]]
    size = [*self.shape[:lead], *values.shape[1:]]
    return _with(self, self._indices()[:, kept], values, size, coalesced=True)


@kernel("mul.Tensor")
def _mul(self, other):
    dtype = torch.result_type(self, other)
    if isinstance(other, torch.Tensor):
        if not self.is_sparse or not self.dim() and other.is_sparse and (other.dim() or other._nnz() > self._nnz()):
            self, other = other, self
        if other.is_sparse and not other.dim():
            other = other.to_dense()
        if other.dim():
            return _product(self, other)
    return _with(self, self._indices(), self._values().to(dtype) * other, coalesced=self.is_coalesced())


@kernel("mul_.Tensor")
def _mul_(self, other):
    several = isinstance(other, torch.Tensor) and other.is_sparse
    _common(self, other, self.dtype, f" in {'mul' if self.is_sparse else 'add'} operation" if several else "")
    result = _mul(self, other)
    return _put(self, result) if self.is_sparse else self.copy_(result.to_dense())


@kernel("div.Tensor", "div.Tensor_mode")
def _div(self, other, *, rounding_mode=None):
    if isinstance(other, torch.Tensor) and (other.is_sparse or other.dim()):
        raise RuntimeError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {list(other.shape)} for "
            "divisor)"
        )
    if rounding_mode is not None:  # a sum of roundings is not the rounded sum
        self = self.coalesce()
    values = torch.div(self._values(), other, rounding_mode=rounding_mode)
    return _with(self, self._indices(), values, coalesced=self.is_coalesced())


def _into(function: Callable) -> Callable:
    """Of an operator with the result in out=."""

    def call(self, other, *, out, **rest):
        result = function(self, other, **rest)
        if not torch.can_cast(result.dtype, out.dtype):
            got, want = _scalar_name(result.dtype), _scalar_name(out.dtype)
            raise RuntimeError(f"result type {got} can't be cast to the desired output type {want}")
        return _put(out, result)

    return call


for _name, _function in (("mul", _mul), ("add", _add), ("sub", _sub), ("div", _div)):
    kernel(f"{_name}.out")(_into(_function))
kernel("div.out_mode")(_into(_div))


@kernel("div_.Tensor", "div_.Tensor_mode")
def _div_(self, other, *, rounding_mode=None):
    return _into(_div)(self, other, rounding_mode=rounding_mode, out=self)
