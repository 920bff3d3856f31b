"""Tensors of torch's quantised dtypes (quint8, qint8, qint32): codes on the device, and what codes mean.

torch's own are made by C++ alone, over memory of its allocators. Here one is a subclass whose dispatch key says that it
is quantised and whose codes are a plain tensor of the device: every operator comes to `__torch_dispatch__`, below. What
only moves elements moves codes, comparisons are those of the numbers; the rest is refused in words, as by other
devices than the CPU. torch deprecates these dtypes: torchao and `webgpu_backend.quantize_` quantise models.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ... import tensor as T
from ...ops.quantized.affine import CODES, along, decode, encode
from ...ops.shape.copy import image_format
from ...plan import caps
from ...plan.places import placed

aten = torch.ops.aten
_DTYPES = {codes: dtype for dtype, codes in CODES.items()}
_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.QuantizedPrivateUse1)
_KERNELS: dict[object, Callable] = {}


@dataclass(frozen=True)
class PerTensor:
    scale: float
    zero: int

    kind, number = torch.per_tensor_affine, 0

    def encode(self, numbers: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return encode(numbers, self.scale, float(self.zero), dtype)

    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        return decode(codes, self.scale, self.zero)

    def on_host(self, codes: torch.Tensor) -> torch.Tensor:
        return torch._make_per_tensor_quantized_tensor(codes, self.scale, self.zero)

    def empty(self, size, **options) -> torch.Tensor:
        return torch._empty_affine_quantized(size, scale=self.scale, zero_point=self.zero, **options)


@dataclass(frozen=True, eq=False)
class PerChannel:
    scales: torch.Tensor
    """On the CPU, as the zero points are."""
    zeros: torch.Tensor
    axis: int

    kind, number = torch.per_channel_affine, 1

    def scales_on(self, device: torch.device) -> torch.Tensor:
        """In float32 where the adapter has no float64."""
        return (self.scales if caps().f64 else self.scales.float()).to(device)

    def _along(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple([along(v.to(x.device), x, self.axis) for v in (self.scales.float(), self.zeros.int())])

    def encode(self, numbers: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        scales, zeros = self._along(numbers)
        return encode(numbers, scales, zeros.float(), dtype)

    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        return decode(codes, *self._along(codes))

    def on_host(self, codes: torch.Tensor) -> torch.Tensor:
        return torch._make_per_channel_quantized_tensor(codes, self.scales, self.zeros, self.axis)

    def empty(self, size, **options) -> torch.Tensor:
        given = dict(scales=self.scales, zero_points=self.zeros, axis=self.axis)
        return torch._empty_per_channel_affine_quantized(size, **given, **options)


def _scheme_of(x: torch.Tensor) -> PerTensor | PerChannel:
    if x.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return PerTensor(x.q_scale(), x.q_zero_point())
    if x.qscheme() not in (torch.per_channel_affine, torch.per_channel_symmetric):
        raise NotImplementedError(f"webgpu: tensors of {x.qscheme()} cannot be on the device")
    return PerChannel(x.q_per_channel_scales().cpu(), x.q_per_channel_zero_points().cpu(), x.q_per_channel_axis())


class QuantizedTensor(torch.Tensor):
    codes: torch.Tensor
    scheme: PerTensor | PerChannel

    @staticmethod
    def __new__(cls, codes: torch.Tensor, scheme: PerTensor | PerChannel):
        made = torch.Tensor._make_wrapper_subclass(
            cls, codes.shape, strides=codes.stride(), storage_offset=codes.storage_offset(),
            dtype=_DTYPES[codes.dtype], device=codes.device, _extra_dispatch_keys=_KEYS,
        )  # fmt: skip
        made.codes, made.scheme = codes, scheme
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        kernel = _KERNELS.get(op)
        if kernel is None:
            raise NotImplementedError(
                f"webgpu: {op.name()} is not there for tensors of quantized dtypes; dequantize() gives numbers, "
                "int_repr() codes, cpu() a tensor of the CPU, which knows more of them"
            )
        return kernel(*args, **(kwargs or {}))

    def __deepcopy__(self, memo):
        memo[id(self)] = made = self.clone()
        return made

    def __reduce_ex__(self, protocol):
        """As torch writes its own down, with the codes' memory: it can be read on any device."""
        storage = torch.storage.TypedStorage(
            wrap_storage=self.codes.untyped_storage(), dtype=self.dtype, _internal=True
        )
        s = self.scheme
        how = (s.kind, s.scale, s.zero) if isinstance(s, PerTensor) else (s.kind, s.scales, s.zeros, s.axis)
        place = storage, self.codes.storage_offset(), tuple(self.shape), self.stride()
        return torch._utils._rebuild_qtensor, (*place, how, False, OrderedDict())


