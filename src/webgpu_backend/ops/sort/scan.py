"""Scans along a dimension: cumsum, cumprod, cummax, cummin, logcumsumexp."""

import torch
from torch._prims_common import canonicalize_dim

from ... import dtypes
from ... import tensor as T
from ...kernels.layout import numel
from ...kernels.sort import scan
from ...kernels.text.by_index import plain
from ...plan import caps, launch
from ..table import custom
from . import oversize

_WIDE = {
    torch.bool: torch.int32, torch.uint8: torch.int32, torch.int8: torch.int32, torch.int16: torch.int32,
    torch.uint16: torch.int32, torch.float16: torch.float32, torch.bfloat16: torch.float32,
}  # fmt: skip


def wide(dtype: torch.dtype) -> torch.dtype:
    """A dtype of whole words that holds the values of a packed one."""
    return _WIDE.get(dtype, dtype)


def blocks_of(shape, dim: int) -> tuple[int, int, int]:
    """A contiguous tensor as (outer, length, inner) around one dimension."""
    return numel(shape[:dim]), shape[dim], numel(shape[dim + 1 :])


def _along(op: str, source: torch.Tensor, out: torch.Tensor, sizes, indices=None, own=None) -> None:
    """Scans contiguous `source` into `out`. `own`: the source's elements carry these indices already."""
    outer, length, inner = sizes
    how = scan.cut(outer, length, inner, caps())
    dtype = out.dtype
    carry: tuple = ()
    if how.chunks > 1:
        kept = wide(dtype)
        if op == "logcumsumexp" and not dtype.is_complex:
            kept = torch.complex128 if dtype is torch.float64 else torch.complex64
        totals = T.empty((outer, how.chunks, inner), kept)
        places = None if indices is None else T.empty((outer, how.chunks, inner), torch.int32)
        _pass(op, source, totals, how, sizes, places, own, (), True)
        carry = (T.empty(totals.shape, totals.dtype),)
        carried_places = None
        if indices is not None:
            carried_places = T.empty(totals.shape, torch.int32)
            carry = (*carry, carried_places)
        _along(op, totals, carry[0], (outer, how.chunks, inner), carried_places, places)
    _pass(op, source, out, how, sizes, indices, own, carry, False)


def _pass(op, source, out, how, sizes, indices, own, carry, total) -> None:
    reads = (source,) + (() if own is None else (own,)) + carry
    writes = (out,) + (() if indices is None else (indices,))
    step = scan.plan(
        op, how, *sizes[1:], T.dtype_of(source), T.dtype_of(out), None if indices is None else T.dtype_of(indices),
        T.dtype_of(carry[0]) if carry else None, own is not None, total, tuple([t.storage_offset() for t in reads]),
        caps(),
    )  # fmt: skip
    launch(step, *reads, *writes)


def _direct(dtype: torch.dtype) -> torch.dtype:
    """The dtype a scan writes: the wanted one, or whole words to be narrowed by a copy."""
    return dtype if plain(T.DTYPES[dtype], caps()) else wide(dtype)


def accumulate(op: str, x: torch.Tensor, dim: int, dtype: torch.dtype) -> torch.Tensor:
    dim = canonicalize_dim(x.dim(), dim)
    if x.dtype not in T.DTYPES or dtype not in T.DTYPES:
        raise dtypes.Unsupported(f"webgpu: {op} has no kernel for {x.dtype}")
    if not x.numel():
        return T.empty(x.shape, dtype)
    if dtype is torch.bool:
        return accumulate(op, x.to(torch.bool), dim, torch.int64).to(torch.bool)
    if x.dim() == 0:
        return x.to(dtype, copy=True)
    if x.is_floating_point() and not dtype.is_floating_point and not dtype.is_complex:
        x = x.to(dtype)
    elif T.DTYPES[dtype].packed and not dtype.is_floating_point and x.dtype is not dtype:
        x = x.to(dtype)
    out = T.empty(x.shape, _direct(dtype))
    _along(op, x.resolve_conj().contiguous(), out, blocks_of(x.shape, dim))
    return out if out.dtype is dtype else out.to(dtype)


def _integral_to_long(x: torch.Tensor, dtype) -> torch.dtype:
    if dtype is not None:
        return dtype
    return x.dtype if x.is_floating_point() or x.is_complex() else torch.int64


@custom("cumsum", autocast="float32_result", oversize=oversize.scan)
def cumsum(self, dim, *, dtype=None):
    return accumulate("cumsum", self, dim, _integral_to_long(self, dtype))


@custom("cumprod", autocast="float32_result", oversize=oversize.scan)
def cumprod(self, dim, *, dtype=None):
    wanted = _integral_to_long(self, dtype)
    if wanted is torch.float32 and self.dim() and caps().f64:  # as on the CPU: products of small and large numbers
        return accumulate("cumprod", self, dim, torch.float64).to(wanted)
    return accumulate("cumprod", self, dim, wanted)


@custom("logcumsumexp", "_logcumsumexp", oversize=oversize.scan)
def logcumsumexp(self, dim):
    if self.dtype in (torch.complex64, torch.complex128):
        return accumulate("complex_logcumsumexp", self, dim, self.dtype)
    if not self.is_floating_point():
        raise dtypes.Unsupported(f"webgpu: logcumsumexp has no kernel for {self.dtype}")
    return accumulate("logcumsumexp", self, dim, self.dtype)


def _extremes(op: str, x: torch.Tensor, dim: int):
    dim = canonicalize_dim(x.dim(), dim)
    if x.is_complex() or x.dtype not in T.DTYPES:
        raise dtypes.Unsupported(f"webgpu: {op} has no kernel for {x.dtype}")
    indices = T.empty(x.shape, torch.int64)
    if not x.numel():
        return T.empty(x.shape, x.dtype), indices
    if x.dim() == 0:
        return x.clone(), indices.zero_()
    values = T.empty(x.shape, _direct(x.dtype))
    source = x if x.dtype is not torch.bool else x.to(torch.int32)
    _along(op, source.contiguous(), values, blocks_of(x.shape, dim), indices)
    return values if values.dtype is x.dtype else values.to(x.dtype), indices


@custom("cummax", oversize=oversize.scan)
def cummax(self, dim):
    return _extremes("cummax", self, dim)


@custom("cummin", oversize=oversize.scan)
def cummin(self, dim):
    return _extremes("cummin", self, dim)


@custom("_cummax_helper")
def cummax_helper(self, values, indices, dim):
    _into(_extremes("cummax", self, dim), values, indices)


@custom("_cummin_helper")
def cummin_helper(self, values, indices, dim):
    _into(_extremes("cummin", self, dim), values, indices)


def _into(results, values, indices) -> None:
    values.copy_(results[0])
    indices.copy_(results[1])
