"""The cffi objects that wgpu-py loads, and how errors of direct calls become Python exceptions."""

from contextlib import contextmanager

from wgpu.backends.wgpu_native import ffi, lib
from wgpu.backends.wgpu_native._api import error_handler

from .blocks import unbroken
from .errors import DeviceError, DeviceLost, OutOfMemory

NULL = ffi.NULL


def text(value: str | bytes):
    """A WGPUStringView and the bytes that keep it alive."""
    data = ffi.new("char[]", value.encode() if isinstance(value, str) else value)
    return ffi.new("WGPUStringView *", {"data": data, "length": len(data) - 1})[0], data


_MEMORY_WORDS = ("not enough memory", "out of memory", "outofmemory", "exceeds the limit", "greater than the maximum")


def classify(kind: str, message: str) -> DeviceError:
    words = f"{kind} {message}".lower()
    if any(w in words for w in _MEMORY_WORDS):
        return OutOfMemory(message)
    if "lost" in words:
        return DeviceLost(message)
    return DeviceError(message)


@contextmanager
def checked(what: str):
    """Errors that wgpu-native reports inside this block are raised at its end."""
    error_handler.capture(what)
    error = None
    try:
        yield
    finally:
        error = error_handler.release(what)
    if error is not None:
        raise classify(error[0], f"{what}: {error[1]}")


_interrupts: list[BaseException] = []


def _keep(_kind, error, _traceback) -> None:
    _interrupts.append(error)


@ffi.callback("void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)", onerror=_keep)
def _mapped(status, _message, userdata1, _userdata2):
    ffi.cast("int *", userdata1)[0] = status


def when_mapped(status):
    """What a mapping calls: `status`, an int *, becomes its outcome."""
    values = {"mode": lib.WGPUCallbackMode_AllowProcessEvents, "callback": _mapped, "userdata1": status}
    return ffi.new("WGPUBufferMapCallbackInfo *", values)[0]


def raise_interrupt() -> None:
    """Control-C during a wait arrives in the callback, out of which nothing is raised."""
    if _interrupts:
        raise _interrupts.pop()


unbroken.update({raise_interrupt.__code__.co_filename, error_handler.capture.__code__.co_filename})
