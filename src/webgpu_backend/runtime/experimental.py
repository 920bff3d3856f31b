"""wgpu's experimental features, matrix units among them: they are there, and no caller from C can ask for them.

wgpu refuses a device that wants one unless the request carries a token, which Rust programs can give and wgpu-native 29
cannot. Which features are experimental it asks of a function, through the table of addresses (GOT) that the loader has
filled in. While a device of ours is requested, the address there is that of two lines of machine code that say: none.

Where that is not the layout of the library, or the system does not let its table be written, `allowed` changes nothing.
"""

import ctypes
import mmap
import os
import platform
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from . import loop
from .native import lib

_NAME = b"wgpu_types8features8Features21all_experimental_mask"
_NONE_X86_64 = bytes.fromhex("31 c0 31 d2 c3")  # rax = rdx = 0, which are the two words of a set of features; return
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


class _Library(ctypes.Structure):  # Dl_info
    _fields_ = [
        ("path", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("at", ctypes.c_void_p),
    ]


@cache
def _entry() -> tuple[int, int] | None:
    """Where the function's address stands, and the address of the code that replaces it."""
    if sys.platform != "linux" or platform.machine() != "x86_64" or struct.calcsize("P") != 8:
        return None
    found = _Library()
    try:
        dladdr = ctypes.CDLL(None).dladdr
    except AttributeError:
        return None
    if not dladdr(ctypes.c_void_p(loop.address_of(lib.wgpuCreateInstance)), ctypes.byref(found)):
        return None
    with open(os.fsdecode(found.path), "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as image:
        places = _places(image)
    if places is None:
        return None
    function, first, end = places
    words = (ctypes.c_uint64 * ((end - first) // 8)).from_address(found.base + first)
    slots = [i for i, word in enumerate(words) if word == found.base + function]
    code = loop.code_page(_NONE_X86_64) if len(slots) == 1 else None
    return None if code is None else (found.base + first + 8 * slots[0], code)


def _places(image: mmap.mmap) -> tuple[int, int, int] | None:
    """Of the library's file: where the function is, and where the table of addresses begins and ends."""
    if image[:6] != b"\x7fELF\x02\x01":
        return None
    (start,) = struct.unpack_from("<Q", image, 40)
    size, count, names = struct.unpack_from("<HHH", image, 58)
    sections = [_SECTION.unpack_from(image, start + size * i) for i in range(count)]
    offset = sections[names][4]
    by_name = {image[offset + s[0] : image.find(b"\0", offset + s[0])]: s for s in sections}
    if not {b".symtab", b".strtab", b".got"} <= set(by_name):
        return None
    texts, symbols, table = by_name[b".strtab"], by_name[b".symtab"], by_name[b".got"]
    at = image.find(_NAME, texts[4], texts[4] + texts[5])
    if at < 0:
        return None
    name = struct.pack("<I", image.rfind(b"\0", texts[4], at) + 1 - texts[4])
    at = symbols[4]
    while (at := image.find(name, at, symbols[4] + symbols[5])) >= 0:
        if (at - symbols[4]) % _SYMBOL.size == 0:
            return _SYMBOL.unpack_from(image, at)[4], table[3], table[3] + table[5]
        at += 1
    return None


def known() -> bool:
    """Whether experimental features can be asked for."""
    return _entry() is not None


@contextmanager
def allowed() -> Iterator[None]:
    """Inside, a device may have experimental features."""
    entry = _entry()
    if entry is None:
        yield
        return
    slot, code = entry
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    page = slot & ~(mmap.PAGESIZE - 1)
    if protect(page, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE):
        yield
        return
    word = ctypes.c_uint64.from_address(slot)
    before, word.value = word.value, code
    try:
        yield
    finally:
        word.value = before
        protect(page, mmap.PAGESIZE, mmap.PROT_READ)
