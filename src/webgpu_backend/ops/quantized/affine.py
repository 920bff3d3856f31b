"""Codes of numbers and back: what torch's quantised dtypes hold, as plain whole numbers."""

from functools import cache

import torch

from ... import tensor as T
from ..pointwise.elementwise import Elementwise
from ..shape.copy import image_format, like_strides
from ..table import Pointwise, expression

CODES = {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32}
"""torch's quantised dtypes that the device takes: those of one code to an element."""
_Scale = float | torch.Tensor


class _Coded(Elementwise):
    """Computes in float32 and writes the codes' dtype, which torch would call another kind of number."""

    def _dtypes(self, inputs):
        return torch.float32, torch.float32

    def _check_cast(self, inputs, outs):
        self._check_devices(inputs)


def _entry(name: str, source: str, types: dict[str, str], **rest) -> Pointwise:
    return expression(name, source, arity=3, types=types, **rest)


def _encoder(name: str, rounded: str) -> _Coded:
    source = f"q = {rounded}\nk = min(max(where(isnan(q), low, q), low), high)\n"
    source += "where(k >= 2147483648.0, 2147483647, int(k))"  # the largest is no float
    return _Coded(_entry(name, source, {"b": "f32", "c": "f32"}, scalars=("low", "high"), outputs=("i32",)))


# Builds of torch round before or after they add the zero point, which shows where two codes are as near.
_ENCODERS = _encoder("encode", "round(a * (1 / b)) + c"), _encoder("encode_last", "round(a * (1 / b) + c)")
# As on the CPU: codes of one scale wrap, those of a scale for each channel do not.
_DECODE = _Coded(_entry("decode", "float(a - b) * c", {"a": "i32", "b": "i32", "c": "f32"}))
_DECODE_EACH = _Coded(_entry("decode_each", "(float(a) - float(b)) * c", {"a": "i32", "b": "i32", "c": "f32"}))


@cache
def _rounds_last() -> bool:
    return torch.quantize_per_tensor(torch.tensor(0.25, device="cpu"), 0.1, 3, torch.quint8).int_repr().item() == 6


def along(values: torch.Tensor, x: torch.Tensor, axis: int) -> torch.Tensor:
    """One value for each index of a dimension, to be broadcast."""
    return values.reshape([-1 if d == axis % x.dim() else 1 for d in range(x.dim())])


def _made(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return T.new(T.meta(x.shape, like_strides(x, image_format(x)), dtype))


def encode(x: torch.Tensor, scale: _Scale, zero: _Scale, dtype: torch.dtype) -> torch.Tensor:
    """Codes of numbers. NaN gets the lowest."""
    out, ends = _made(x, CODES[dtype]), torch.iinfo(CODES[dtype])
    _ENCODERS[_rounds_last()].into((x, scale, zero, float(ends.min), float(ends.max)), (out,))
    return out


def decode(codes: torch.Tensor, scale: _Scale, zero: int | torch.Tensor) -> torch.Tensor:
    out = _made(codes, torch.float32)
    (_DECODE_EACH if isinstance(scale, torch.Tensor) else _DECODE).into((codes, zero, scale), (out,))
    return out
