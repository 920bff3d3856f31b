"""Writing through indices: scatter, index_put, index_add, index_copy, index_fill, put, and their reductions."""

import struct

import torch
from torch._prims_common import canonicalize_dim

from .. import tensor as T
from ..kernels import scatter as kernel
from ..kernels.layout import grid, numel
from ..kernels.pointwise import WORKGROUP
from ..launch import caps, launch, launch_guarded
from .copy import device_copy, fill
from .elementwise import _check_overlap, _scalar_name
from .indexing import _INDEX_SIZE, advanced, along, axis, device_indices, few, flat_mask, key_of, like, remember
from .table import custom

aten = torch.ops.aten
_PLANS: dict[tuple, tuple] = {}
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_MASK = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFFFFFF, 8: 0xFFFFFFFFFFFFFFFF}
_WIDE = (torch.float16, torch.bfloat16)


def duplicate(self: torch.Tensor) -> torch.Tensor:
    """A contiguous copy to write into."""
    out = T.empty(self.shape, self.dtype)
    device_copy(self, out)
    return out


def apart(self: torch.Tensor, *others):
    """Operands on self's own buffer are copied: one buffer cannot be read and written in one dispatch."""
    if not self.numel():
        return others
    block = T.block_of(self)
    return tuple([
        x.clone() if isinstance(x, torch.Tensor) and x.numel() and T.block_of(x) is block else x for x in others
    ])  # fmt: skip


def bits(value, dtype: torch.dtype) -> bytes:
    """A number as one element's bits, for the end of a kernel's parameters."""
    item = dtype.itemsize
    try:
        number = torch.tensor(value, dtype=dtype).view(_BITS[item]).item() & _MASK[item]
    except (RuntimeError, OverflowError):
        raise RuntimeError(f"value cannot be converted to type {dtype} without overflow") from None
    return struct.pack("<Q" if item == 8 else "<I", number)


def write(key: tuple, how: str, self: torch.Tensor, indices: list, value, layout, chain=None) -> None:
    """self (how)= value through indices. `layout(self)` gives (shape, strides of self, axes) for a missing plan;
    `value` is a number, or a tensor of self's dtype over that shape; `chain` bounds how many values meet.
    """
    if how != "set":
        if self.dtype in _WIDE:
            # Summing in the narrow dtype would round at every step, in an order that varies.
            wide = T.empty(self.shape, torch.float32)
            device_copy(self, wide)
            write(("wide", *key), how, wide, indices, value.float(), layout, chain)
            device_copy(wide, self)
            return
        if self.dtype is torch.complex64 and how == "sum":
            real, parts = torch.view_as_real(self), torch.view_as_real(value.resolve_conj())
            write(("parts", *key), how, real, indices, parts, lambda _: _in_parts(layout(self)), chain)
            return
        if not kernel.atomic(how, T.dtype_of(self)):
            _through_lists(how, self, indices, value, layout, chain)
            return
    number = not isinstance(value, torch.Tensor)
    key = (*key, how, key_of(self), None if number else key_of(value), tuple([key_of(i) for i in indices]))
    plan = _PLANS.get(key)
    if plan is None:
        _check_overlap((self,))
        shape, strides, axes = layout(self)
        source = None if number else (_over(value, shape), value.storage_offset())
        target = (strides, self.storage_offset())
        plan = kernel.plan(shape, T.dtype_of(self), how, target, source, axes, caps())
        remember(_PLANS, key, plan)
    params, tensors = plan.params, (*indices, self)
    if number:
        params += bits(value, self.dtype)
    else:
        tensors = (value, *tensors)
    launch_guarded(plan.program, tensors, params, plan.grid)


def _over(value: torch.Tensor, shape) -> tuple[int, ...]:
    """Strides of a value over the walked shape; it may be larger, or one element."""
    if value.dim() == len(shape):
        return tuple(value.stride())
    return (0,) * (len(shape) - value.dim()) + tuple(value.stride())


def _in_parts(layout):
    """A complex layout as one of real and imaginary parts."""
    shape, strides, axes = layout
    axes = [a._replace(strides=(*a.strides, 0), step=2 * a.step) for a in axes]
    return (*shape, 2), (*(2 * s for s in strides), 1), axes


