"""Errors that only a kernel can see, such as an index out of range: a few words that kernels set and the host reads
whenever it waits anyway.

Kernels bind the words last, as `faults: array<atomic<u32>>`. The first bad index claims them: word 0 is 1, then the
site, the index (low and high word) and the size it had to be below. Nothing is read or written at a bad index.
"""

from typing import Any

from .blocks import Block

WORDS = 8
BYTES = 4 * WORDS
WRAPS = 1 << 31  # in a site: negative indices count from the end
_DIM_BITS = 8
_ops: list[str] = []
_ids: dict[str, int] = {}


def site(op: str, dim: int, wraps: bool) -> int:
    """The word by which a kernel names the operator and the dimension it was indexing."""
    number = _ids.get(op)
    if number is None:
        number = _ids[op] = len(_ops)
        _ops.append(op)
    return (WRAPS if wraps else 0) | number << _DIM_BITS | (dim & 0xFF)


def error(words: tuple[int, ...]) -> Exception:
    """The exception for a set of fault words."""
    _, place, low, high, size = words[:5]
    op, dim = _ops[(place & ~WRAPS) >> _DIM_BITS], place & 0xFF
    index = low | high << 32
    index -= (high >> 31) << 64
    if op == "masked_scatter":
        return RuntimeError(
            "masked_scatter: expected at least as many elements in source as ones in the mask, but it "
            f"has {size} and the mask asks for element {index}"
        )
    return IndexError(
        f"index {index} is out of bounds for dimension {dim} with size {size} (in aten::{op}; the device reports it "
        "when its results are waited for)"
    )


class Faults:
    """The words on the device; `watched`: a kernel that may set them has been recorded since the last look."""

    __slots__ = ("block", "watched")

    def __init__(self, handle: Any):
        self.block = Block(handle, 256)
        self.watched = False
