"""Fourier transforms of any length over any dimensions."""

import math
from functools import lru_cache, wraps

import torch
from torch._prims_common import canonicalize_dim

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.fft import fft
from ...kernels.layout import numel, strides_in
from ...plan import caps, constant, launch
from ..by_index import run
from ..oversize import by_free_dimension
from ..shape.copy import like_strides, restrided
from ..sort.scan import blocks_of
from ..table import COMPOSITE, composed, custom

_DOUBLE = (torch.float64, torch.complex128)


def _spectrum_dtype(x: torch.Tensor) -> torch.dtype:
    return torch.complex128 if x.dtype in _DOUBLE else torch.complex64


def _scale(normalization: int, count: int) -> float:
    """torch's fft_norm_mode: 0 none, 1 by the root of the number of elements, 2 by that number."""
    return (1.0, 1.0 / math.sqrt(count), 1.0 / count)[normalization] if count else 1.0


def _launch(kernel, x: torch.Tensor, out: torch.Tensor, count: int, inner: int, forward: bool, scale: float):
    launch(fft.plan_local(kernel, count, inner, forward, scale, x.storage_offset(), caps()), x, out)
    return out


def _local(x: torch.Tensor, sizes, out_shape, load: str, store: str, forward: bool, scale: float):
    """The transform in one dispatch, with what comes before and after it, or in two; None where it does not fit."""
    outer, length, inner = sizes
    if x.dtype in _DOUBLE or (length & (length - 1) and outer * length * inner < fft.WORTH):
        return None
    found = fft.local(length, inner > 1, load, store, caps())
    if found is not None:
        out = T.empty(out_shape, torch.float32 if store == "real" else torch.complex64)
        return _launch(found, x, out, outer * inner, inner, forward, scale)
    whole = inner == 1 and store == "complex" and not length & (length - 1)
    parts = fft.halves(length, load, caps()) if whole else None
    if parts is None:
        return None
    first, one, other = parts
    rest = length // first
    work = _launch(one, x, T.empty(out_shape, torch.complex64), outer * rest, rest, forward, scale)
    return _launch(other, work, T.empty(out_shape, torch.complex64), outer * first, first, forward, 1.0)


def transform(x: torch.Tensor, sizes, forward: bool, scale: float) -> torch.Tensor:
    """The transform of contiguous complex `x` along the middle of (outer, length, inner), times `scale`."""
    length = sizes[1]
    radices = fft.radices(length)
    if length == 1:
        return x * scale if scale != 1.0 else x
    if radices is None:
        return _bluestein(x, sizes, forward, scale)
    done = _local(x, sizes, x.shape, "complex", "complex", forward, scale)
    if done is not None:
        return done
    if caps().kind == "gpu":
        radices = sorted(radices)  # a thread's outputs of the first pass are neighbours: few of them
    source, done, spare = x, 1, None
    for number, radix in enumerate(radices, start=1):
        out = spare if spare is not None else T.empty(x.shape, x.dtype)
        factor = scale if number == len(radices) else 1.0
        step = fft.plan_pass(
            radix, numel(sizes), length, sizes[2], done, forward, factor, source.storage_offset(), x.dtype in _DOUBLE,
            caps(),
        )  # fmt: skip
        launch(step, source, out)
        spare = source if source is not x else None
        source = out
        done *= radix
    return source


@lru_cache(maxsize=16)
def _chirp_spectrum(length: int, padded: int, dtype: torch.dtype, adapter, device: int) -> torch.Tensor:
    """The transform of the chirp filter, kept because every call with this length needs it."""

    def make():
        filter_ = T.empty((padded,), dtype)
        run(fft.kernel("chirp", dtype in _DOUBLE, adapter), (), (filter_,), length, 1, padded, 1.0, 1.0)
        return transform(filter_, (1, padded, 1), True, 1.0)

    return constant(make)


