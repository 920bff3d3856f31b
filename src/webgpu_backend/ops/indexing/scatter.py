"""Writing through indices: what all such operators share, and the scatter family."""

import struct

import torch
from torch._prims_common import canonicalize_dim

from ... import tensor as T
from ...kernels.indexing import read, scatter
from ...kernels.layout import contiguous_strides, numel
from ...kernels.text import numbers
from ...plan import caps, launch, windows
from ...runtime.errors import BindingTooLarge
from ..overlap import no_internal_overlap, no_overlap
from ..shape.copy import clone, device_copy, fill
from ..table import custom
from . import oversize
from .read import along, axis, like

aten = torch.ops.aten
deterministic = torch.are_deterministic_algorithms_enabled
WIDE = (torch.float16, torch.bfloat16)


def duplicate(self: torch.Tensor) -> torch.Tensor:
    """A contiguous copy to write into."""
    if self.stride() == contiguous_strides(self.shape):  # not those of dimensions of one element alone
        return clone(self)
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
    numbers.check(value, str(dtype).removeprefix("torch."))
    return bytes(torch.tensor([value], dtype=dtype, device="cpu").view(torch.uint8).tolist()).ljust(4, b"\0")


def write(how: str, self: torch.Tensor, indices: list, value, layout, chain=None, distinct=False) -> None:
    """self (how)= value through indices. `layout(self)` gives (shape, strides of self, axes); `value` is a number, or a
    tensor of self's dtype over that shape; `chain` bounds how many values meet; `distinct`: none do.

    Where several values meet, atomics take them in an order that varies, and so may the last bits of a sum, or which
    of them stays. Under `torch.use_deterministic_algorithms(True)` they are taken in the order of their places.
    """
    ordered = deterministic() and not distinct and isinstance(value, torch.Tensor)
    if ordered and how == "set":
        _in_order(how, self, indices, value, layout, chain)
        return
    if how != "set":
        if self.dtype in WIDE:
            # Summing in the narrow dtype would round at every step, in an order that varies.
            wide = T.empty(self.shape, torch.float32)
            device_copy(self, wide)
            write(how, wide, indices, value.float(), layout, chain)
            device_copy(wide, self)
            return
        if self.dtype in (torch.complex64, torch.complex128) and how == "sum":
            real, parts = torch.view_as_real(self), torch.view_as_real(value.resolve_conj())
            write(how, real, indices, parts, lambda x: _in_parts(layout(torch.view_as_complex(x))), chain)
            return
        if ordered and self.dtype.is_floating_point and how in ("sum", "prod"):
            _in_order(how, self, indices, value, layout, chain)
            return
        if not scatter.atomic(how, T.dtype_of(self)):
            _through_lists(how, self, indices, value, layout, chain)
            return
    number = not isinstance(value, torch.Tensor)
    tail = bits(value, self.dtype) if number else b""
    tensors = indices if number else (value, *indices)
    try:
        launch(_plan(how, self, value, layout(self)).followed(tail), *tensors, self)
    except BindingTooLarge:
        step = _plan(how, self, value, layout(self), windowed=True)
        for window, first, end in windows(self):
            launch(step.followed(struct.pack("<II", first, end) + tail), *tensors, window)


def _plan(how: str, self: torch.Tensor, value, laid, windowed: bool = False):
    shape, strides, axes = laid
    source = (_over(value, shape), value.storage_offset()) if isinstance(value, torch.Tensor) else None
    target = (strides, self.storage_offset())
    return scatter.plan(shape, T.dtype_of(self), how, target, source, axes, caps(), windowed)


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


