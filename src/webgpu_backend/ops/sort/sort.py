"""Sorting and selection along a dimension: sort, topk, kthvalue, median, mode."""

import torch
from torch._prims_common import canonicalize_dim

from ... import dtypes
from ... import tensor as T
from ...kernels.sort import select, sort
from ...plan import caps, launch, planned
from ..admitted import UNORDERED, check
from ..by_index import run
from ..shape.copy import fill, memory_order
from ..table import custom
from . import oversize
from .scan import blocks_of

_LARGEST = 512  # topk keeps at most half of a block


def _pairs(count: int, words: int) -> torch.Tensor:
    return T.empty((count * words,), torch.int64)


def _pass(kind, block, source, out, words, values) -> None:
    """One dispatch; `values` are groups, blocks, length, inner, flip, stride, keep, width and span."""
    tensor, dtype = source
    offsets = (tensor.storage_offset(),) if dtype is not None else ()
    launch(sort.plan(kind, dtype, words, block, (*values, *offsets), caps()), tensor, out)


def _radix_pairs(x: torch.Tensor, sizes, descending: bool, blocks: int, span: int) -> torch.Tensor:
    """A pass for each digit, from the last on; those in which all elements of every row agree do nothing."""
    outer, length, inner = sizes
    rows, dtype, c = outer * inner, T.dtype_of(x), caps()
    words, digits = sort.words(dtype), sort.digits(dtype)
    one, two = _pairs(rows * length, words), _pairs(rows * length, words)
    counts, flags = T.empty((rows * blocks * 256,), torch.int32), fill(T.empty((len(digits),), torch.int32), 0)
    flip = 0xFFFFFFFF if descending else 0

    def run_pass(kind, shift, turn, *bound):
        offset = x.storage_offset()
        step = sort.plan_radix(kind, dtype, rows, length, inner, flip, blocks, span, shift, turn, offset, c)
        launch(step, x, one, two, flags, *bound)

    for turn, shift in enumerate(digits):
        run_pass("count", shift, turn, counts)
        run_pass("scatter", shift, turn, counts)
    run_pass("settle", 0, len(digits))
    return one if len(digits) % 2 else two


