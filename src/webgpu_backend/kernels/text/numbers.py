"""Python numbers as parameter words, converted as torch converts them, and how a shader reads them."""

import math
from collections.abc import Callable, Collection
from struct import Struct, error, pack

_F16, _F32, _F64, _U32, _U64 = Struct("<e"), Struct("<f"), Struct("<d"), Struct("<I"), Struct("<Q")
_BITS = {"uint8": 8, "int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64, "uint64": 64}
_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}
_LARGEST["complex64"] = _LARGEST["float32"]
_WORDS = {"i64": 2, "u64": 2, "n64": 2, "nu64": 2, "c64": 2, "f64": 2, "c128": 4}  # of a carrier; others have one


def packed(words: Collection[int]) -> bytes:
    """Parameters that are u32."""
    return pack(f"<{len(words)}I", *words)


def _limits(dtype: str) -> tuple[int, int]:
    room = 1 << _BITS[dtype]
    return (0, room - 1) if dtype[0] == "u" else (-room // 2, room // 2 - 1)


def check(value, dtype: str) -> None:
    """Raises torch's error for a number that a dtype has no room for. Negative integers wrap to unsigned ones;
    infinities are numbers like others."""
    if dtype in _BITS:
        low, high = _limits(dtype)
        fits = low <= value.real <= high or (low == 0 and value.__class__ is int and -high <= value < 0)
    else:
        large = _LARGEST.get(dtype)
        fits = large is None or not any([large < abs(x) < float("inf") for x in (value.real, value.imag)])
    if not fits or (value.imag and not dtype.startswith(("complex", "bool"))):
        name = {"int32": "int", "bool": "bool", "float32": "float", "float64": "double", "float16": "c10::Half"}
        name["complex64"] = "c10::complex<float>"
        name = name.get(dtype, "c10::BFloat16" if dtype == "bfloat16" else f"{dtype}_t")
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")


_NAMES = {"uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long"}


def bounding(dtype: str, end: str, value):
    """A bound of whole numbers, "min" or "max": one that none of them is beyond is their own last, one that all of them
    are beyond is refused."""
    low, high = _limits(dtype)
    if value > high if end == "min" else value < low:
        name = _NAMES.get(dtype, dtype.replace("uint", "UInt"))
        raise RuntimeError(f"Clamp {end} value {value:g} is outside the representable range of {name}")
    return max(value, low) if end == "min" else min(value, high)


def packer(carrier: str, dtype: str, checked: bool, nonzero: bool = False, end: str = "") -> Callable[[object], bytes]:
    """Of numbers that are computed with as a dtype: they wrap, or must fit if they are `checked`; `end` is that which a
    bound is, where it need not fit."""
    plain, bits = PACKERS[carrier], _BITS.get(dtype)
    if end and bits:
        return lambda value: plain(bounding(dtype, end, value))
    low, room = (_limits(dtype)[0], 1 << bits) if bits in (8, 16) else (0, 0)

    def pack(value) -> bytes:
        if checked:
            check(value, dtype)
        if nonzero and not value:
            raise RuntimeError("ZeroDivisionError")
        return plain((_whole(value) - low) % room + low if room else value)

    return pack if checked or room or nonzero else plain


def rounded(plain: Callable[[object], bytes], dtype: str) -> Callable[[object], bytes]:
    """Packs a number as float16 or bfloat16 has it."""
    return lambda value: plain(_AS_FEW_BITS[dtype](float(value)))


def _as_f16(value: float) -> float:
    try:
        return _F16.unpack(_F16.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def _as_bf16(value: float) -> float:
    """To the nearest, of two the even one; from float32, as torch rounds."""
    value = _F32.unpack(_pack_f32(value))[0]
    if value - value != 0:  # an infinity, NaN
        return value
    bits = _U32.unpack(_F32.pack(value))[0]
    return _F32.unpack(_U32.pack((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000))[0]


_AS_FEW_BITS = {"float16": _as_f16, "bfloat16": _as_bf16}


def _real(value: complex, name: str) -> float:
    """Of a complex number that has no other part."""
    if value.imag:
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    return value.real


def _whole(value) -> int:
    return int(value if value.__class__ is not complex else _real(value, "int64_t"))


def _pack_f32(value) -> bytes:
    try:
        return _F32.pack(value)
    except OverflowError:
        return _F32.pack(float("inf") if value > 0 else float("-inf"))
    except error:
        return _pack_f32(_real(value, "float"))


def _pack_c64(value) -> bytes:
    value = complex(value)
    return _pack_f32(value.real) + _pack_f32(value.imag)


def _pack_f64(value) -> bytes:
    try:
        return _F64.pack(value)
    except OverflowError:  # an integer beyond any float
        return _F64.pack(float("inf") if value > 0 else float("-inf"))
    except error:
        return _pack_f64(_real(value, "double"))


def _pack_c128(value) -> bytes:
    value = complex(value)
    return _F64.pack(value.real) + _F64.pack(value.imag)


PACKERS = {
    "f32": _pack_f32,
    "i32": lambda v: _U32.pack(_whole(v) & 0xFFFFFFFF),
    "u32": lambda v: _U32.pack(_whole(v) & 0xFFFFFFFF),
    "bool": lambda v: _U32.pack(bool(v)),
    "c64": _pack_c64,
    "f64": _pack_f64,
    "c128": _pack_c128,
    **dict.fromkeys(("i64", "n64", "u64", "nu64"), lambda v: _U64.pack(_whole(v) & 0xFFFFFFFFFFFFFFFF)),
}
"""By carrier."""


def scalar_fields(name: str, carrier: str) -> list[str]:
    """Parameter fields that hold a number of a carrier, as `PACKERS` lays it out."""
    kind = {"f32": "f32", "i32": "i32", "c64": "f32"}.get(carrier, "u32")
    if carrier in _WORDS:
        return [f"s_{name}_{part}: {kind}" for part in "xyzw"[: _WORDS[carrier]]]
    return [f"s_{name}: {kind}"]


def scalar_text(name: str, carrier: str) -> str:
    """The number that those fields hold."""
    if carrier == "bool":
        return f"(p.s_{name} != 0u)"
    if carrier in ("i64", "u64"):
        return f"vec2<u32>(p.s_{name}_x, p.s_{name}_y)"
    if carrier == "c64":
        return f"vec2<f32>(p.s_{name}_x, p.s_{name}_y)"
    if carrier == "n64":
        return f"n64_load(p.s_{name}_x, p.s_{name}_y)"
    if carrier == "nu64":
        return f"u64(n64_load(p.s_{name}_x, p.s_{name}_y))"
    if carrier == "f64":
        return f"f64_load(p.s_{name}_x, p.s_{name}_y)"
    if carrier == "c128":
        return f"vec2<f64>(f64_load(p.s_{name}_x, p.s_{name}_y), f64_load(p.s_{name}_z, p.s_{name}_w))"
    return f"p.s_{name}"
