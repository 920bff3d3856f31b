"""The loops that call the library very often, in machine code where this system's is known.

A dispatch is four calls, and the way there from Python takes longer than the calls themselves: 3 us of 3.7, and more
where another thread waits for the interpreter, which each of them gives away. So dispatches are described in memory,
those of a batch as they come (`Queue.record`) and those of a tape once, and a loop of 113 bytes makes the calls.

Another loop asks whether the device is done. Python would take the interpreter back after each question, from the
thread that gets the next commands ready meanwhile (`spares`).

Where the machine code is not known, or the system allows none, Python makes the calls.
"""

import ctypes
import mmap
import platform
import struct
import sys

from .native import NULL, ffi, lib

ENTRY = struct.Struct("<QQQQIIII")  # pipeline, bind group, parameters, their bytes, grid, nothing
BYTES_AT = bytes.__basicsize__ - 1  # where the bytes of a `bytes` are, from its address on

_CALLS = (
    lib.wgpuComputePassEncoderSetPipeline,
    lib.wgpuComputePassEncoderSetBindGroup,
    lib.wgpuComputePassEncoderSetImmediates,
    lib.wgpuComputePassEncoderDispatchWorkgroups,
)

# void loop(encoder, entries, count, calls), by the calling convention of Linux on x86-64.
_X86_64 = bytes.fromhex(
    "53 55 41 54 41 55 48 83 ec 08"  # push rbx, rbp, r12, r13; align the stack
    "48 89 fd 48 89 f3 49 89 d4 49 89 cd"  # rbp = encoder, rbx = entry, r12 = count, r13 = calls
    "4d 85 e4 74 4b"  # while r12:
    "48 89 ef 48 8b 33 41 ff 55 00"  # calls[0](encoder, pipeline)
    "48 89 ef 31 f6 48 8b 53 08 31 c9 45 31 c0 41 ff 55 08"  # calls[1](encoder, 0, group, 0, NULL)
    "48 8b 4b 18 48 85 c9 74 0d"  # if bytes:
    "48 89 ef 31 f6 48 8b 53 10 41 ff 55 10"  # calls[2](encoder, 0, parameters, bytes)
    "48 89 ef 8b 73 20 8b 53 24 8b 4b 28 41 ff 55 18"  # calls[3](encoder, x, y, z)
    "48 83 c3 30 49 ff cc eb b0"  # the next entry
    "48 83 c4 08 41 5d 41 5c 5d 5b c3"  # restore, return
)
# int ask(device, times, poll)
_ASK_X86_64 = bytes.fromhex(
    "53 55 41 54"  # push rbx, rbp, r12, which aligns the stack
    "48 89 fb 48 89 f5 49 89 d4"  # rbx = device, rbp = times, r12 = poll
    "48 85 ed 74 1e"  # while rbp:
    "48 89 df 31 f6 31 d2 41 ff d4"  # poll(device, 0, NULL)
    "a8 01 75 14"  # if al & 1: return 1
    "b9 28 00 00 00 f3 90 ff c9 75 fa"  # 40 pauses
    "48 ff cd eb dd"  # the next time
    "31 c0 eb 05"  # return 0
    "b8 01 00 00 00"
    "41 5c 5d 5b c3"  # restore, return
)


def address_of(value) -> int:
    return int(ffi.cast("uintptr_t", value))


def _bytes_are_there() -> bool:
    some = b"where the bytes are"
    return platform.python_implementation() == "CPython" and ctypes.string_at(id(some) + BYTES_AT, len(some)) == some


def code_page(code: bytes) -> int | None:
    """The address of memory with this machine code; None where the system lets no process make code."""
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        page.write(code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        if protect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC):
            return None
    except OSError:
        return None
    _kept.append(page)
    return address


def _machine_code() -> tuple:
    """The loops as functions, or None where they are not for this system."""
    if sys.platform != "linux" or platform.machine() != "x86_64" or struct.calcsize("P") != 8 or not _bytes_are_there():
        return None, None
    address = code_page(_X86_64 + _ASK_X86_64)
    if address is None:
        return None, None
    loop = ffi.cast("void (*)(void *, void *, size_t, void *)", address)
    return loop, ffi.cast("int (*)(void *, size_t, void *)", address + len(_X86_64))


_kept: list = []
_calls = ffi.new("void *[]", [ffi.cast("void *", f) for f in _CALLS])
_poll = lib.wgpuDevicePoll
_poll_address = ffi.cast("void *", _poll)
_loop, _ask = _machine_code()


def known() -> bool:
    """Whether dispatches may be packed."""
    return _loop is not None


def is_idle(device, times: int) -> bool:
    """Whether the device has done all that it has. Asks so many times where that takes no Python, 3 us apart, else
    once."""
    if _ask is not None:
        return bool(_ask(device, times, _poll_address))
    return bool(_poll(device, 0, NULL) & 1)  # the library answers in the lowest byte alone


class Packed:
    """Dispatches of one batch, described as they come and encoded at once."""

    __slots__ = ("memory", "count", "_at")

    def __init__(self, most: int):
        self.memory = bytearray(ENTRY.size * most)
        self._at = ffi.from_buffer(self.memory)
        self.count = 0

    def encode(self, encoder) -> None:
        count = self.count
        self.count = 0
        _loop(encoder, self._at, count, _calls)


class Entries:
    """Dispatches as the loop reads them: (pipeline, number of a bind group, parameters, grid) each."""

    __slots__ = ("dispatches", "memory", "_keep")

    def __init__(self, dispatches: list[tuple]):
        self.dispatches = dispatches
        self.memory = None
        if _loop is not None:
            self._keep = [ffi.from_buffer(params) for _, _, params, _ in dispatches]
            packed = [
                ENTRY.pack(address_of(pipeline), group, address_of(kept), len(params), *grid, 0)
                for (pipeline, group, params, grid), kept in zip(dispatches, self._keep)
            ]
            self.memory = ffi.new("char[]", b"".join(packed))

    def encode(self, encoder, first: int, count: int) -> None:
        """Encodes so many of them."""
        if self.memory is not None:
            _loop(encoder, self.memory + first * ENTRY.size, count, _calls)
            return
        set_pipeline, set_bind_group, set_immediates, dispatch = _CALLS
        for pipeline, group, params, (x, y, z) in self.dispatches[first : first + count]:
            set_pipeline(encoder, pipeline)
            set_bind_group(encoder, 0, ffi.cast("WGPUBindGroup", group), 0, NULL)
            if params:
                set_immediates(encoder, 0, params, len(params))
            dispatch(encoder, x, y, z)
