"""Running elementwise entries: type promotion, broadcasting and aliasing at plan time, then one dispatch."""

import torch
from torch._prims_common import (
    ELEMENTWISE_TYPE_PROMOTION_KIND as KIND,
)
from torch._prims_common import (
    compute_elementwise_output_strides,
    elementwise_dtypes,
)

from .. import tensor as T
from ..dtypes import Unsupported
from ..kernels import pointwise
from ..kernels.layout import View, contiguous_strides, numel
from ..runtime.errors import BindingTooLarge
from ..runtime.gpu import gpu
from . import hot
from .table import Pointwise

_KINDS = {
    "default": KIND.DEFAULT,
    "none": KIND.NO_OPMATH,
    "int_to_float": KIND.INT_TO_FLOAT,
    "always_bool": KIND.ALWAYS_BOOL,
    "complex_to_float": KIND.COMPLEX_TO_FLOAT,
    "bool_to_long": KIND.BOOL_TO_LONG,
}
_Tensor = torch.Tensor
_MAX_PLANS = 16384
_MAX_ELEMENTS = (1 << 32) - 1


class _Planned:
    """A planned call: everything but the buffers and the scalars' values."""

    __slots__ = ("program", "bindings", "packers", "metas", "meta", "empty")

    def __init__(self, kernel, metas, empty):
        self.metas = metas
        self.meta = metas[0] if metas else None
        self.empty = empty
        if kernel is not None:
            self.program = kernel.program
            self.bindings = kernel.bindings
            self.packers = kernel.packers


class Call(_Planned):
    __slots__ = ("params", "packed", "grid")

    def __init__(self, kernel, metas, empty):
        super().__init__(kernel, metas, empty)
        self.packed: dict = {}  # parameters by number, of calls that take one
        if kernel is not None:
            self.params, self.grid = kernel.params, kernel.grid


_way = 0  # in which the next call over much memory walks it


class Turning(_Planned):
    """A call over more memory than a cache holds walks it the other way than the one before."""

    __slots__ = ("both", "packs", "groups")

    def __init__(self, kernel, metas, empty):
        super().__init__(kernel, metas, empty)
        self.both, self.packs, self.groups = (kernel.params, kernel.turned), ({}, {}), kernel.grid

    @property
    def params(self) -> bytes:
        return self.both[_way]

    @property
    def packed(self) -> dict:
        return self.packs[_way]

    @property
    def grid(self) -> tuple[int, int, int]:
        """Asked for last, and once a call."""
        global _way
        _way ^= 1
        return self.groups


def _key(x):
    """What a plan depends on of one argument."""
    c = x.__class__
    if c in hot.NUMBERS:
        return c
    if isinstance(x, _Tensor):
        return (x.dtype, x.shape, x.stride(), x.storage_offset(), x.is_cpu)
    return type(x)


