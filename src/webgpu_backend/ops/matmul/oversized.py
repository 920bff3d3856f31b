"""Products with an operand or a result larger than one binding, put together from parts that fit."""

import torch

from ... import tensor as T
from ...dtypes import carrier
from ...kernels.matmul import oversized
from ...kernels.matmul.matmul import SUMS, plan
from ...kernels.matmul.product import Product
from ...plan import caps, launch
from ...program import Window
from ...runtime.errors import BindingTooLarge
from ..shape.copy import device_copy


def multiply(product: Product, a, b, c, out: torch.Tensor) -> None:
    """The product into `out`, which is contiguous."""
    inner = 1 if product.summed else product.inner
    _multiply(oversized.placed(product), (a, b, c), out.view(product.outer, inner, product.m, product.n))


def _multiply(product: Product, operands: tuple, target: torch.Tensor) -> None:
    limit = caps().max_binding
    try:
        where = oversized.cut(product, limit)
    except ValueError as error:
        raise BindingTooLarge(f"matrix product: {error}, and one binding has {limit} bytes") from None
    if where is None:
        _whole(product, operands, target)
        return
    first, second = oversized.halves(product, where)
    if not where.adds:
        d = ("outer", "inner", "m", "n").index(where.dimension)
        _multiply(first, operands, target.narrow(d, 0, where.at))
        _multiply(second, operands, target.narrow(d, where.at, target.shape[d] - where.at))
        return
    dtype = SUMS[carrier(product.a.dtype, caps())]
    total, more = (T.empty(target.shape, T.TORCH_DTYPE[dtype.name]) for _ in range(2))
    _multiply(oversized.bare(first, dtype), operands, total)
    _multiply(oversized.bare(second, dtype), operands, more)
    total.add_(more)
    device_copy(_finished(product, operands[2], total), target)


def _finished(product: Product, c, total: torch.Tensor) -> torch.Tensor:
    """What follows the sum: alpha, the addend and the activation."""
    if product.alpha != 1:
        total = total * product.alpha
    if product.c is not None:
        m = product.c
        addend = T.as_strided(c, total.shape, (m.outer, m.inner, m.row, m.col), m.offset)
        total = torch.add(total, addend.to(total.dtype), alpha=product.beta)
    if product.act:
        return torch.relu(total) if product.act == "relu" else torch.nn.functional.gelu(total)
    return total


def _whole(product: Product, operands: tuple, target: torch.Tensor) -> None:
    """One part, over windows of its operands; into its place where that is a range a window can start at."""
    place = _range(target)
    out = T.empty(target.shape, T.TORCH_DTYPE[product.out.dtype.name]) if place is None else place
    changed, bound = {}, []
    for name, tensor in zip("abc", operands):
        matrix = getattr(product, name)
        if matrix is None:
            bound.append(None)
            continue
        block, item = T.block_of(tensor), matrix.dtype.size
        bound.append(tensor)
        if block.size > caps().max_binding:
            first, last = oversized.reach(product, name)
            start = first * item & ~255
            bound[-1] = Window(block, start, min((last * item - start + 255) & ~255, block.size - start))
            changed[name] = matrix._replace(offset=matrix.offset - start // item)
    launch(plan(oversized.replace(product, **changed), caps()), *bound, out)
    if place is None:
        device_copy(out, target)


def _range(target: torch.Tensor) -> Window | None:
    """Parts are computed in the order of memory, so what a kernel writes past this one's end is written again."""
    item, block = target.element_size(), T.block_of(target)
    start = target.storage_offset() * item
    if start % 256 or not target.is_contiguous():
        return None
    return Window(block, start, min((target.numel() * item + 255) & ~255, block.size - start))
