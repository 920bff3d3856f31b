"""Copies: between host and device, and between layouts and dtypes on the device. Fills."""

import warnings
from functools import cached_property
from struct import Struct

import torch
from torch.nn.parameter import UninitializedTensorMixin

from ... import tensor as T
from ...kernels.layout import contiguous_strides, order_by
from ...kernels.pointwise.elementwise import Spec
from ...plan import cache
from ...plan.forms import Pattern, short_form
from ...plan.places import on, several
from ...plan.run import execute
from ...runtime.errors import BindingTooLarge
from ..overlap import expanded, no_internal_overlap, once
from ..pointwise.elementwise import Elementwise, Into
from ..table import Pointwise, custom

_KEEPS = (None, torch.preserve_format)  # what is dense keeps its strides
_RAW = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


_told: list[bool] = []


def _tell_of_lost_parts() -> None:
    """Once in a process, as torch does; where all warnings are asked for, when a copy is planned."""
    if not _told or torch.is_warn_always_enabled():
        _told.append(True)
        warnings.warn("Casting complex values to real discards the imaginary part", stacklevel=3)


class _Copy(Elementwise):
    """A copy converts: the target's dtype rules, and nothing refuses the cast."""

    def _dtypes(self, inputs):
        source, target = inputs[0], self.target
        if torch.is_tensor(source) and source.is_complex() and not target.is_complex and target is not torch.bool:
            _tell_of_lost_parts()
        return self.target, self.target

    def _check_cast(self, inputs, outs):
        return None

    def _strides(self, tensors, shape):
        return like_strides(tensors[0], self.format)

    @cached_property
    def onto(self):
        """(source, target): writes to a target of any layout."""
        return Into(self).form("tt")

    @cached_property
    def fill(self):
        """(number, target): one number to every element of a target."""
        return Into(self).form("pt")


def dense(tensor: torch.Tensor) -> bool:
    """The elements fill one range of memory in some order."""
    return tensor.is_contiguous() or torch.ops.aten.is_non_overlapping_and_dense.default(tensor)


def device_copy(source: torch.Tensor, target: torch.Tensor) -> None:
    """source to target, both here, any layouts and dtypes; source broadcasts."""
    if not target.numel():
        return
    if _marked(source) and source.numel() and T.block_of(source) is T.block_of(target):
        source = clone(source)  # here: whoever copies it later would negate what is taken for plain
    conj = source.is_complex() and source.is_conj() != target.is_conj()  # a real number is its own conjugate
    neg = source.is_neg() != target.is_neg()
    plain_source, plain_target = _plain(source), _plain(target)
    if plain_source.dtype not in T.STORED or plain_target.dtype not in T.STORED:
        return _exotic_copy(source, target)
    text = {(True, False): "conj(a)", (False, True): "-a", (True, True): "-conj(a)", (False, False): "a"}[conj, neg]
    _copier(target.dtype, text).onto(plain_source, plain_target)


_copiers: dict[tuple, _Copy] = {}


def _copier(target: torch.dtype, text: str, name: str = "copy", format=None) -> _Copy:
    found = _copiers.get((target, text, name, format))
    if found is None:
        types = (("a", "own"),) if text == "a" and name == "copy" else ()
        found = _Copy(Pointwise(f"{name}_", Spec(name, text, types=types, checked=True), "none"))
        found.target, found.format = target, format
        _copiers[target, text, name, format] = found
    return found


def _copied(source: torch.Tensor, dtype: torch.dtype, format) -> torch.Tensor:
    """A new tensor with the elements of one that has no conj or neg bit."""
    return _copier(dtype, "a", "copy", format)(source)


