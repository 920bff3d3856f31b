"""Real `at::Tensor`s on the device, from pure Python.

A storage is made through a DLPack capsule (kDLExtDev); its data pointer encodes the block's place in the pool, and a
lease on the block hangs on the storage object, so memory returns to the pool when the last view dies. Every private
name of torch that this rests on is in this file or in `frontend/device.py`.
"""

import ctypes
from array import array
from collections.abc import Callable, Iterable
from threading import get_ident

import torch

from . import dtypes
from .kernels.layout import View, contiguous_strides, span
from .program import Window
from .runtime import gpu as runtime
from .runtime.blocks import Block, Lease, size_class
from .runtime.errors import OutOfMemory
from .runtime.gpu import gpu

NAME = "webgpu"

UID_BITS = 40  # data_ptr() >> 40 is the block's uid; the rest is the byte offset within the storage
_DL_CODES = {
    torch.float32: (2, 32), torch.float64: (2, 64), torch.float16: (2, 16), torch.bfloat16: (4, 16),
    torch.bool: (6, 8), torch.uint8: (1, 8), torch.int8: (0, 8), torch.int16: (0, 16), torch.int32: (0, 32),
    torch.int64: (0, 64), torch.uint16: (1, 16), torch.uint32: (1, 32), torch.uint64: (1, 64),
    torch.complex32: (5, 32), torch.complex64: (5, 64), torch.complex128: (5, 128),
    torch.float8_e4m3fn: (10, 8), torch.float8_e4m3fnuz: (11, 8), torch.float8_e5m2: (12, 8),
    torch.float8_e5m2fnuz: (13, 8),
}  # fmt: skip
DTYPES: dict[torch.dtype, dtypes.DType] = {getattr(torch, name): d for name, d in dtypes.ALL.items()}
# With those that are stored and converted, but not computed in.
STORED: dict[torch.dtype, dtypes.DType] = DTYPES | {getattr(torch, n): d for n, d in dtypes.FLOATS_OF_A_BYTE.items()}
if torch.tensor(1e9, device="cpu").to(torch.float8_e4m3fn).isnan():  # before torch 2.12
    STORED[torch.float8_e4m3fn] = dtypes.E4M3FN_NAN
TORCH_DTYPE: dict[str, torch.dtype] = {name: getattr(torch, name) for name in dtypes.ALL}

_from_dlpack = torch._C._from_dlpack
_capsule_new = ctypes.pythonapi["PyCapsule_New"]  # a function of its own, beside the attribute that all share
_capsule_new.restype = ctypes.py_object
_CAPSULE_NAME = ctypes.c_char_p(b"dltensor")
_NULL = ctypes.c_void_p(None)
_NAME_ADDRESS = ctypes.cast(_CAPSULE_NAME, ctypes.c_void_p).value
_NAME_OFFSET = object.__basicsize__ + 8  # in a capsule object: the pointer, then its name
reinterpret = torch._C._dynamo.guards._reinterpret_tensor  # (tensor, sizes, strides, elements further on), unchecked
Guards = torch._C._dynamo.guards.TensorGuards  # dtypes, sizes and strides of many tensors, compared at once
_cpu_as_strided = torch.ops.aten.as_strided.default._op_dk
_CPU = torch._C.DispatchKey.CPU
_inference = torch.is_inference_mode_enabled


class Meta:
    """What a tensor to be made looks like: sizes and strides in memory that DLPack can point to."""

    __slots__ = ("sizes", "strides", "dtype", "nbytes", "block_size", "memory", "words")

    def __init__(self, sizes, strides, dtype: torch.dtype):
        if dtype not in _DL_CODES:
            # Pairs of bfloat16 are what arithmetic may ask for, and within `+` a TypeError would lose its words.
            kind = NotImplementedError if dtype.is_complex else TypeError
            raise kind(f"webgpu: tensors of dtype {dtype} are not supported")
        n = len(sizes)
        code, bits = _DL_CODES[dtype]
        self.sizes = tuple(sizes)
        self.strides = tuple(strides)
        self.dtype = dtype
        elements = 0 if 0 in self.sizes else 1 + sum((s - 1) * st for s, st in zip(sizes, strides))
        self.nbytes = elements * bits // 8
        self.block_size = size_class(self.nbytes)
        self.memory = array("q", (*self.sizes, *self.strides, 0))
        base = self.memory.buffer_info()[0]
        # Words 2 to 4 of a DLManagedTensor: ndim, code, bits, lanes; shape*; strides*.
        self.words = array("Q", (n | code << 32 | bits << 40 | 1 << 48, base, base + 8 * n))