class Elementwise:
    """An entry ready to be called. `plans` is keyed by dtypes, sizes, strides and offsets: a hit costs a look-up."""

    def __init__(self, entry: Pointwise):
        self.entry = entry
        self.plans: dict[tuple, Call | Turning] = {}
        self.aten = entry.aten
        self.unary, self.binary, self.call = hot.unary_of(self), hot.binary_of(self), hot.call_of(self)
        self.inplace = hot.inplace_of(self)

    def general(self, inputs: tuple, scalars: tuple):
        """Functional: any inputs (tensors or numbers), scalar values in the entry's order."""
        key = tuple([_key(x) for x in inputs])
        call = self.plans.get(key)
        if call is None:
            call = self.plan(key, inputs)
        outs = tuple([T.new(m) for m in call.metas])
        if not call.empty:
            self._run(call, inputs, outs, scalars)
        return outs[0] if len(outs) == 1 else outs

    def call_into(self, inputs: tuple, scalars: tuple, outs: tuple, inplace: bool = False):
        """In-place and out= : writes to existing tensors, resizing them where torch does."""
        shape = self._fit(inputs, outs, inplace)
        if 0 in shape:
            self._check_cast(inputs, outs)
            return outs[0] if len(outs) == 1 else outs
        inputs, aliases = self._aliases(inputs, outs)
        key = (
            tuple([_key(x) for x in inputs]),
            tuple([_key(o) for o in outs]),
            tuple(aliases),
            tuple([T.owns_tail(o) for o in outs]),
        )
        call = self.plans.get(key)
        if call is None:
            call = self.plan_into(key, inputs, outs, aliases, inplace)
        self._run(call, inputs, outs, scalars)
        return outs[0] if len(outs) == 1 else outs

    def _fit(self, inputs, outs, inplace: bool) -> tuple[int, ...]:
        """Outputs of the broadcast shape, or the error that torch gives."""
        shape = broadcast_shape([x.shape for x in (*inputs, *(outs if inplace else ())) if isinstance(x, _Tensor)])
        for out in outs:
            if tuple(out.shape) != shape:
                if inplace:
                    raise RuntimeError(
                        f"output with shape {list(out.shape)} doesn't match the broadcast shape {list(shape)}"
                    )
                self._check_cast(inputs, outs)  # an output that is refused stays as it is
                resize_output(out, shape)
        return shape

    def plan_into(self, key, inputs, outs, aliases, inplace: bool) -> Call | Turning:
        self._fit(inputs, outs, inplace)
        _check_overlap(outs)
        self._check_cast(inputs, outs)
        return self.plan(key, inputs, outs, aliases)

    def _run(self, call: Call, inputs, outs, scalars) -> None:
        params = call.params
        if call.packers:
            values = [x.item() if isinstance(x, _Tensor) else x for x in inputs if _is_scalar(x)]
            values.extend(scalars)
            params += b"".join([pack(value) for pack, value in zip(call.packers, values)])
        everything = inputs + outs
        blocks = T._blocks
        bound = tuple([blocks[everything[i].data_ptr() >> 40] for i in call.bindings])
        try:
            hot.record(call.program, bound, params, call.grid)
        except BindingTooLarge:
            self.split(inputs, scalars, outs)

    def split(self, inputs, scalars, outs) -> None:
        """Work on buffers larger than one binding: halves, until each part's span fits a window of its buffer."""
        caps = gpu().caps
        tensors = [x for x in (*inputs, *outs) if not _is_scalar(x)]
        windows = [T.window_of(t, caps.max_binding) for t in tensors]
        if None in windows:
            self._halve(tensors[windows.index(None)].expand(outs[0].shape), inputs, scalars, outs)
            return
        aliases = self._aliases(inputs, outs)[1]
        compute, _ = self._dtypes(inputs)
        views = iter([v for _, v in windows])
        in_views = [None if _is_scalar(x) else next(views) for x in inputs]
        out_views = list(views)
        owned = [False] * len(outs)
        kernel = pointwise.plan(self.entry.spec, T.DTYPES[compute], in_views, out_views, owned, aliases, caps)
        params = kernel.params
        values = [x.item() if isinstance(x, _Tensor) else x for x in inputs if _is_scalar(x)]
        for pack, value in zip(kernel.packers, [*values, *scalars]):
            params += pack(value)
        buffers = iter([w for w, _ in windows])
        everything = [None if _is_scalar(x) else next(buffers) for x in inputs] + list(buffers)
        hot.record(kernel.program, tuple([everything[i] for i in kernel.bindings]), params, kernel.grid)

    def _halve(self, large, inputs, scalars, outs) -> None:
        """Two calls, split along the dimension that spreads `large` most."""
        shape = outs[0].shape
        dim = max(range(len(shape)), key=lambda d: (shape[d] - 1) * large.stride(d))
        middle = shape[dim] // 2 + (-(shape[dim] // 2) % 4 if shape[dim] > 8 else 0)
        for start, length in ((0, middle), (middle, shape[dim] - middle)):
            part = [x if _is_scalar(x) or not x.dim() else x.expand(shape).narrow(dim, start, length) for x in inputs]
            self.split(tuple(part), scalars, tuple([o.narrow(dim, start, length) for o in outs]))

    # -- planning

    def plan(self, key, inputs, outs=None, aliases=None) -> Call | Turning:
        self._check_devices(inputs)
        entry, caps = self.entry, gpu().caps
        compute, result = self._dtypes(inputs)
        shape = broadcast_shape([x.shape for x in inputs if isinstance(x, _Tensor)]) if outs is None else outs[0].shape
        views = [None if _is_scalar(x) else T.view_of(x) for x in inputs]
        if outs is None:
            strides = self._strides([x for x in inputs if not _is_scalar(x)], shape)
            wanted = [result if o in ("T", "bool") else _out_dtype(o, result) for o in entry.spec.outputs]
            metas = tuple(T.meta(shape, strides, dtype) for dtype in wanted)
            out_views = [View(T.DTYPES[m.dtype], m.sizes, m.strides) for m in metas]
            owned = [True] * len(metas)
            aliases = [None] * len(inputs)
        else:
            metas = ()
            out_views = [T.view_of(o) for o in outs]
            owned = [T.owns_tail(o) for o in outs]
        if numel(shape) > _MAX_ELEMENTS:
            for m in metas:
                T.new(m)  # most often this is what fails
            raise Unsupported(f"webgpu: {self.aten} of more elements than a kernel counts")
        empty = numel(shape) == 0
        kernel = None
        if not empty:
            kernel = pointwise.plan(entry.spec, T.DTYPES[compute], views, out_views, owned, aliases, caps)
        if len(self.plans) >= _MAX_PLANS:
            self.plans.clear()
        turns = kernel is not None and kernel.turned is not None
        call = self.plans[key] = (Turning if turns else Call)(kernel, metas, empty)
        return call

    def _strides(self, tensors, shape):
        return _output_strides(tensors, shape)

    def _dtypes(self, inputs):
        if self.entry.admit is not None:
            self.entry.admit(inputs)
        fixed = dict(self.entry.spec.types)
        promoted = [x for x, n in zip(inputs, self.entry.spec.inputs) if n not in fixed]
        promote = self.entry.promote
        compute, result = elementwise_dtypes(*promoted, type_promotion_kind=_KINDS[promote])
        if promote == "complex_to_float" and result != compute:
            compute = next(x.dtype for x in promoted if isinstance(x, _Tensor))
        if compute not in T.DTYPES or result not in T.DTYPES:
            raise Unsupported(f"webgpu: {self.aten} has no kernel for {compute}")
        return compute, result

    def _check_devices(self, inputs) -> None:
        for x in inputs:
            if isinstance(x, _Tensor) and x.device.type != T.NAME and not (x.is_cpu and x.dim() == 0):
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two devices, "
                    f"{T.DEVICE} and {x.device}! (aten::{self.aten})"
                )

    def _check_cast(self, inputs, outs) -> None:
        self._check_devices(inputs)
        _, promoted = self._dtypes(inputs)
        for out, kind in zip(outs, self.entry.spec.outputs):
            result = promoted if kind in ("T", "bool") else _out_dtype(kind, promoted)
            if out.device.type != T.NAME:
                raise RuntimeError(
                    f"Expected all tensors to be on the same device, but found at least two devices, {T.DEVICE} and "
                    f"{out.device}! (aten::{self.aten})"
                )
            if kind != "bool" and not torch.can_cast(result, out.dtype):
                raise RuntimeError(
                    f"result type {_scalar_name(result)} can't be cast to the desired output type "
                    f"{_scalar_name(out.dtype)}"
                )

    def _aliases(self, inputs, outs):
        """Inputs on an output's buffer: bound once where layouts agree, else copied first."""
        result, aliases = [], []
        for x in inputs:
            alias = None
            if not _is_scalar(x) and x.numel():
                block = T.block_of(x)
                for k, out in enumerate(outs):
                    if T.block_of(out) is not block:
                        continue
                    same = (
                        x.dtype == out.dtype
                        and x.storage_offset() == out.storage_offset()
                        and x.shape == out.shape
                        and x.stride() == out.stride()
                    )
                    if same:
                        alias = k
                    else:
                        x = x.clone()
                    break
            result.append(x)
            aliases.append(alias)
        return tuple(result), aliases


