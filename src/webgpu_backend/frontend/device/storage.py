"""Storages of the device: what torch answers in C++ for its own devices only, and crashes for others."""

import ctypes
from functools import wraps

import torch

from ... import tensor as T

_byte_count_offset: int | None = None


def find_byte_count(_resize) -> str | None:
    """Finds where StorageImpl keeps its byte count, which torch lets nobody change from Python; or says why not."""
    global _byte_count_offset
    storage = torch.empty(123457, dtype=torch.int8, device="cpu").untyped_storage()
    words = (ctypes.c_int64 * 16).from_address(storage._cdata)
    places = [i for i in range(16) if words[i] == 123457]
    if len(places) != 1:
        return "a storage's size is kept in an unknown place"
    words[places[0]] = 654321
    seen = storage.nbytes()
    words[places[0]] = 123457
    if seen != 654321:
        return "a storage's size cannot be changed where it is kept"
    _byte_count_offset = places[0] * 8
    return None


def resize_storage(storage: torch.UntypedStorage, nbytes: int) -> torch.UntypedStorage:
    """In place: every tensor on the storage sees the new size, and keeps the bytes that fit."""
    T.resize(storage, nbytes)
    ctypes.c_int64.from_address(storage._cdata + _byte_count_offset).value = nbytes
    return storage


def resize(original):
    @wraps(original)
    def resize_(self, size):
        return resize_storage(self, int(size)) if self.device.type == T.NAME else original(self, size)

    return resize_


def new(original):
    @wraps(original)
    def __new__(cls, *args, **kwargs):
        device = kwargs.get("device")
        if device is None or torch.device(device).type != T.NAME:
            return original(cls, *args, **kwargs)
        first = args[0] if args else 0
        data = None if isinstance(first, int) else torch.tensor(list(first), dtype=torch.uint8, device="cpu")
        tensor = torch.empty((first if data is None else data.numel(),), dtype=torch.uint8, device=device)
        if data is not None:
            tensor.copy_(data)
        return tensor.untyped_storage()

    return staticmethod(__new__)


def item(original):
    """A part of a storage is a copy of it: WebGPU has no buffer within a buffer."""

    @wraps(original)
    def __getitem__(self, *args, **kwargs):
        if self.device.type != T.NAME or not args or not isinstance(args[0], slice):
            return original(self, *args, **kwargs)
        start, stop, step = args[0].indices(self.nbytes())
        if step != 1:
            raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
        whole = torch.empty((0,), dtype=torch.uint8, device=self.device).set_(self)
        return whole[start : max(start, stop)].clone().untyped_storage()

    return __getitem__


def unpinned(original):
    """Tensors that are kept for gradients are copied to plain memory."""

    @wraps(original)
    def __init__(self, pin_memory=False, device_type="cuda"):
        original(self, pin_memory and device_type != T.NAME, device_type)

    return __init__


# -- DLPack: a capsule of ours would hold a number that no other library can read as an address


def unshared(original):
    """In the place of a function that hands a tensor's memory to another library."""

    @wraps(original)
    def export(tensor, *args, **kwargs):
        if isinstance(tensor, torch.Tensor) and tensor.device.type == T.NAME:
            raise BufferError(
                "webgpu: the device's memory cannot be shared through DLPack, WebGPU gives no address for it; "
                "copy to the host first: tensor.cpu()"
            )
        return original(tensor, *args, **kwargs)

    return export