def _bluestein(x: torch.Tensor, sizes, forward: bool, scale: float) -> torch.Tensor:
    """A transform of any length as a convolution with a chirp, through lengths that are powers of two."""
    outer, length, inner = sizes
    padded = fft.padded_length(length)
    rows = outer * inner
    sign = 1.0 if forward else -1.0
    double = x.dtype in _DOUBLE
    spectrum = _chirp_spectrum(length, padded, x.dtype, caps(), T.here().index)
    work = T.empty((rows, padded), x.dtype)
    run(fft.kernel("chirp_in", double, caps()), (x,), (work,), length, inner, padded, sign, 1.0)
    product = T.empty((rows, padded), x.dtype)
    turned = transform(work, (rows, padded, 1), True, 1.0)
    run(fft.kernel("chirp_mul", double, caps()), (turned, spectrum), (product,), length, inner, padded, 1.0, 1.0)
    back = transform(product, (rows, padded, 1), False, 1.0 / padded)
    out = T.empty(x.shape, x.dtype)
    run(fft.kernel("chirp_out", double, caps()), (back,), (out,), length, inner, padded, sign, scale)
    return out


def _complex(x: torch.Tensor) -> torch.Tensor:
    if x.dtype is torch.complex32:
        raise Unsupported(f"webgpu: no Fourier transform of {x.dtype}")
    return x.to(_spectrum_dtype(x)).resolve_conj().resolve_neg().contiguous()


def _dims(x: torch.Tensor, dim) -> list[int]:
    return [canonicalize_dim(x.dim(), d) for d in dim]


def _over(x: torch.Tensor, dims: list[int], forward: bool, scale: float) -> torch.Tensor:
    if not dims:
        return x * scale if scale != 1.0 else x
    for k, d in enumerate(reversed(dims)):
        x = transform(x, blocks_of(x.shape, d), forward, scale if k == len(dims) - 1 else 1.0)
    return x


def _after(strides, sizes, dims: list[int]) -> tuple[int, ...]:
    """Strides after MKL's transform: what it passes over lies outermost, by the strides it had, then `dims`."""
    over = sorted([d for d in range(len(sizes)) if d not in dims], key=lambda d: -strides[d])
    return strides_in(sizes, [*over, *dims])


def _by_stride(strides, dims: list[int]) -> list[int]:
    return sorted(dims, key=lambda d: -strides[d])


def _laid_by_torch(function):
    """With the strides that torch gives on the CPU and expects in graphs, where it has MKL and where it has not."""
    kind = function.__name__

    @wraps(function)
    def call(self, dim, *rest):
        out = function(self, dim, *rest)
        dims, strides = _dims(self, dim), self.stride()
        if not dims:
            return restrided(out, like_strides(self))
        if kind == "fft_c2c":
            return restrided(out, _after(strides, out.shape, _by_stride(strides, dims)))
        if not torch.backends.mkl.is_available():
            return out
        if kind == "fft_r2c":
            return restrided(out, _after(strides, out.shape, [*_by_stride(strides, dims[:-1]), dims[-1]]))
        if dims[:-1]:
            strides = _after(strides, self.shape, _by_stride(strides, dims[:-1]))
        return restrided(out, _after(strides, out.shape, dims[-1:]))

    return call


@custom("_fft_c2c", oversize=by_free_dimension)
@_laid_by_torch
def fft_c2c(self, dim, normalization, forward):
    x = _complex(self)
    dims = _dims(self, dim)
    if not x.numel():
        return T.empty(x.shape, x.dtype)
    out = _over(x, dims, forward, _scale(normalization, numel([x.shape[d] for d in dims])))
    return out.clone() if out is x or T.share_memory(out, self) else out