# -- how they come to be


def _checked(dtype: torch.dtype) -> torch.dtype:
    if dtype not in CODES:
        raise NotImplementedError(f"webgpu: tensors of {dtype} cannot be on the device; those of {[*CODES]} can")
    return dtype


def per_tensor(self, scale, zero_point, dtype):
    one = torch.zeros(min(self.numel(), 1), dtype=self.dtype, device="cpu")
    torch.quantize_per_tensor(one, scale, zero_point, dtype)  # the CPU's errors
    scheme = PerTensor(float(scale), int(zero_point))
    return QuantizedTensor(scheme.encode(self, _checked(dtype)), scheme)


def per_tensor_of_tensors(self, scale, zero_point, dtype):
    return per_tensor(self, scale.item(), zero_point.item(), dtype)


def list_per_tensor(tensors, scales, zero_points, dtype):
    return [per_tensor(x, s, z, dtype) for x, s, z in zip(tensors, scales.tolist(), zero_points.tolist())]


def dynamic(self, dtype, reduce_range):
    ends = self.detach().reshape(-1)
    if len(ends):
        ends = torch.stack(ends.aminmax())
    like = torch.quantize_per_tensor_dynamic(ends.cpu(), dtype, reduce_range)
    return per_tensor(self, like.q_scale(), like.q_zero_point(), dtype)


def _thin(shape, axis: int) -> list[int]:
    """One element for each channel: what the CPU's kernels check axis, scales and zero points by."""
    return [n if d == axis else min(n, 1) for d, n in enumerate(shape)]


def per_channel(self, scales, zero_points, axis, dtype):
    like = torch.zeros(_thin(self.shape, axis), dtype=self.dtype, device="cpu")
    scheme = _scheme_of(torch.quantize_per_channel(like, scales.cpu(), zero_points.cpu(), axis, _checked(dtype)))
    return QuantizedTensor(scheme.encode(self, dtype), scheme)


def of_codes(self, scale, zero_point):
    return QuantizedTensor(self.clone(memory_format=torch.contiguous_format), PerTensor(scale, zero_point))


def of_codes_per_channel(self, scale, zero_point, axis):
    like = torch.zeros(_thin(self.shape, axis), dtype=self.dtype, device="cpu")
    scheme = _scheme_of(torch._make_per_channel_quantized_tensor(like, scale.cpu(), zero_point.cpu(), axis))
    return QuantizedTensor(self.clone(memory_format=torch.contiguous_format), scheme)


def _empty(like: torch.Tensor, size, device, memory_format) -> torch.Tensor:
    """Of a scheme like that of a tensor of the CPU."""
    if memory_format in (None, torch.preserve_format):
        memory_format = torch.contiguous_format
    codes = torch.empty(size, dtype=CODES[_checked(like.dtype)], device=device, memory_format=memory_format)
    return QuantizedTensor(codes, _scheme_of(like))


def empty_per_tensor(size, *, device=None, memory_format=None, layout=None, pin_memory=None, **how):
    return _empty(torch._empty_affine_quantized([0], device="cpu", **how), size, device, memory_format)


def empty_per_channel(size, *, axis, device=None, memory_format=None, layout=None, pin_memory=None, **how):
    how |= {name: how[name].cpu() for name in ("scales", "zero_points")}
    like = torch._empty_per_channel_affine_quantized(_thin(size, axis), axis=axis, device="cpu", **how)
    return _empty(like, size, device, memory_format)


