"""What a kernel's report of a bad index means: the operator, the dimension, and torch's words for it."""

from ..runtime import faults

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


def _error(words: tuple[int, ...]) -> Exception:
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


faults.raised = _error
