"""What a kernel's report of a bad index means: the operator, the dimension, and torch's words for it."""

import os
from functools import cache
from inspect import currentframe
from struct import pack

import torch

from .. import env
from ..runtime import faults

WRAPS = 1 << 31  # in a site: negative indices count from the end
_DIM_BITS = 8
ASSERTED = "assertion: "  # in place of an operator, before what is said
_FIRST = 0x2B5D1  # numbers that parameters hold for no other reason: `_where` looks for them there
_ops: list[str] = []
_ids: dict[str, int] = {}


def site(op: str, dim: int, wraps: bool) -> int:
    """The word by which a kernel names the operator and the dimension it was indexing."""
    number = _ids.get(op)
    if number is None:
        number = _ids[op] = _FIRST + len(_ops)
        _ops.append(op)
    return (WRAPS if wraps else 0) | number << _DIM_BITS | (dim & 0xFF)


def operators() -> dict[int, str]:
    """The operators that sites name, by number."""
    return dict(enumerate(_ops, _FIRST))


_LIBRARIES = (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__)), "<short form")


@cache
def _inside(filename: str) -> bool:
    return filename.startswith(_LIBRARIES)


def _caller() -> tuple:
    """The innermost frame that is neither torch's nor ours: its code, and where in it."""
    frame = currentframe()
    while frame is not None and _inside(frame.f_code.co_filename):
        frame = frame.f_back
    return (None, 0) if frame is None else (frame.f_code, frame.f_lasti)


def _line(code, instruction: int) -> str:
    line = next((line for start, end, line in code.co_lines() if start <= instruction < end), None)
    return f"{code.co_filename}:{line or code.co_firstlineno}"


def _where(place: int, watched: dict[tuple, tuple]) -> str:
    """The lines that called for kernels with this site."""
    site = pack("<I", place)
    found = [_line(code, at) for (_, _, at), (params, code) in watched.items() if code is not None and site in params]
    lines = list(dict.fromkeys(found))
    return f", called at {' or '.join(lines[-3:])}" if lines else ""


def _error(words: tuple[int, ...], watched: dict[tuple, tuple]) -> Exception:
    _, place, low, high, size = words[:5]
    op, dim = _ops[((place & ~WRAPS) >> _DIM_BITS) - _FIRST], place & 0xFF
    index = low | high << 32
    index -= (high >> 31) << 64
    when = (
        ""
        if env.BLOCKING
        else "; the device reports it when its results are waited for, with WEBGPU_BLOCKING=1 at once"
    )
    if op.startswith(ASSERTED):
        told = f"(in aten::_assert_async{_where(place, watched)}{when})"
        return RuntimeError(f"{op.removeprefix(ASSERTED)} {told}")
    told = f"(in {op if '::' in op else 'aten::' + op}{_where(place, watched)}{when})"
    if op == "masked_scatter":
        return RuntimeError(
            "masked_scatter: expected at least as many elements in source as ones in the mask, but it "
            f"has {size} and the mask asks for element {index} {told}"
        )
    if op == "embedding_bag":
        return RuntimeError(
            f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {index}, "
            f"and there are {size} {told}"
        )
    return IndexError(f"index {index} is out of bounds for dimension {dim} with size {size} {told}")


faults.raised, faults.caller = _error, _caller