@custom("_fft_r2c", oversize=by_free_dimension)
@_laid_by_torch
def fft_r2c(self, dim, normalization, onesided):
    dims = _dims(self, dim)
    shape = list(self.shape)
    last = dims[-1]
    half = shape[last] // 2 + 1
    scale = _scale(normalization, numel([shape[d] for d in dims]))
    if self.numel() and self.dtype is torch.float32:
        sizes = blocks_of(shape, last)
        made = [half if onesided and d == last else s for d, s in enumerate(shape)]
        x = self.resolve_neg().contiguous()
        out = _local(x, sizes, made, "real", "half", True, scale) if onesided else None
        if out is None:
            out = _local(x, sizes, shape, "real", "complex", True, scale)
            if out is not None and onesided:
                out = out.narrow(last, 0, half).contiguous()
        if out is not None:
            return _over(out, dims[:-1], True, 1.0)
    x = _complex(self)
    if not x.numel():
        if onesided:
            shape[last] = half
        return T.empty(shape, x.dtype)
    x = transform(x, blocks_of(x.shape, last), True, scale)
    if onesided:
        x = x.narrow(last, 0, half).contiguous()
    return _over(x, dims[:-1], True, 1.0)


@custom("_fft_c2r", oversize=by_free_dimension)
@_laid_by_torch
def fft_c2r(self, dim, normalization, last_dim_size):
    dims = _dims(self, dim)
    last = dims[-1]
    shape = list(self.shape)
    shape[last] = last_dim_size
    x = _complex(self)
    out = T.empty(shape, x.dtype.to_real())
    if not out.numel():
        return out
    scale = _scale(normalization, numel([shape[d] for d in dims]))
    x = _over(x, dims[:-1], False, 1.0)
    half = last_dim_size // 2 + 1
    if x.shape[last] != half:
        x = x.narrow(last, 0, half).contiguous()
    sizes = blocks_of(shape, last)
    done = _local(x, sizes, shape, "hermitian", "real", False, scale)
    if done is not None:
        return done
    double = x.dtype in _DOUBLE
    whole = T.empty(shape, x.dtype)
    run(fft.kernel("hermitian", double, caps()), (x,), (whole,), sizes[1], sizes[2], 0, 1.0, 1.0)
    whole = transform(whole, sizes, False, scale)
    run(fft.kernel("real", double, caps()), (whole,), (out,), sizes[1], sizes[2], 0, 1.0, 1.0)
    return out


composed("istft")


def _composed_stft(*args, **kwargs):
    return torch.ops.aten.stft.default._op_dk(COMPOSITE, *args, **kwargs)


@custom("stft", gradient=_composed_stft)
def stft(self, n_fft, hop_length=None, win_length=None, window=None, normalized=False, onesided=None,
         return_complex=None, align_to_window=None):  # fmt: skip
    """Frames that a GPU cuts, weighs and transforms in one kernel; others as torch composes them."""
    rest = (n_fft, hop_length, win_length, window, normalized, onesided, return_complex, align_to_window)
    hop = n_fft // 4 if hop_length is None else hop_length
    x = self if self.dim() == 2 else self[None]
    fits = self.dim() in (1, 2) and self.dtype is torch.float32 and hop > 0 and 0 < n_fft <= x.shape[-1] and x.shape[0]
    plain = win_length in (None, n_fft) and onesided is not False and return_complex and not align_to_window
    kernel = None
    if fits and plain and n_fft % 2 == 0 and window is not None and window.dtype is torch.float32:
        kernel = fft.local(n_fft, False, "frames", "half", caps())
    if kernel is None or window.shape != (n_fft,) or x.stride(-1) != 1 or not window.is_contiguous():
        return _composed_stft(self, *rest)
    frames = (x.shape[1] - n_fft) // hop + 1
    out = T.empty((x.shape[0], frames, n_fft // 2 + 1), torch.complex64)
    offsets = (x.storage_offset(), window.storage_offset())
    scale = 1.0 / math.sqrt(n_fft) if normalized else 1.0
    launch(fft.plan_frames(kernel, x.shape[0], frames, x.stride(0), hop, offsets, scale, caps()), x, window, out)
    out = out.transpose(1, 2)
    return out if self.dim() == 2 else out[0]