def _through_lists(how, self, indices, value, layout, chain) -> None:
    target = self if self.is_contiguous() and not self.storage_offset() else duplicate(self)
    shape, strides, axes = layout(target)
    count = numel(shape)
    value = torch.as_strided(value, shape, _over(value, shape)).contiguous()
    if value.storage_offset():
        value = value.clone()
    head = T.empty((target.numel(),), torch.int32)
    fill(head, -1)
    following = T.empty((count,), torch.int32)
    c = caps()
    link = kernel.plan_link(shape, (strides, 0), axes, c)
    launch_guarded(link.program, (*indices, head, following), link.params, link.grid)
    program = kernel.walk_program(T.dtype_of(self), how, c)
    n = target.numel()
    for _ in range(-(-(chain or count) // kernel.WALK)):
        launch(program, (value, following, head, target), struct.pack("<I", n), grid(n, WORKGROUP[c.kind], c))
    if target is not self:
        device_copy(target, self)


def _functional(inplace):
    """The overload that leaves self alone."""

    def call(self, *args, **kwargs):
        return inplace(duplicate(self), *args, **kwargs)

    return call


def both(name: str, suffix: str = ""):
    """Registers an in-place function as `name_` and, on a copy, as `name`."""

    def register(function):
        custom(f"{name}_{suffix}")(function)
        custom(f"{name}{suffix}")(_functional(function))
        return function

    return register


# -- scatter

_REDUCES = {"add": "sum", "multiply": "prod", "sum": "sum", "prod": "prod", "amax": "amax", "amin": "amin"}


def _scatter(self, dim, index, value, how, op, check):
    key = (op, dim, key_of(index))
    if not index.numel():
        check()
        return self
    index, value = apart(self, index, value)

    def layout(target):
        check()
        strides, one = along(target, dim, index, op)
        return tuple(index.shape), strides, [one]

    write(key, how, self, [index], value, layout, index.shape[dim] if index.dim() else 1)
    return self


@both("scatter", ".src")
def scatter_src_(self, dim, index, src):
    return _scatter(self, dim, index, src, "set", "scatter",
                    lambda: aten.scatter.src(like(self), dim, like(index), like(src)))  # fmt: skip


@both("scatter", ".value")
def scatter_value_(self, dim, index, value):
    return _scatter(self, dim, index, value, "set", "scatter",
                    lambda: aten.scatter.value(like(self), dim, like(index), value))  # fmt: skip


@both("scatter", ".reduce")
def scatter_reduce_old_(self, dim, index, src, *, reduce):
    if reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    return _scatter(self, dim, index, src, _REDUCES[reduce], "scatter",
                    lambda: aten.scatter.reduce(like(self), dim, like(index), like(src), reduce=reduce))  # fmt: skip


@both("scatter", ".value_reduce")
def scatter_value_reduce_(self, dim, index, value, *, reduce):
    if reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    src = fill(T.empty((), self.dtype), value).expand(index.shape)
    return _scatter(self, dim, index, src, _REDUCES[reduce], "scatter",
                    lambda: aten.scatter.value_reduce(like(self), dim, like(index), value, reduce=reduce))  # fmt: skip


@both("scatter_add")
def scatter_add_(self, dim, index, src):
    return _scatter(self, dim, index, src, "sum", "scatter_add",
                    lambda: aten.scatter_add(like(self), dim, like(index), like(src)))  # fmt: skip


@both("scatter_reduce", ".two")
def scatter_reduce_(self, dim, index, src, reduce, *, include_self=True):
    def check():
        aten.scatter_reduce.two(like(self), dim, like(index), like(src), reduce, include_self=include_self)

    if not index.numel():
        check()
        return self

    def into(target, value, how):
        return _scatter(target, dim, index, value, how, "scatter_reduce", check if target is self else lambda: None)

    return _reduce(self, src, reduce, include_self, into)


def _reduce(self, src, reduce, include_self, into):
    """`into(target, value, how)` scatters; this adds means and leaving self out."""
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}.")
    if not include_self:
        into(self, _identity(reduce, self.dtype), "set")
    if reduce != "mean":
        return into(self, src, reduce)
    into(self, src, "sum")
    counts = fill(T.empty(self.shape, torch.float32), 1 if include_self else 0)
    ones = fill(T.empty((), torch.float32), 1).expand(src.shape)
    into(counts, ones, "sum")
    if not include_self:
        counts.clamp_(min=1)
    if self.dtype.is_floating_point or self.dtype.is_complex:
        return self.div_(counts)
    return self.copy_(aten.floor_divide(self, counts.to(torch.int64)))


def _identity(reduce: str, dtype: torch.dtype):
    if reduce == "prod":
        return 1
    if reduce in ("sum", "mean"):
        return 0
    if dtype is torch.bool:
        return reduce == "amin"
    if dtype.is_floating_point:
        return float("-inf") if reduce == "amax" else float("inf")
    return torch.iinfo(dtype).min if reduce == "amax" else torch.iinfo(dtype).max


# -- a vector of indices along one dimension


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

    write((op, dim), how, self, [index], value, layout, index.numel())
    return self


def _row_operands(self, dim, index, source, op):
    """Checks torch's rules and gives self and source at least one dimension."""
    dim = canonicalize_dim(max(self.dim(), 1), dim)
    if index.dim() > 1:
        raise IndexError(f"{op}(): Index should have dimension 1 or 0 (got {index.dim()})")
    if index.dtype not in _INDEX_SIZE or (op in ("index_copy", "index_fill") and index.dtype is not torch.int64):
        kind = "a long tensor" if op == "index_copy" else "dtype int32/int64"
        got = f", but got {_scalar_name(index.dtype)}" if op == "index_copy" else ""
        raise RuntimeError(f"{op}(): Expected {kind} for index{got}")
    if source is None:
        return self.reshape(1) if not self.dim() else self, dim, None
    if self.dtype != source.dtype:
        verb = "self and source expected to have the same dtype"
        raise RuntimeError(
            f"{op}(): {verb}, but got (self) {_scalar_name(self.dtype)} and (source) {_scalar_name(source.dtype)}"
        )
    count = index.numel()
    if source.dim() == 0:
        if count != 1:
            raise RuntimeError(
                f"{op}(): When source is scalar, index should have one element (got {count})"
                if op == "index_copy"
                else f"{op}(): Number of indices ({count}) should be equal to source.size(dim) (1)"
            )
        source = source.reshape(1)
    elif source.shape[dim] != count:
        raise (IndexError if op == "index_copy" else RuntimeError)(
            f"{op}(): Number of indices ({count}) should be equal to source.size(dim) ({source.shape[dim]})"
            + (f", for dim: {dim}" if op == "index_add" else "")
        )
    target = self.reshape(1) if not self.dim() else self
    if source.dim() == 1 and target.dim() > 1 and op == "index_copy":
        source = source.reshape([1] * dim + [count] + [1] * (target.dim() - dim - 1))
    expected = [count if d == dim else s for d, s in enumerate(target.shape)]
    if list(source.shape) != expected:
        if op == "index_copy":
            raise IndexError(
                "index_copy(): Source/destination tensor must have same slice shapes. Destination slice shape: "
                f"{[s for d, s in enumerate(target.shape) if d != dim]} at dimension {dim} and source slice shape: "
                f"{[s for d, s in enumerate(source.shape) if d != dim]} at dimension {dim}."
            )
        raise RuntimeError(
            f"{op}(): source tensor shape must match self tensor shape, excluding the specified dimension. Got "
            f"self.shape = {list(self.shape)} source.shape = {list(source.shape)}"
        )
    return target, dim, source


@both("index_add")
def index_add_(self, dim, index, source, *, alpha=1):
    target, dim, source = _row_operands(self, dim, index, source, "index_add")
    if alpha != 1:
        source = source & bool(alpha) if source.dtype is torch.bool else source * alpha
    rows_into(target, dim, index, source, "sum", "index_add")
    return self


@both("index_copy")
def index_copy_(self, dim, index, source):
    target, dim, source = _row_operands(self, dim, index, source, "index_copy")
    rows_into(target, dim, index, source, "set", "index_copy")
    return self


@both("index_fill", ".int_Scalar")
def index_fill_(self, dim, index, value):
    target, dim, _ = _row_operands(self, dim, index, None, "index_fill")
    rows_into(target, dim, index, value, "set", "index_fill", wraps=True)
    return self


@both("index_fill", ".int_Tensor")
def index_fill_tensor_(self, dim, index, value):
    if value.dim():
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.dim()} dimension(s)."
        )
    if value.is_cpu:
        return index_fill_(self, dim, index, value.item())
    target, dim, _ = _row_operands(self, dim, index, None, "index_fill")
    shape = [index.numel() if d == dim else s for d, s in enumerate(target.shape)]
    rows_into(target, dim, index, value.to(self.dtype).expand(shape), "set", "index_fill", wraps=True)
    return self