def _marked(tensor: torch.Tensor) -> bool:
    return tensor.is_conj() or tensor.is_neg()


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory without conj and neg bits."""
    if _marked(tensor):
        return T.reinterpret(tensor, tuple(tensor.shape), tensor.stride(), 0)
    return tensor


def _unmarked(tensor: torch.Tensor) -> torch.Tensor:
    """As _plain, by turning the bits back: a reinterpreted tensor still says it is conjugate."""
    tensor = tensor.conj() if tensor.is_conj() else tensor
    return torch._neg_view(tensor) if tensor.is_neg() else tensor


def _exotic_copy(source: torch.Tensor, target: torch.Tensor) -> None:
    """Dtypes that no shader knows (complex128): same-dtype copies move bits, the rest goes by the host."""
    if source.dtype == target.dtype and source.element_size() in _RAW and not source.is_conj():
        raw = _RAW[source.element_size()]
        device_copy(source.view(raw), target.view(raw))
        return
    conj, neg = source.is_conj() != target.is_conj(), source.is_neg() != target.is_neg()
    source, target = _unmarked(source), _unmarked(target)
    if source.dtype == target.dtype == torch.complex128 and not conj and not neg:
        device_copy(torch.view_as_real(source).view(torch.int64), torch.view_as_real(target).view(torch.int64))
        return
    host = torch.empty(source.shape, dtype=source.dtype, device="cpu")
    to_host(source, host)
    host = host.to(target.dtype)
    host = host.conj().resolve_conj() if conj else host
    from_host(-host if neg else host, target)


def to_host(source: torch.Tensor, target: torch.Tensor) -> None:
    """Device to CPU, after all recorded work."""
    if not source.numel():
        return
    if source.shape != target.shape:
        source = source.expand(target.shape)
    direct = source.dtype == target.dtype and not (source.is_conj() or source.is_neg())
    if direct and source.is_contiguous() and target.is_contiguous() and _word_aligned(source):
        T.read(source, target)
        return
    if direct and source.stride() == target.stride() and _word_aligned(source) and dense(source):
        T.read(source, target)
        return
    if not (source.is_contiguous() and _word_aligned(source)) or source.is_conj() or source.is_neg():
        packed = T.empty(source.shape, source.dtype)
        device_copy(source, packed)
        source = packed
    if source.dtype == target.dtype and target.is_contiguous():
        T.read(source, target)
        return
    host = torch.empty(source.shape, dtype=source.dtype, device="cpu")
    T.read(source, host)
    target.copy_(host)


def _as_it_lies(source: torch.Tensor, dtype, format) -> bool:
    """A copy to the host of this dtype and format has the source's bytes, in order."""
    return (
        dtype in (None, source.dtype)
        and format in _KEEPS
        and source.is_contiguous()
        and T.block_of(source) is not None  # it is on this device, and not empty
        and _word_aligned(source)
        and not _marked(source)
    )


def _word_aligned(tensor: torch.Tensor) -> bool:
    return tensor.storage_offset() * tensor.element_size() % 4 == 0


def from_host(source: torch.Tensor, target: torch.Tensor) -> None:
    """CPU to device, in order with recorded work."""
    if not target.numel():
        return
    if target.is_conj() or target.is_neg():
        fresh = T.empty(target.shape, target.dtype)
        from_host(source, fresh)
        device_copy(fresh, target)
        return
    item = target.element_size()
    nbytes = target.numel() * item
    start = target.storage_offset() * item
    whole = start % 4 == 0 and (nbytes % 4 == 0 or T.owns_tail(target))
    if whole and (target.is_contiguous() or dense(target)):
        if source.dtype != target.dtype or source.shape != target.shape or source.stride() != target.stride():
            host = torch.empty_strided(target.shape, target.stride(), dtype=target.dtype, device="cpu")
            host.copy_(source)
            source = host
        elif source.is_conj() or source.is_neg():
            source = source.resolve_conj().resolve_neg()
        T.write(target, source)
        return
    # Casting happens on the host where the device has no such dtype, and on the device where that moves fewer bytes.
    fresh = T.empty(source.shape, target.dtype)
    from_host(source, fresh)
    device_copy(fresh, target)


def between(source: torch.Tensor, target: torch.Tensor) -> None:
    """From one device to another, by way of the host. Dtypes are converted where that moves fewer bytes."""
    dtype = source.dtype if source.element_size() <= target.element_size() else target.dtype
    source = source.to(dtype)
    host = torch.empty(source.shape, dtype=dtype, device="cpu")
    with on(source.device.index):
        to_host(source, host)
    with on(target.device.index):
        from_host(host if host.shape == target.shape else host.expand(target.shape), target)


@custom("_copy_from", writes=("dst",), returns=("dst",), conj="direct")
def copy_from(self, dst, non_blocking=False):
    if not isinstance(self, torch.Tensor):
        no_internal_overlap(dst)
        return fill(dst, self)
    if self.device.type != T.NAME:
        if not self.is_cpu:
            self = self.cpu()
        from_host(self if self.size() == dst.size() else self.expand(dst.shape), dst)
    elif dst.device.type == T.NAME:
        if self.device.index == dst.device.index:
            device_copy(self, dst)
        else:
            between(self, dst)
    elif dst.is_cpu:
        to_host(self, dst)
    else:
        dst.copy_(self.cpu())
    return dst