def _in_order(how, self, indices, value, layout, chain) -> None:
    """A stable sort by target element makes runs of the values that meet, in the order of their places."""
    target = self if self.is_contiguous() and not self.storage_offset() else duplicate(self)
    shape, strides, axes = layout(target)
    n, count = target.numel(), numel(shape)
    value = torch.as_strided(value, shape, _over(value, shape)).contiguous()
    value = value.clone() if value.storage_offset() else value
    own = torch.arange(n, dtype=torch.int32, device=self.device)
    place = T.empty((count,), torch.int32)
    plan = read.plan(shape, 4, strides, 0, axes, caps())
    launch(plan, own, *indices, place)
    place, order = place.sort(stable=True)
    order32 = order.to(torch.int32)
    same = place[1:] == place[:-1]
    first = torch.nn.functional.pad(~same, (1, 0), value=True)
    final = torch.nn.functional.pad(~same, (0, 1), value=True)

    def put(size, where, values):
        """An int32 for each of `size` elements, -1 where nothing is put; element `size` takes what does not count."""
        made = fill(T.empty((size + 1,), torch.int32), -1)
        one = axis(where, (1,), size + 1, 1, "scatter", 0, False)
        write("set", made, [where], values, lambda _: ((count,), (0,), [one]), distinct=True)
        return made

    if how == "set":
        winner = put(n, torch.where(final, place, n), order32)[:n].view(target.shape)
        taken = value.view(-1).index_select(0, winner.clamp(min=0).view(-1)).view(target.shape)
        device_copy(torch.where(winner >= 0, taken, target), self)
        return
    after = torch.nn.functional.pad(torch.where(same, order32[1:], -1), (0, 1), value=-1)
    following = put(count, order, after)
    head = put(n, torch.where(first, place, n), order32)
    for _ in range(-(-(chain or count) // scatter.WALK)):
        launch(scatter.plan_walk(T.dtype_of(target), how, n, caps()), value, following, head, target)
    if target is not self:
        device_copy(target, self)


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
    launch(scatter.plan_link(shape, (strides, 0), axes, caps()), *indices, head, following)
    for _ in range(-(-(chain or count) // scatter.WALK)):
        launch(scatter.plan_walk(T.dtype_of(self), how, target.numel(), caps()), value, following, head, target)
    if target is not self:
        device_copy(target, self)


def _functional(inplace, copy):
    """The overload that leaves self alone."""

    def call(self, *args, **kwargs):
        return inplace(copy(self), *args, **kwargs)

    return call


def both(name: str, suffix: str = "", copy=duplicate, oversize=(None, None), autocast: str = ""):
    """Registers an in-place function as `name_` and, on a copy, as `name`. `copy`: contiguous, or `clone` where torch
    keeps the order of memory. `oversize` has the rules of both."""

    def register(function):
        custom(f"{name}_{suffix}", oversize=oversize[0])(function)
        custom(f"{name}{suffix}", oversize=oversize[1], autocast=autocast)(_functional(function, copy))
        return function

    return register


# -- scatter

REDUCES = {"add": "sum", "multiply": "prod", "sum": "sum", "prod": "prod", "amax": "amax", "amin": "amin"}


def _scatter(self, dim, index, value, how, op, check):
    canonicalize_dim(self.dim(), dim)
    check()
    if not index.numel():
        return self
    no_internal_overlap(self)
    no_overlap(self, index, value)
    index, value = apart(self, index, value)

    def layout(target):
        strides, one = along(target, dim, index, op)
        return tuple(index.shape), strides, [one]

    write(how, self, [index], value, layout, index.shape[dim] if index.dim() else 1)
    return self


@both("scatter", ".src", oversize=(oversize.scatter_, oversize.scatter))
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
    return _scatter(self, dim, index, src, REDUCES[reduce], "scatter",
                    lambda: aten.scatter.reduce(like(self), dim, like(index), like(src), reduce=reduce))  # fmt: skip


@both("scatter", ".value_reduce")
def scatter_value_reduce_(self, dim, index, value, *, reduce):
    if reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    src = fill(T.empty((), self.dtype), value).expand(index.shape)
    return _scatter(self, dim, index, src, REDUCES[reduce], "scatter",
                    lambda: aten.scatter.value_reduce(like(self), dim, like(index), value, reduce=reduce))  # fmt: skip


@both("scatter_add", oversize=(oversize.scatter_, oversize.scatter), autocast="widest")
def scatter_add_(self, dim, index, src):
    return _scatter(self, dim, index, src, "sum", "scatter_add",
                    lambda: aten.scatter_add(like(self), dim, like(index), like(src)))  # fmt: skip


@both("scatter_reduce", ".two", oversize=(oversize.scatter_, oversize.scatter))
def scatter_reduce_(self, dim, index, src, reduce, *, include_self=True):
    def check():
        aten.scatter_reduce.two(like(self), dim, like(index), like(src), reduce, include_self=include_self)

    check()
    if not index.numel():
        return self

    def into(target, value, how):
        return _scatter(target, dim, index, value, how, "scatter_reduce", lambda: None)

    return reduce_into(self, src, reduce, include_self, into)


def reduce_into(self, src, reduce, include_self, into):
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