@both("index_reduce")
def index_reduce_(self, dim, index, source, reduce, *, include_self=True):
    target, dim, source = _row_operands(self, dim, index, source, "index_reduce")
    if reduce == "sum" or reduce not in _REDUCES and reduce != "mean":
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    if index.numel():
        _reduce(target, source, reduce, include_self,
                lambda into, value, how: rows_into(into, dim, index, value, how, "index_reduce"))  # fmt: skip
    return self


# -- put and index_put


@both("put")
def put_(self, index, source, accumulate=False):
    if index.dtype is not torch.int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {_scalar_name(index.dtype)}")
    if self.dtype != source.dtype:
        raise RuntimeError(
            "put_(): Expected self and source to have the same dtype, but got self.dtype = "
            f"{_scalar_name(self.dtype)} and source.dtype = {_scalar_name(source.dtype)}"
        )
    if index.numel() != source.numel():
        raise RuntimeError(
            f"put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.numel()}, index.numel() = {index.numel()}"
        )
    if not index.numel():
        return self
    if not self.numel():
        raise IndexError("put_(): Expected self to be non-empty when index is not")
    target = self if self.is_contiguous() else duplicate(self)
    index, source = apart(target, index.reshape(-1), source.reshape(-1))

    def layout(flat):
        return (index.numel(),), (0,), [axis(index, index.stride(), flat.numel(), 1, "put_", 0, True)]

    write(("put",), "sum" if accumulate else "set", target, [index], source, layout)
    if target is not self:
        device_copy(target, self)
    return self