@custom("_copy_from_and_resize", planned=False)
def copy_from_and_resize(self, dst):
    if dst.shape != self.shape:
        dst.resize_(self.shape)
    return copy_from(self, dst)


def like_strides(tensor: torch.Tensor, memory_format=None) -> tuple[int, ...]:
    """Strides of a copy, as `torch.empty_like` chooses them on the CPU: on the meta device it has other ones for
    dimensions of one element, which tell channels_last from other formats."""
    if memory_format is torch.contiguous_format:
        return contiguous_strides(tensor.shape)
    if memory_format in _KEEPS and dense(tensor):
        return tensor.stride()
    shadow = torch.empty_strided(tensor.shape, tensor.stride(), device="meta")
    return torch.empty_like(shadow, memory_format=memory_format or torch.preserve_format).stride()


def image_format(*tensors: torch.Tensor) -> torch.memory_format:
    """channels_last where the strides of one of these are like that, as torch's kernels for images ask."""
    for x in tensors:
        wanted = _LAST.get(x.dim())
        if wanted is not None and _channels_last(x):
            return wanted
    return torch.contiguous_format


_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _channels_last(x: torch.Tensor) -> bool:
    """torch's own rule, which also takes parts of such images."""
    sizes, strides, least = x.shape, x.stride(), 0
    for d in (1, *range(x.dim() - 1, 1, -1), 0):
        if not sizes[d] or strides[d] < least or not strides[1] or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * max(sizes[d], 1)
    return True


def laid(tensor: torch.Tensor, format: torch.memory_format) -> torch.Tensor:
    """In that format; a copy where it is not."""
    return tensor if format is torch.contiguous_format else tensor.contiguous(memory_format=format)


def restrided(tensor: torch.Tensor, strides) -> torch.Tensor:
    """With these strides, as far as they say anything; a copy where it has others."""
    if not tensor.numel() or all([s == 1 or a == b for s, a, b in zip(tensor.shape, tensor.stride(), strides)]):
        return tensor
    out = T.empty(tensor.shape, tensor.dtype, strides)
    device_copy(tensor, out)
    return out


def memory_order(tensor: torch.Tensor) -> list[int]:
    """Dimensions of a copy as `torch.empty_like` lays it out, outermost first."""
    return order_by(tensor.shape, like_strides(tensor))


@custom("clone", conj="direct")
def clone(self, *, memory_format=None):
    dtype = self.dtype
    if dtype in T.STORED and not _marked(self):
        return _copied(self, dtype, memory_format)
    out = T.empty(self.shape, dtype, like_strides(self, memory_format))
    device_copy(self, out)
    return out


@custom("_conj_physical", conj="direct")
def conj_physical(self):
    """Of a conjugated view too, which torch hands over as it is."""
    return clone(self.conj())


@custom("_lazy_clone", conj="direct")
def lazy_clone(self):
    """Not lazy: torch's own would share the memory until one of both is written, and knows of no writes here."""
    return clone(self)


def _leaves(tensor: torch.Tensor, device: torch.device | None) -> bool:
    """Whether a copy to this device goes to another one than the tensor's."""
    named = several() and device is not None and device.type == T.NAME and tensor.device.type == T.NAME
    return named and tensor.device.index != (T.here().index if device.index is None else device.index)


