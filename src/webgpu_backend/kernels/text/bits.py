"""Elements as bits: data movement asks only how wide an element is, so one shader serves every dtype of a width."""

from dataclasses import replace
from functools import cache

from ...dtypes import UINT8, UINT16, UINT32, UINT64, UINT128, DType, Unsupported
from ...program import Caps

_BY_SIZE = {1: UINT8, 2: UINT16, 4: UINT32, 8: UINT64, 16: UINT128}


def bits_of(size: int) -> DType:
    """The unsigned type of that many bytes."""
    try:
        return _BY_SIZE[size]
    except KeyError:
        raise Unsupported(f"webgpu: no kernels for elements of {size} bytes") from None


@cache
def plain(caps: Caps) -> Caps:
    """Bits need no optional feature: eight bytes are two words, halves are packed by hand."""
    return replace(caps, i64=False, f16=False)


def fields(name: str, size: int) -> list[str]:
    """Parameter fields that hold one element's bits."""
    return [f"{name}_{part}: u32" for part in "xyzw"[: size // 4]] if size > 4 else [f"{name}: u32"]


def text(name: str, size: int) -> str:
    """The element those fields hold, as the carrier of `bits_of(size)`."""
    if size > 4:
        return f"vec{size // 4}<u32>({', '.join(f'p.{name}_{part}' for part in 'xyzw'[: size // 4])})"
    return f"p.{name}" if size == 4 else f"i32(p.{name})"