def _mask_only(indices, values, accumulate):
    """The position of the one index, a mask, where writing one value needs no positions."""
    given = [k for k, i in enumerate(indices) if i is not None]
    if accumulate or len(given) != 1 or values.numel() != 1:
        return None
    mask = indices[given[0]]
    return given[0] if mask.dtype is torch.bool and mask.device.type == T.NAME else None


@both("index_put")
def index_put_(self, indices, values, accumulate=False):
    if self.dtype != values.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {_scalar_name(self.dtype)} for the "
            f"destination and {_scalar_name(values.dtype)} for the source."
        )
    if values.device.type != T.NAME:
        if values.dim():
            raise RuntimeError(f"expected tensor to be on device {T.DEVICE} but found {values.device}")
        values = values.to(T.DEVICE)
    at = _mask_only(indices, values, accumulate)
    if at is not None:
        mask = indices[at]
        if tuple(self.shape[at : at + mask.dim()]) == tuple(mask.shape):
            mask = mask.reshape([*mask.shape, *[1] * (self.dim() - at - mask.dim())])
            self.masked_fill_(mask, values.reshape(()))
            return self
    whole = self
    flat = flat_mask(self, indices)
    if flat is not None:
        self, indices = flat
    indices = device_indices(self, indices)
    given = [i for i in indices if i is not None]
    how = "sum" if accumulate else "set"
    if not given:
        return self.add_(values) if accumulate else self.copy_(values)
    key = ("shape", self.shape, tuple([None if i is None else i.shape for i in indices]))
    shape = _PLANS.get(key)
    if shape is None:
        shape = remember(_PLANS, key, advanced(self, indices, "index_put")[0])
    if list(values.shape) != list(shape):
        try:
            values = values.expand(shape)
        except RuntimeError:
            raise RuntimeError(
                f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result "
                f"of shape {list(shape)}"
            ) from None
    if not numel(shape):
        return whole
    if len(given) > 4:
        return _put_joined(self, indices, values, accumulate, shape)
    values, *given = apart(self, values, *given)
    places = tuple([d for d, i in enumerate(indices) if i is not None])
    for d, index in zip(places, given):
        indices[d] = index
    write(("index_put", places), how, self, given, values, lambda target: advanced(target, indices, "index_put"))
    return whole


def _put_joined(self, indices, values, accumulate, shape):
    """More index tensors than a kernel binds: on a copy with the indexed dimensions in front, flattened."""
    given = [d for d, i in enumerate(indices) if i is not None]
    order = given + [d for d in range(self.dim()) if d not in given]
    front, joined = few(duplicate(self), indices)
    front = duplicate(front)
    lead = given[0] if given == list(range(given[0], given[0] + len(given))) else 0
    width = len(shape) - (self.dim() - len(given))
    values = values.permute([*range(lead, lead + width), *range(lead), *range(lead + width, len(shape))])
    index_put_(front, joined, values, accumulate)
    moved = self.permute(order)
    device_copy(front.reshape(moved.shape), moved)
    return self


@custom("_index_put_impl_")
def index_put_impl_(self, indices, values, accumulate=False, unsafe=False):
    return index_put_(self, indices, values, accumulate)


@custom("_unsafe_index_put")
def unsafe_index_put(self, indices, values, accumulate=False):
    return index_put_(duplicate(self), indices, values, accumulate)


# -- gradients of reading through indices


@custom("embedding_dense_backward")
def embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    width = grad_output.shape[-1] if grad_output.dim() else 1
    dtype = grad_output.dtype
    out = fill(T.empty((num_weights, width), torch.float32 if dtype in _WIDE else dtype), 0)
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



# -- counting


@custom("bincount")
def bincount(self, weights=None, minlength=0):
    if self.dim() != 1 or self.dtype.is_floating_point or self.dtype.is_complex:
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
    index = self if self.dtype in _INDEX_SIZE else self.to(torch.int64)
    return rows_into(out, 0, index, ones, "sum", "bincount")


@custom("equal")
def equal(self, other):
    if self.device != other.device:
        raise RuntimeError(f"Cannot compare two tensors on different devices. Got: {self.device} and {other.device}")
    if self.dtype != other.dtype:
        raise RuntimeError(
            f"Expected all tensors to have the same dtype, but found {_scalar_name(self.dtype)} and "
            f"{_scalar_name(other.dtype)}"
        )
    if self.shape != other.shape:
        return False
    return not self.numel() or bool(torch.eq(self, other).all().item())