@custom("_to_copy", conj="direct")
def to_copy(self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    """Registered because torch's own would pin the host's memory for a copy that need not be waited for."""
    if isinstance(self, UninitializedTensorMixin):  # of a lazy module before its first call: nothing is there yet
        return torch.empty(self.size(), dtype=dtype or self.dtype, device=device or self.device)
    if _leaves(self, device):
        out = torch.empty_strided(
            self.shape, like_strides(self, memory_format), dtype=dtype or self.dtype, device=device
        )
        between(self, out)
        return out
    if device is None and layout is None and dtype in T.STORED and self.dtype in T.STORED and not _marked(self):
        return _copied(self, dtype, memory_format)  # a cast
    if device is not None and device.type == "cpu" and _as_it_lies(self, dtype, memory_format):
        out = torch.empty(self.shape, dtype=self.dtype, device="cpu")
        T.read(self, out)
        return out
    if layout is not None and layout is not torch.strided:
        raise NotImplementedError(f"webgpu: tensors of layout {layout} are not supported; use torch.strided")
    dtype = self.dtype if dtype is None else dtype
    here = device is None or device.type == T.NAME
    if here and dtype in T.STORED and self.dtype in T.STORED and self.device.type == T.NAME and not _marked(self):
        return _copied(self, dtype, memory_format)
    strides = like_strides(self, memory_format)
    sizes = self.size()  # not .shape, which lazy modules' parameters refuse to give before the first call
    if here:
        out = T.empty(sizes, dtype, strides)
    else:
        out = torch.empty_strided(sizes, strides, dtype=dtype, device=device)
    if not out.numel():
        return out
    return copy_from(self, out)  # torch also comes here with a tensor of the CPU on its way to the device


@custom("_local_scalar_dense", planned=False)
def local_scalar_dense(self):
    if not self.numel():
        raise RuntimeError("_local_scalar_dense: Empty tensor not supported")
    memory, unpack = T.bytes_of(self), _ITEM.get(self.dtype)
    if unpack is not None and not self.is_neg():
        return unpack(memory)[0]
    host = torch.frombuffer(bytearray(memory), dtype=self.dtype)[0]
    host = host.conj() if self.is_conj() else host
    return (-host if self.is_neg() else host).item()


_ITEM = {
    torch.float32: Struct("<f").unpack_from,
    torch.int64: Struct("<q").unpack_from,
    torch.int32: Struct("<i").unpack_from,
    torch.bool: Struct("<?").unpack_from,
    torch.float16: Struct("<e").unpack_from,
}


_MANY = 1 << 18  # elements for which a view is worth its time


def fill(tensor: torch.Tensor, value) -> torch.Tensor:
    """Every element of a tensor, whatever its layout."""
    if not tensor.numel():
        return tensor
    if expanded(tensor):
        fill(once(tensor), value)
        return tensor
    if tensor.is_conj() or tensor.is_neg():
        device_copy(fill(T.empty((), tensor.dtype), value), tensor)
        return tensor
    if tensor.dtype not in T.STORED:
        from_host(torch.full((), value, dtype=tensor.dtype, device="cpu").expand(tensor.shape), tensor)
        return tensor
    if _wide_zeros(tensor, value):
        fill(tensor.view(-1).view(torch.int32), 0)  # flat: a last dimension of one may have any stride
        return tensor
    return _copier(tensor.dtype, "a", "fill").fill(value, tensor)


def _wide_zeros(tensor: torch.Tensor, value) -> bool:
    """Sixteen bytes a thread, not thirty-two, are better."""
    many = tensor.numel() >= _MANY and tensor.element_size() == 8
    return value.__class__ is int and not value and many and tensor.is_contiguous()


class _Fills(Into):
    """Calls of `fill_`, whose number is a parameter of the kernel rather than a part of the plan."""

    def __init__(self):
        self.plans, self.name = cache.table("fill_"), "fill_"

    def _general(self, args: tuple):
        return fill(*args)

    def miss(self, key: tuple, tensors: list, bound: list, args: tuple, kwargs: dict):
        target, value = args
        if None in bound or target.dtype not in T.STORED or _wide_zeros(target, value) or expanded(target):
            return fill(target, value)
        run = _copier(target.dtype, "a", "fill")
        run.check_into((value,), (target,), True)
        plan = run.plan(self.plans, key, (value,), (target,), [None])
        try:
            execute(plan, bound[:], tensors, run.packed(plan, (value,)))
        except BindingTooLarge:
            fill(target, value)
        return target


custom("fill_.Scalar", refuses=False)(short_form(_Fills(), Pattern("tp", 2, (), 0, (0,), (0,), "odd"), (None, None)))


@custom("fill_.Tensor", conj="direct")
def fill_tensor_(self, value):
    if value.dim():
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.dim()} dimensions."
        )
    no_internal_overlap(self)
    if value.is_cpu:
        return fill(self, value.to(self.dtype).item())  # cast as a tensor is, which never overflows
    device_copy(clone(value) if value.numel() and self.numel() and T.share_memory(value, self) else value, self)
    return self


@custom("zero_", conj="direct")
def zero_(self):
    return fill(self, 0)