def from_cpu(self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    """torch's own kernel would take the result for one of its own."""
    moved = QuantizedTensor(_codes_of(self).to(device), _scheme_of(self))
    asked = dtype is not None or memory_format not in (None, torch.preserve_format)
    return to_copy(moved, dtype=dtype, memory_format=memory_format) if asked else moved


def _codes_of(x: torch.Tensor) -> torch.Tensor:
    """With the strides of a tensor of the CPU, whose codes torch gives contiguous ones."""
    return x.codes if isinstance(x, QuantizedTensor) else torch.empty_strided(
        x.shape, x.stride(), dtype=CODES[_checked(x.dtype)], device="cpu"
    ).copy_(x.int_repr())  # fmt: skip


def register(library: torch.library.Library) -> None:
    kernels = {
        "quantize_per_tensor": per_tensor, "quantize_per_tensor.tensor_qparams": per_tensor_of_tensors,
        "quantize_per_tensor.tensors": list_per_tensor, "quantize_per_tensor_dynamic": dynamic,
        "quantize_per_channel": per_channel, "_make_per_tensor_quantized_tensor": of_codes,
        "_make_per_channel_quantized_tensor": of_codes_per_channel,
    }  # fmt: skip
    for name, kernel in kernels.items():
        library.impl(name, placed(kernel, name), "PrivateUse1")
    library.impl("_empty_affine_quantized", empty_per_tensor, "QuantizedPrivateUse1")
    library.impl("_empty_per_channel_affine_quantized", empty_per_channel, "QuantizedPrivateUse1")


# -- what is done with them


def _kernel(*ops):
    def enter(function: Callable) -> Callable:
        _KERNELS.update(dict.fromkeys(ops, function))
        return function

    return enter


@_kernel(aten.dequantize.self)
def dequantize(self):
    return self.scheme.decode(self.codes)


@_kernel(aten.dequantize.tensors)
def list_dequantize(tensors):
    return [x.dequantize() for x in tensors]


@_kernel(aten.int_repr.default)
def int_repr(self):
    return self.codes.clone(memory_format=image_format(self.codes))


@_kernel(aten.qscheme.default)
def qscheme(self):
    return self.scheme.number  # as C++ counts them, which takes nothing else


def _asked(op, kind: type, answer: Callable) -> None:
    @_kernel(op)
    def kernel(self):
        if not isinstance(self.scheme, kind):
            raise RuntimeError(f"Expected quantizer->qscheme() == k{kind.__name__}Affine to be true, but got false.")
        return answer(self)


_asked(aten.q_scale.default, PerTensor, lambda self: self.scheme.scale)
_asked(aten.q_zero_point.default, PerTensor, lambda self: self.scheme.zero)
_asked(aten.q_per_channel_scales.default, PerChannel, lambda self: self.scheme.scales_on(self.device))
_asked(aten.q_per_channel_zero_points.default, PerChannel, lambda self: self.scheme.zeros.to(self.device))
_asked(aten.q_per_channel_axis.default, PerChannel, lambda self: self.scheme.axis)


def _one_scale(self, op) -> PerTensor:
    if not isinstance(self.scheme, PerTensor):
        raise NotImplementedError(f"webgpu: {op.name()} is not there for tensors with a scale for each channel")
    return self.scheme


def _moving(op, every: bool = False) -> None:
    """An operator whose result has elements of its input; with `every`, all of them in their places."""

    @_kernel(op)
    def kernel(self, *args, **kwargs):
        if not every:
            _one_scale(self, op)
        moved = op(self.codes, *args, **kwargs)
        if isinstance(moved, torch.Tensor):
            return QuantizedTensor(moved, self.scheme)
        return [QuantizedTensor(x, self.scheme) for x in moved]


for op in (aten.alias.default, aten.detach.default, aten.clone.default):
    _moving(op, every=True)
for op in (
    aten.view.default, aten._unsafe_view.default, aten._reshape_alias.default, aten.permute.default,
    aten.transpose.int, aten.t.default, aten.slice.Tensor, aten.select.int, aten.squeeze.default, aten.squeeze.dim,
    aten.squeeze.dims, aten.unsqueeze.default, aten.expand.default, aten.as_strided.default, aten.unbind.int,
    aten.split.Tensor, aten.split_with_sizes.default, aten.diagonal.default, aten.unfold.default, aten.flip.default,
    aten.index.Tensor, aten.index_select.default,
):  # fmt: skip
    _moving(op)


def _ordering(op) -> None:
    """An operator that looks at the order of elements, which is that of their codes."""

    @_kernel(op)
    def kernel(self, *args, **kwargs):
        scheme = _one_scale(self, op)
        found = op(self.codes, *args, **kwargs)
        if isinstance(found, torch.Tensor):
            return QuantizedTensor(found, scheme)
        return QuantizedTensor(found[0], scheme), *found[1:]


for op in (
    aten.max.default, aten.min.default, aten.max.dim, aten.min.dim, aten.sort.default, aten.sort.stable,
    aten.topk.default,
):  # fmt: skip
    _ordering(op)


def _comparing(op) -> None:
    @_kernel(op)
    def kernel(self, other):
        return op(*[x.dequantize() if isinstance(x, torch.Tensor) and x.is_quantized else x for x in (self, other)])


for packet in (aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge):
    _comparing(packet.Tensor)
    _comparing(packet.Scalar)


def _alike(a, b) -> bool:
    if isinstance(a, PerTensor) or isinstance(b, PerTensor):
        return a == b
    return a.axis == b.axis and torch.equal(a.scales, b.scales) and torch.equal(a.zeros, b.zeros)


@_kernel(aten.equal.default)
def equal(self, other):
    if not (isinstance(self, QuantizedTensor) and isinstance(other, QuantizedTensor)):
        if self.device != other.device:
            raise T.two_devices("aten::equal", self.device, other.device)
        raise RuntimeError("aten::equal takes two tensors of quantized dtypes, or none")
    if self.dtype != other.dtype or not _alike(self.scheme, other.scheme):
        return False
    return torch.equal(self.codes, other.codes)


@_kernel(aten.relu.default)
def relu(self):
    return QuantizedTensor(self.codes.clamp_min(_one_scale(self, aten.relu.default).zero), self.scheme)


@_kernel(aten.relu_.default)
def relu_(self):
    self.codes.clamp_min_(_one_scale(self, aten.relu_.default).zero)
    return self


@_kernel(aten.fill_.Scalar, aten.fill_.Tensor)
def fill_(self, value):
    numbers = torch.full((), float(value), device=self.device)
    self.codes.copy_(_one_scale(self, aten.fill_.Scalar).encode(numbers, self.dtype))
    return self


@_kernel(aten.empty_like.default)
def empty_like(self, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    if dtype not in (None, self.dtype):
        raise RuntimeError(
            "It is currently not supported to specify a dtype that doesn't match the input tensor's dtype"
        )
    if device is not None and device.type != T.NAME:
        return self.scheme.empty(self.shape, dtype=self.dtype, device=device)
    return QuantizedTensor(torch.empty_like(self.codes, device=device, memory_format=memory_format), self.scheme)


@_kernel(aten._to_copy.default)
def to_copy(self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    if dtype not in (None, self.dtype):
        raise RuntimeError(_NOT_PLAIN)
    codes = self.codes.to(device or self.device, copy=True, memory_format=memory_format or torch.preserve_format)
    if codes.device.type == T.NAME:
        return QuantizedTensor(codes, self.scheme)
    made = self.scheme.on_host(codes)
    return made.contiguous(memory_format=image_format(codes))


_NOT_PLAIN = (
    "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize to get a float Tensor "
    "from a quantized Tensor"
)


@_kernel(aten.copy_.default)
def copy_(self, src, non_blocking=False):
    if not self.is_quantized:
        raise RuntimeError(_NOT_PLAIN)
    if not isinstance(self, QuantizedTensor):
        return self.copy_(to_copy(src, device=self.device))
    if not src.is_quantized:
        if src.dtype != torch.float32:
            raise RuntimeError("Quantized copy only works with kFloat as source Tensor")
        if src.shape != self.shape:
            raise RuntimeError("Quantized copy only works with Tensors with the same shape")
        self.codes.copy_(self.scheme.encode(src.to(self.device), self.dtype))
        return self
    if src.dtype != self.dtype:
        raise RuntimeError("Quantized Copy only works with same dtype")
    scheme = _scheme_of(src)
    if scheme.kind != self.scheme.kind:
        raise RuntimeError("Quantized Copy only works with same qscheme")
    self.codes.copy_(_codes_of(src))
    self.scheme = scheme
    return self


@_kernel(aten.set_.source_Storage_storage_offset)
def set_(self, source, storage_offset, size, stride=()):
    self.codes.set_(source, storage_offset, size, stride)
    return QuantizedTensor(self.codes, self.scheme)