def sorted_pairs(x: torch.Tensor, sizes, descending: bool, keep: int | None = None):
    """Rows of contiguous `x` as sorted pairs, and the pairs per row. `keep`: only that many smallest are needed."""
    outer, length, inner = sizes
    rows = outer * inner
    dtype = T.dtype_of(x)
    words = sort.words(dtype)
    long = sort.by_digits(rows, length, caps()) if keep is None else None
    if long is not None:
        return _radix_pairs(x, sizes, descending, *long), length
    flip = 0xFFFFFFFF if descending else 0
    block = sort.block_for(length, words, caps())
    kind = "registers" if block == sort.REGISTERS else "block"
    source, where = (x, dtype), inner
    while keep is not None and kind == "block" and keep <= min(block // 2, _LARGEST) and length > block:
        blocks = -(-length // block)
        out = _pairs(rows * blocks * keep, words)
        _pass(kind, block, source, out, words,
              (rows * blocks, blocks, length, where, flip, blocks * keep, keep, 0, 0))  # fmt: skip
        source, length = (out, None), blocks * keep
    blocks = -(-length // block)
    out = _pairs(rows * length, words)
    _pass(kind, block, source, out, words, (rows * blocks, blocks, length, where, flip, length, block, 0, 0))
    width = block
    spare = None
    while width < length:
        spare = spare if spare is not None else _pairs(rows * length, words)
        span = min(sort.SPAN[caps().kind], 2 * width)
        blocks = -(-length // span)
        _pass("merge", 0, (out, None), spare, words,
              (rows * blocks, blocks, length, 1, 0, length, 0, width, span))  # fmt: skip
        out, spare = spare, out
        width *= 2
    return out, length


def fits_quick(x: torch.Tensor, sizes) -> bool:
    """Few elements, and rows that std::sort does not sort by insertion alone, which is stable. A GPU must find room for
    the row in workgroup memory, to take no longer for it."""
    outer, length, inner = sizes
    if not 16 < length <= outer * length * inner <= sort.QUICK[caps().kind]:
        return False
    return caps().kind == "cpu" or sort.capacity(T.dtype_of(x), length, caps()) > 0


def quick_pairs(x: torch.Tensor, sizes, descending: bool) -> tuple[torch.Tensor, int]:
    """As sorted_pairs, but equal values come as std::sort of libstdc++ leaves them."""
    outer, length, inner = sizes
    rows, dtype, c = outer * inner, T.dtype_of(x), caps()
    words, room = sort.words(dtype), sort.capacity(dtype, length, c)
    out = _pairs(rows * length, words)
    work = () if room else (_pairs(rows * length, words),)
    flip = 0xFFFFFFFF if descending else 0
    launch(sort.plan_quick(dtype, rows, length, inner, flip, x.storage_offset(), c), x, out, *work)
    return out, length


def chosen_pairs(kind: str, x: torch.Tensor, sizes, largest: bool, keep: int, ordered: bool = True) -> torch.Tensor:
    """Of short rows of contiguous `x` the first `keep` in order ("topk"), or the last of those ("nth"), as pairs."""
    outer, length, inner = sizes
    rows, dtype = outer * inner, T.dtype_of(x)
    words = sort.words(dtype)
    out = _pairs(rows * (keep if kind == "topk" else 1), words)
    block = next(b for b in (8, 16, 32, 64) if length < b)
    flip = 0xFFFFFFFF if largest else 0
    _pass(kind, block, (x, dtype), out, words, (rows, 1, length, inner, flip, 0, keep, int(ordered), 0))
    return out


def take(kind: str, x: torch.Tensor, sizes, pairs, stride: int, shape, count: int, first: int = 0):
    """Values and indices that sorted pairs of contiguous `x` stand for."""
    values, indices = T.empty(shape, x.dtype), T.empty(shape, torch.int64)
    kernel = sort.kernel_of_values(kind, T.dtype_of(x), caps())
    run(kernel, (x, pairs), (values, indices), sizes[1], sizes[2], stride, count, first)
    return values, indices


def _ready(op: str, x: torch.Tensor, dim: int) -> tuple[torch.Tensor, int]:
    """A contiguous tensor of at least one dimension, and the dimension meant."""
    dim = canonicalize_dim(x.dim(), dim)
    if x.is_complex():
        raise UNORDERED(f" {'Sort' if op == 'sort' else op} does not support complex dtypes on CPU")
    if x.dtype not in T.DTYPES:
        raise dtypes.Unsupported(f"webgpu: {op} has no kernel for {x.dtype}")
    return (x if x.dim() else x.reshape(1)).contiguous(), dim


@custom("sort.stable", oversize=oversize.rows)
def sort_stable(self, *, stable=None, dim=-1, descending=False):
    return _sort(self, dim, descending, bool(stable))


def _sort(self, dim, descending, stable):
    if not self.is_contiguous():
        order = memory_order(self)
        if order != list(range(self.dim())):
            dim = order.index(canonicalize_dim(self.dim(), dim))
            back = [order.index(d) for d in range(self.dim())]
            return tuple([t.permute(back) for t in _sorted(self.permute(order), dim, descending, stable)])
    return _sorted(self, dim, descending, stable)


@planned
def _sorted(self, dim, descending, stable):
    x, dim = _ready("sort", self, dim)
    if not self.numel():
        return T.empty(self.shape, self.dtype), T.empty(self.shape, torch.int64)
    sizes = blocks_of(x.shape, dim)
    # Values of 16 bits and less are full of ties: a short sort leaves them as the CPU does.
    quick = not stable and x.element_size() <= 2 and fits_quick(x, sizes)
    pairs, stride = (quick_pairs if quick else sorted_pairs)(x, sizes, descending)
    return take("take", x, sizes, pairs, stride, self.shape, sizes[1])


@custom("sort", oversize=oversize.rows)
def sort_default(self, dim=-1, descending=False):
    return _sort(self, dim, descending, False)


@custom("topk", oversize=oversize.rows)
def topk(self, k, dim=-1, largest=True, sorted=True):
    dim = canonicalize_dim(self.dim(), dim)
    if not 0 <= k <= (self.shape[dim] if self.dim() else 1):
        raise RuntimeError("selected index k out of range")
    x, dim = _ready("topk", self, dim)
    shape = list(self.shape)
    if shape:
        shape[dim] = k
    else:
        k = 1  # the number itself, also where none is asked for, as on the CPU
    if not x.numel() or not k:
        return T.empty(shape, self.dtype), T.empty(shape, torch.int64)
    sizes = blocks_of(x.shape, dim)
    if sizes[1] <= sort.SHORT and k <= sort.FEW:
        return take("take", x, sizes, chosen_pairs("topk", x, sizes, largest, k, sorted), k, shape, k)
    if select.served(T.dtype_of(x), sizes, k, caps()):
        return take("take", x, sizes, _selected_pairs(x, sizes, largest, k), k, shape, k)
    pairs, stride = sorted_pairs(x, sizes, largest, k)
    return take("take", x, sizes, pairs, stride, shape, k)


def _selected_pairs(x: torch.Tensor, sizes, largest: bool, keep: int) -> torch.Tensor:
    """The first `keep` of long rows of contiguous `x`, chosen and then sorted."""
    rows, dtype = sizes[0], T.dtype_of(x)
    counts = fill(T.empty((select.zeros(dtype, rows),), torch.int32), 0)
    chosen, out = _pairs(rows * keep, 1), _pairs(rows * keep, 1)
    launch(select.plan(dtype, sizes, keep, largest, x.storage_offset(), caps()), x, counts, chosen)
    block = next(b for b in (64, 256, 1024) if keep <= b)
    _pass("block", block, (chosen, None), out, 1, (rows, 1, keep, 1, 0, keep, keep, 0, 0))
    return out


def _reduced(x: torch.Tensor, dim: int, keepdim: bool) -> list[int]:
    shape = list(x.shape)
    if shape:
        shape[dim : dim + 1] = [1] if keepdim else []
    return shape


def _select(op: str, kind: str, x: torch.Tensor, dim: int, keepdim: bool, first: int = 0):
    dim = canonicalize_dim(x.dim(), dim)
    shape = _reduced(x, dim, keepdim)
    if x.dim() and x.shape[dim] == 0:
        raise IndexError(f"{op}(): Expected reduction dim {dim} to have non-zero size.")
    y, dim = _ready(op, x, dim)
    if not y.numel():
        return T.empty(shape, x.dtype), T.empty(shape, torch.int64)
    sizes = blocks_of(y.shape, dim)
    if op == "kthvalue" and sizes[1] <= sort.SHORT:
        return take(kind, y, sizes, chosen_pairs("nth", y, sizes, False, first + 1), 1, shape, 1)
    pairs, stride = sorted_pairs(y, sizes, False)
    return take(kind, y, sizes, pairs, stride, shape, 1, first)


@custom("kthvalue", oversize=oversize.rows)
def kthvalue(self, k, dim=-1, keepdim=False):
    dim = canonicalize_dim(self.dim(), dim)
    length = self.shape[dim] if self.dim() else 1
    if length and not 1 <= k <= length:
        raise RuntimeError("kthvalue(): selected number k out of range for dimension " + str(dim))
    return _select("kthvalue", "take", self, dim, keepdim, k - 1)


@custom("median.dim", oversize=oversize.rows)
def median_dim(self, dim, keepdim=False):
    return _select("median", "median", self, dim, keepdim)


@custom("nanmedian.dim", oversize=oversize.rows)
def nanmedian_dim(self, dim, keepdim=False):
    return _select("nanmedian", "nanmedian", self, dim, keepdim)


def _all(kind: str, x: torch.Tensor) -> torch.Tensor:
    if not x.numel():
        return torch.full((), float("nan"), dtype=torch.float32, device=x.device).to(x.dtype)  # whatever that is
    check("median.elements", x.dtype)
    return _select(kind, kind, x.reshape(-1), 0, False)[0]


@custom("median", oversize=oversize.median)
def median(self):
    return _all("median", self)


@custom("nanmedian", oversize=oversize.median)
def nanmedian(self):
    return _all("nanmedian", self)
