"""Python numbers as parameter words, converted as torch converts them."""

from collections.abc import Callable
from struct import Struct

_F32, _U32, _U64 = Struct("<f"), Struct("<I"), Struct("<Q")
_BITS = {"uint8": 8, "int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64, "uint64": 64}


def _limits(dtype: str) -> tuple[int, int]:
    room = 1 << _BITS[dtype]
    return (0, room - 1) if dtype[0] == "u" else (-room // 2, room // 2 - 1)


def check(value, dtype: str) -> None:
    """Raises torch's error for a number that an integer dtype has no room for. Negative integers wrap to unsigned
    ones. What is too large for a float is infinite."""
    if dtype in _BITS:
        low, high = _limits(dtype)
        fits = low <= value.real <= high or (low == 0 and value.__class__ is int and -high <= value < 0)
    else:
        fits = True
    if not fits or (value.imag and not dtype.startswith("complex")):
        name = {"int32": "int", "bool": "bool", "float32": "float", "float64": "double", "float16": "c10::Half"}
        name = name.get(dtype, "c10::BFloat16" if dtype == "bfloat16" else f"{dtype}_t")
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")


def packer(carrier: str, dtype: str, checked: bool) -> Callable[[object], bytes]:
    """Of numbers that are computed with as a dtype: they wrap, or must fit if they are `checked`."""
    plain, bits = PACKERS[carrier], _BITS.get(dtype)
    low, room = (_limits(dtype)[0], 1 << bits) if bits in (8, 16) else (0, 0)

    def pack(value) -> bytes:
        if checked:
            check(value, dtype)
        return plain((int(value) - low) % room + low if room else value)

    return pack if checked or room else plain


def _pack_f32(value) -> bytes:
    try:
        return _F32.pack(value)
    except OverflowError:
        return _F32.pack(float("inf") if value > 0 else float("-inf"))


def _pack_c64(value) -> bytes:
    value = complex(value)
    return _pack_f32(value.real) + _pack_f32(value.imag)


def _pack_f64(value) -> bytes:
    rest, words = float(value), b""
    for _ in range(3):
        word = _pack_f32(rest)
        part = _F32.unpack(word)[0]
        words += word
        rest = rest - part if part - part == 0.0 else 0.0
    return words


PACKERS = {
    "f32": _pack_f32,
    "i32": lambda v: _U32.pack(int(v) & 0xFFFFFFFF),
    "u32": lambda v: _U32.pack(int(v) & 0xFFFFFFFF),
    "bool": lambda v: _U32.pack(bool(v)),
    "c64": _pack_c64,
    "f64": _pack_f64,
    **dict.fromkeys(("i64", "n64", "u64", "nu64"), lambda v: _U64.pack(int(v) & 0xFFFFFFFFFFFFFFFF)),
}
"""By carrier."""