_OUT_DTYPE = {"i64": torch.int64, "i32": torch.int32, "f32": torch.float32, "c64": torch.complex64}


def _out_dtype(kind: str, promoted: torch.dtype) -> torch.dtype:
    """Of an output that does not follow the promoted inputs."""
    return torch.complex32 if kind == "c64" and promoted == torch.float16 else _OUT_DTYPE[kind]


_runners: dict[Pointwise, Elementwise] = {}


def runner(entry: Pointwise) -> Elementwise:
    """The one runner of an entry, with its plans."""
    found = _runners.get(entry)
    if found is None:
        found = _runners[entry] = Elementwise(entry)
    return found


def _is_scalar(x) -> bool:
    """A number, or a tensor of one element that lives on the CPU and joins as one."""
    return not isinstance(x, _Tensor) or x.is_cpu


def broadcast_shape(shapes) -> tuple[int, ...]:
    if not shapes:
        return ()
    shape = list(shapes[0])
    for other in shapes[1:]:
        if len(other) > len(shape):
            shape = [1] * (len(other) - len(shape)) + shape
        lead = len(shape) - len(other)
        for d, size in enumerate(other):
            have = shape[lead + d]
            if have != size:
                if have == 1:
                    shape[lead + d] = size
                elif size != 1:
                    raise RuntimeError(
                        f"The size of tensor a ({have}) must match the size of tensor b ({size}) at non-singleton "
                        f"dimension {lead + d}"
                    )
    return tuple(shape)


def _output_strides(tensors, shape):
    if all(t.shape == shape and t.is_contiguous() for t in tensors if t.dim()):
        return contiguous_strides(shape)
    metas = [torch.empty_strided(t.shape, t.stride(), device="meta").expand(shape) for t in tensors]
    return compute_elementwise_output_strides(*metas)


def _check_overlap(outs) -> None:
    for out in outs:
        if any(st == 0 and s > 1 for s, st in zip(out.shape, out.stride())):
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation."
            )


def resize_output(out: torch.Tensor, shape) -> None:
    """As torch resizes `out=`: silently where it is empty, with a warning where it is not."""
    if tuple(out.shape) == tuple(shape):
        return
    if out.numel():
        import warnings

        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
            f"match the required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch "
            "release outputs will not be resized unless they have zero elements.",
            stacklevel=3,
        )
    out.resize_(tuple(shape))


_SCALAR_NAMES = {
    torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.bfloat16: "BFloat16",
    torch.int64: "Long", torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte",
    torch.bool: "Bool", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble",
}  # fmt: skip


def _scalar_name(dtype: torch.dtype) -> str:
    return _SCALAR_NAMES.get(dtype, str(dtype))
