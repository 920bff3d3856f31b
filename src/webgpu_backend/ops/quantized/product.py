"""Products with quantised weights, and the weights as numbers."""

from math import lcm
from typing import NamedTuple

import torch

from ... import tensor as T
from ...kernels.matmul.matmul import plan
from ...kernels.matmul.product import Matrix, Product
from ...kernels.quantized import dequantise
from ...kernels.quantized.formats import FORMATS, PIECE, Blocks
from ...plan import caps, launch
from ...plan.faults import site
from ...program import Window
from ...runtime.errors import BindingTooLarge
from ..matmul.product import matrix, output
from ..shape.copy import fill


class Weight(NamedTuple):
    """n rows of k weights: dense rows of codes, and scales as `blocks` says, whose dimension `along` has the rows."""

    codes: torch.Tensor
    scales: torch.Tensor
    blocks: Blocks
    n: int
    k: int
    along: int = 0

    def part(self, first: int, n: int) -> "Weight":
        scales, blocks = self.scales, self.blocks
        if blocks.row:
            scales = scales.narrow(self.along, first, n)
            unit = 4 if FORMATS[blocks.format].header == 4 else 1
            blocks = blocks._replace(offset=scales.storage_offset() // unit)
        return self._replace(codes=self.codes.narrow(0, first, n), scales=scales, blocks=blocks, n=n)

    def bound(self) -> tuple:
        """Codes and scales as they are bound, the place of the first piece, and the blocks: windows where a binding is
        too small for all."""
        piece = FORMATS[self.blocks.format].words * 4
        codes, start = _window(self.codes, lcm(256, piece))
        scales, before = _window(self.scales, 256)
        unit = 16 if FORMATS[self.blocks.format].header == 4 else self.scales.element_size()
        place = (self.codes.storage_offset() * self.codes.element_size() - start) // piece
        return codes, scales, place, self.blocks._replace(offset=self.blocks.offset - before // unit)


def _window(tensor: torch.Tensor, align: int) -> tuple:
    """What is bound for a tensor, and the bytes before it."""
    block, item = T.block_of(tensor), tensor.element_size()
    if block.size <= caps().max_binding:
        return tensor, 0
    start = tensor.storage_offset() * item // align * align
    reach = tensor.storage_offset() + sum((s - 1) * st for s, st in zip(tensor.shape, tensor.stride())) + 1
    return Window(block, start, min((reach * item - start + 255) & ~255, block.size - start)), start


def dense(codes: torch.Tensor) -> torch.Tensor:
    """Rows one after the other that start at a whole piece; a copy only where they do not."""
    if codes.is_contiguous() and codes.storage_offset() * codes.element_size() % 96 == 0:
        return codes
    rows = codes.shape[-1] * codes.element_size()
    if codes.is_contiguous() and rows and codes.storage_offset() * codes.element_size() % rows == 0:
        return codes
    return codes.clone(memory_format=torch.contiguous_format)


def in_blocks(codes: torch.Tensor, scales: torch.Tensor, format: str) -> Weight:
    """A weight in one of GGUF's formats: codes as rows of words, scales as rows of halves' bits or of headers."""
    found = FORMATS[format]
    codes, n, k = dense(codes), codes.shape[0], codes.shape[1] // found.words * PIECE
    if found.header:
        unit = 4 if found.header == 4 else 1
        scales = dense(scales)
        blocks = Blocks(format, offset=scales.storage_offset() // unit, row=k // 256)
    else:
        row, group = scales.stride()
        blocks = Blocks(format, T.DTYPES[torch.float16], scales.storage_offset(), row, group, PIECE.bit_length() - 1)
    return Weight(codes, scales, blocks, n, k)


def multiply(x: torch.Tensor, weight: Weight, bias: torch.Tensor | None = None) -> torch.Tensor:
    """x [..., k] times the transposed weight, in x's dtype, with sums in float32."""
    out = T.empty((*x.shape[:-1], weight.n), x.dtype)
    if not out.numel():
        return out
    if not weight.k:
        return fill(out, 0) if bias is None else out.copy_(bias.expand(out.shape))
    rows = x.reshape(-1, weight.k)
    if rows.stride(1) != 1 or rows.stride(0) % 4 or rows.storage_offset() % 4:
        rows = rows.clone(memory_format=torch.contiguous_format)
    try:
        _multiply(rows, weight, bias, out)
    except BindingTooLarge:
        half = (weight.n // 2 + 7) // 8 * 8
        if half >= weight.n:
            raise
        parts = [(0, half), (half, weight.n - half)]
        return torch.cat(
            [multiply(x, weight.part(*p), None if bias is None else bias.narrow(0, *p)) for p in parts], -1
        )
    return out


def _multiply(rows: torch.Tensor, weight: Weight, bias: torch.Tensor | None, out: torch.Tensor) -> None:
    m = rows.shape[0]
    codes, scales, place, blocks = weight.bound()
    words = Matrix(T.DTYPES[torch.int32], place, weight.k // PIECE, 1)
    product = Product(
        m, weight.n, weight.k, matrix(rows, rows.stride(0), 1), words,
        output(out.dtype, m, weight.n), None if bias is None else matrix(bias, 0, bias.stride(0)), blocks=blocks,
    )  # fmt: skip
    launch(plan(product, caps()), rows, codes, scales, bias, out)


def rows_of(weight: Weight, index: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Those rows of the weights, [index, k]. The index is contiguous."""
    out = T.empty((index.shape[0], weight.k), dtype)
    if not out.numel():
        return out
    if not weight.n:
        raise IndexError("index is out of bounds for dimension with size 0 (dimension 0 in aten::index_select)")
    codes, scales, place, blocks = weight.bound()
    how = dequantise.Rows(index.element_size(), index.storage_offset(), weight.n, site("index_select", 0, False))
    n, k = out.shape
    launch(dequantise.plan(blocks, n, k, place, k // PIECE, T.DTYPES[dtype], caps(), how), codes, scales, index, out)
    return out


def numbers(weight: Weight, dtype: torch.dtype) -> torch.Tensor:
    """The weights, [n, k]."""
    out = T.empty((weight.n, weight.k), dtype)
    if not out.numel():
        return out
    codes, scales, place, blocks = weight.bound()
    step = dequantise.plan(blocks, weight.n, weight.k, place, weight.k // PIECE, T.DTYPES[dtype], caps())
    try:
        launch(step, codes, scales, out)
    except BindingTooLarge:
        half = weight.n // 2
        if not half:
            raise
        return torch.cat([numbers(weight.part(0, half), dtype), numbers(weight.part(half, weight.n - half), dtype)])
    return out
