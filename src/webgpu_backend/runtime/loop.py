"""The loop that encodes dispatches, in machine code where this system's is known.

A dispatch is four calls into the library, and the way there from Python takes longer than the calls themselves: 3 us
of 3.7. What is encoded again and again (`tape`) is therefore described in memory, and a loop of 113 bytes makes the
calls. Where the machine code is not known, or the system allows none, Python makes them.
"""

import ctypes
import mmap
import platform
import struct
import sys

from .native import NULL, ffi, lib

ENTRY = struct.Struct("<QQQQIIII")  # pipeline, bind group, parameters, their bytes, grid, nothing

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


def _address(value) -> int:
    return int(ffi.cast("uintptr_t", value))


def _machine_code():
    """The loop as a function, or None where it is not for this system."""
    if sys.platform != "linux" or platform.machine() != "x86_64" or struct.calcsize("P") != 8:
        return None
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        page.write(_X86_64)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        if protect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC):
            return None  # a system that lets no process make code
    except OSError:
        return None
    _kept.append(page)
    return ffi.cast("void (*)(void *, void *, size_t, void *)", address)


_kept: list = []
_calls = ffi.new("void *[]", [ffi.cast("void *", f) for f in _CALLS])
_loop = _machine_code()


class Entries:
    """Dispatches as the loop reads them: (pipeline, bind group, parameters, grid) each."""

    __slots__ = ("dispatches", "memory", "_keep")

    def __init__(self, dispatches: list[tuple]):
        self.dispatches = dispatches
        self.memory = None
        if _loop is not None:
            self._keep = [ffi.from_buffer(params) for _, _, params, _ in dispatches]
            packed = [
                ENTRY.pack(_address(pipeline), _address(group), _address(kept), len(params), *grid, 0)
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
            set_bind_group(encoder, 0, group, 0, NULL)
            if params:
                set_immediates(encoder, 0, params, len(params))
            dispatch(encoder, x, y, z)