_WIDE = frozenset((torch.float64, torch.complex128))


def _check_wide(dtype: torch.dtype) -> None:
    if not gpu().caps.f64:
        raise TypeError(
            f"webgpu: {dtype} needs an adapter with the shader-f64 feature, and {gpu().name} was opened without "
            f"it; use {'torch.float32' if dtype is torch.float64 else 'torch.complex64'} "
            "(tensor.float(), or torch.set_default_dtype(torch.float32))"
        )


def _describe(block: Block) -> None:
    """Gives a block the DLManagedTensor from which its tensors are made, and a capsule around it that is used again
    and again: torch renames a capsule that it has taken, `make` puts the name back.

    That memory is never freed: torch reads its (null) deleter when a storage dies, at any later time.
    """
    try:
        if block.capsule is None:
            block.capsule, block.name, block.words = block.pool.descriptions.pop()
    except IndexError:
        # data, device (12 = kDLExtDev, index), words 2 to 4 of a Meta, byte_offset, context, deleter
        memory = (ctypes.c_uint64 * 8)(0, 12 | block.pool.index << 32)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
        block.words = memoryview(memory).cast("B").cast("Q")
        block.capsule = _capsule_new(ctypes.c_void_p(ctypes.addressof(memory)), _CAPSULE_NAME, _NULL)
        block.name = (ctypes.c_uint64 * 1).from_address(id(block.capsule) + _NAME_OFFSET)
        if block.name[0] != _NAME_ADDRESS:
            raise RuntimeError("webgpu: this build of Python keeps a capsule's name in an unknown place") from None
    block.words[0] = block.uid << UID_BITS


def make(meta: Meta) -> tuple[torch.Tensor, Block]:
    """An uninitialised tensor on the device, and its block."""
    try:
        block = _take(meta.nbytes, meta.block_size)
    except OutOfMemory as error:
        raise out_of_memory(meta.nbytes, error) from None
    lease = Lease()
    lease.block = block
    if block.meta is not meta:
        if block.meta is None:
            _describe(block)
        block.words[2:5] = meta.words
        block.meta = meta
    block.name[0] = _NAME_ADDRESS
    tensor = _from_dlpack(block.capsule)
    tensor.untyped_storage()._lease = lease
    return tensor, block


def space(size: int) -> Lease:
    """A block of a whole size class, for what is needed between two dispatches."""
    try:
        block = _take(size, size)
    except OutOfMemory as error:
        raise out_of_memory(size, error) from None
    lease = Lease()
    lease.block = block
    return lease


def new(meta: Meta) -> torch.Tensor:
    """An uninitialised tensor on the device."""
    return make(meta)[0]


class Unplannable(BaseException):
    """A function that is being planned asked for something that only a real tensor has. Not an Exception: no handler
    of an operator is meant by it."""


def _connect(nbytes: int, size: int) -> Block:
    """Binds `make` to the device's pool, at first use."""
    global _take, _blocks
    pool = gpu().pool
    _take, _blocks = pool.take, pool.blocks
    if runtime.several:
        separate()
    return _take(nbytes, size)


class _Unconnected:
    """The blocks of the current device: until there is one, and where there are several."""

    def __getitem__(self, uid: int) -> Block:
        return gpu().pool.blocks[uid]


class _Everywhere:
    """The blocks of all devices."""

    def __getitem__(self, uid: int) -> Block | None:
        for device in runtime.opened():
            block = device.pool.blocks[uid]
            if block is not None:
                return block
        return None


UNCONNECTED, EVERYWHERE = _Unconnected(), _Everywhere()
_take, _blocks = _connect, UNCONNECTED


def _take_here(nbytes: int, size: int) -> Block:
    """A block of the current device."""
    return gpu().pool.take(nbytes, size)


def separate() -> None:
    """A second device is about to be there: from now on every call asks for its own."""
    global _take, _blocks
    _take, _blocks = _take_here, EVERYWHERE


def taker():
    """What gives `make` its blocks."""
    return gpu().pool.take if _take is _connect else _take


def set_taker(take) -> None:
    """Blocks come from `take(nbytes, size)` from now on: a plan in the making has some without memory."""
    global _take, _blocks
    _take, _blocks = take, EVERYWHERE if runtime.several else gpu().pool.blocks


def disconnect() -> None:
    """Forgets the pool (a forked child must ask for the device again, and be refused)."""
    global _take, _blocks
    _take, _blocks = _connect, UNCONNECTED


def out_of_memory(nbytes: int, error: Exception) -> torch.OutOfMemoryError:
    pool = gpu().pool
    return torch.OutOfMemoryError(
        f"webgpu out of memory. Tried to allocate {_mib(nbytes)}. Of the memory in use, {_mib(pool.bytes_live)} is "
        f"allocated by tensors and {_mib(pool.bytes_pooled)} is pooled but free. The adapter says: {error}"
    )


def _mib(nbytes: int) -> str:
    return f"{nbytes / 2**20:.2f} MiB" if nbytes >= 1 << 20 else f"{nbytes} bytes"


_metas: dict[tuple, Meta] = {}


def meta(sizes, strides, dtype: torch.dtype) -> Meta:
    if dtype in _WIDE:
        _check_wide(dtype)
    key = (tuple(sizes), None if strides is None else tuple(strides), dtype)
    found = _metas.get(key)
    if found is None:
        if len(_metas) > 8192:
            _metas.clear()
        steps = contiguous_strides(key[0]) if strides is None else key[1]
        _check_sizes(key[0], steps, strides is None, dtype.itemsize)
        if dtype is torch.complex32:
            torch.empty(0, dtype=dtype, device="cpu")  # on the CPU, where torch warns of it once in a process
        found = _metas[key] = Meta(key[0], steps, dtype)
    return found


def _check_sizes(sizes: tuple, strides: tuple, contiguous: bool, item: int) -> None:
    """Raises what torch raises for a tensor that cannot be; its own check, deep in DLPack, would end the process."""
    if len(sizes) != len(strides):
        raise RuntimeError(
            f"dimensionality of sizes ({len(sizes)}) must match dimensionality of strides ({len(strides)})"
        )
    for s in sizes:
        if s < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {s}: {list(sizes)}")
    backwards = any([s > 1 and st < 0 for s, st in zip(sizes, strides)])
    if 0 not in sizes and (backwards or item * span(sizes, strides, 0)[1] >= 1 << 63):
        given = "" if contiguous else f" and strides={list(strides)}"
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(sizes)}{given}")


def empty(sizes, dtype: torch.dtype, strides=None) -> torch.Tensor:
    return new(meta(sizes, strides, dtype))


def block_of(tensor: torch.Tensor) -> Block:
    """The block under a tensor that has elements."""
    return _blocks[tensor.data_ptr() >> UID_BITS]


def dtype_of(tensor: torch.Tensor) -> dtypes.DType:
    try:
        return STORED[tensor.dtype]
    except KeyError:
        raise dtypes.Unsupported(f"webgpu: no kernels for dtype {tensor.dtype}") from None


def view_of(tensor: torch.Tensor) -> View:
    return View(dtype_of(tensor), tuple(tensor.shape), tensor.stride(), tensor.storage_offset())


def window_of(tensor: torch.Tensor, limit: int) -> tuple[Block | Window, View] | None:
    """What to bind for a tensor and its view from there: the block, or the part of it that the view spans. None where
    even that passes `limit`."""
    block, view = block_of(tensor), view_of(tensor)
    if block.size <= limit:
        return block, view
    item = view.dtype.size
    first, last = span(view.sizes, view.strides, view.offset)
    start = first * item & ~255
    size = min((last * item - start + 255) & ~255, block.size - start)
    if size > limit:
        return None
    return Window(block, start, size), view._replace(offset=view.offset - start // item)


def owns_tail(tensor: torch.Tensor) -> bool:
    """No other element of the storage comes after this view: the padding behind it may be written."""
    last = tensor.storage_offset()
    for s, st in zip(tensor.shape, tensor.stride()):
        last += (s - 1) * st
    return (last + 1) * tensor.element_size() >= tensor.untyped_storage().nbytes()


def as_strided(tensor: torch.Tensor, size, stride, storage_offset=None) -> torch.Tensor:
    """A view of the same storage, bounds checked as torch does."""
    own = tensor.storage_offset()
    offset = own if storage_offset is None else storage_offset
    last = offset
    for s, st in zip(size, stride):
        if s < 1 or st < 0:
            last = None
            break
        last += (s - 1) * st
    last = None if len(size) != len(stride) else last
    if last is None or (last + 1) * tensor.element_size() > tensor.untyped_storage().nbytes() or offset < 0:
        _check_view(tensor, size, stride, offset)
    if _inference() and not tensor.is_inference():
        # Made by torch itself: a view of an ordinary tensor is an ordinary tensor, also in inference mode.
        return _cpu_as_strided(_CPU, tensor, size, stride, offset)
    return reinterpret(tensor, tuple(size), tuple(stride), offset - own)


def element(tensor: torch.Tensor, k: int) -> torch.Tensor:
    """One element of a fresh, contiguous tensor, without a dimension."""
    return reinterpret(tensor, (), (), k)


def _check_view(tensor: torch.Tensor, size, stride, offset: int) -> None:
    """Raises what torch raises where sizes and strides leave the storage."""
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(st < 0 for st in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    if any(s < 0 for s in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    if 0 in size:
        return
    item, have = tensor.element_size(), tensor.untyped_storage().nbytes()
    need = (span(size, stride, offset)[1]) * item
    if need >= 1 << 63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}")
    if need > have:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize {item} "
            f"requiring a storage size of {need} are out of bounds for storage of size {have}"
        )


def share_memory(*tensors: torch.Tensor) -> bool:
    """Whether all lie on one block."""
    return len({t.data_ptr() >> UID_BITS for t in tensors}) == 1


def _steps(tensor: torch.Tensor) -> list[tuple[int, int]]:
    """Sizes and strides of the dimensions in which there is a step."""
    return [(s, st) for s, st in zip(tensor.shape, tensor.stride()) if s > 1]


def overlap(a: torch.Tensor, b: torch.Tensor) -> str:
    """ "", "partial" or "full"; as torch has it, "" too where a layout with gaps makes it hard to tell."""
    if not (a.numel() and b.numel() and a.device == b.device and share_memory(a, b)):
        return ""
    dense = torch.ops.aten.is_non_overlapping_and_dense.default
    if a is not b and not (dense(a) and dense(b)):
        return ""
    first, second = a.data_ptr(), b.data_ptr()
    last, end = first + a.numel() * a.element_size(), second + b.numel() * b.element_size()
    if first == second and last == end:
        return "full" if _steps(a) == _steps(b) else "partial"
    return "partial" if first < end and second < last else ""


def neighbours(tensors) -> bool:
    """Whether tensors of one element each lie in memory one after the other, as the norms of a list of tensors do."""
    start, item = tensors[0].data_ptr(), tensors[0].element_size()
    return [t.data_ptr() for t in tensors] == list(range(start, start + item * len(tensors), item))


def generation() -> int:
    """Moves when a data pointer may stand for another block than before."""
    return sum([device.pool.generation for device in runtime.opened()]) if runtime.several else gpu().pool.generation


# -- copies between the host and the device


_forbidden: tuple[str, int] | None = None  # why this thread may not touch values, while it captures


def forbid(why: str | None) -> None:
    """From now on this thread may not read or write tensors' values; None ends that."""
    global _forbidden
    _forbidden = None if why is None else (why, get_ident())


def _permitted() -> None:
    if _forbidden is not None and _forbidden[1] == get_ident():
        raise RuntimeError(_forbidden[0])


def _real(block: Block) -> Block:
    _permitted()
    if block.handle is None:
        raise Unplannable("the values of a tensor")
    return block


def read(tensor: torch.Tensor, host: torch.Tensor) -> None:
    """A dense tensor, which starts at a multiple of four bytes, to a host tensor's memory, after all recorded work."""
    _read(tensor, host.data_ptr())


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The memory of a tensor of one element."""
    item = tensor.element_size()
    start = tensor.storage_offset() * item
    block, within = _real(block_of(tensor)), start & 3
    return block.pool.queue.read_few(block, start - within, within + item)[within:]


def _read(tensor: torch.Tensor, address: int) -> None:
    item = tensor.element_size()
    start, nbytes = tensor.storage_offset() * item, tensor.numel() * item
    block = _real(block_of(tensor))
    block.pool.queue.read(block, start, address, nbytes)


def read_later(tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
    """A function that waits for what a small dense tensor holds after all recorded work, while the device goes on with
    what comes then. The tensor has a multiple of four bytes, and starts at one."""
    item = tensor.element_size()
    block = _real(block_of(tensor))
    late = block.pool.queue.read_later(block, tensor.storage_offset() * item, tensor.numel() * item)
    dtype, shape = tensor.dtype, tensor.shape
    return lambda: torch.frombuffer(bytearray(late.wait()), dtype=dtype).reshape(shape)


def places_of(tensors: Iterable[torch.Tensor]) -> tuple[int, ...]:
    """Where tensors lie: something else when one has been given other memory."""
    return tuple([tensor.data_ptr() for tensor in tensors])


def write(tensor: torch.Tensor, host: torch.Tensor) -> None:
    """A host tensor's memory to a dense tensor's, laid out just so, in order with recorded work. The tensor starts at a
    multiple of four bytes and ends at one, or owns what follows up to there."""
    _permitted()
    item = tensor.element_size()
    start, nbytes = tensor.storage_offset() * item, tensor.numel() * item
    block, address, whole = block_of(tensor), host.data_ptr(), nbytes & ~3
    queue = block.pool.queue  # of its device, or of a plan in the making
    if whole:
        queue.write(block, start, address, whole)
    if nbytes - whole:
        tail = ctypes.create_string_buffer(4)
        ctypes.memmove(tail, address + whole, nbytes - whole)
        queue.write(block, start + whole, ctypes.addressof(tail), 4)


def resize(storage: torch.UntypedStorage, nbytes: int) -> None:
    """Gives a storage a block of another size, with the bytes that fit."""
    lease = storage._lease
    keep = (min(lease.block.nbytes, nbytes) + 3) & ~3
    pool = _leased(lease).block.pool
    try:
        old = pool.swap(lease, nbytes)
    except OutOfMemory as error:
        raise out_of_memory(nbytes, error) from None
    if old is not lease.block and keep:
        pool.queue.copy(old, 0, lease.block, 0, min(keep, old.size, lease.block.size))


def _leased(lease: Lease) -> Lease:
    _real(lease.block)
    return lease


# -- devices


def here() -> torch.device:
    """The current device."""
    return torch.device(NAME, runtime.current())


def two_devices(op: str, device="cpu", first=None) -> RuntimeError:
    """The error for operands that are not all here, or where the first is."""
    first = here() if first is None else first
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {device}! ({op})"
    )


def is_ours(x) -> bool:
    return isinstance(x, torch.Tensor) and x.device.type == NAME
