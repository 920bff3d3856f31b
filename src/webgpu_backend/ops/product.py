"""A planned product: from tensors to the dispatches of a matrix product, kept by metadata."""

from operator import itemgetter

import torch

from .. import tensor as T
from ..dtypes import Unsupported
from ..kernels.matmul import Matrix, Plan, Product, plan
from ..launch import caps
from ..runtime.errors import BindingTooLarge
from . import hot, parts
from .copy import fill

_MAX_PLANS = 16384
_NO_KERNEL = (torch.bool, torch.uint16, torch.uint32, torch.uint64)
_NAMES = {torch.bool: "Bool", torch.uint16: "UInt16", torch.uint32: "UInt32", torch.uint64: "UInt64"}


class Call:
    """A planned product: everything but the buffers. `empty`: no sum to compute, the output is beta * c or zero."""

    __slots__ = ("product", "meta", "steps", "work", "empty")

    def __init__(self, product, meta, steps, work, empty):
        self.product = product
        self.meta = meta
        self.steps = steps
        self.work = work
        self.empty = empty


plans: dict[tuple, Call] = {}


def key_of(x: torch.Tensor) -> tuple:
    return (x.dtype, x.shape, x.stride(), x.storage_offset())


def remember(key: tuple, call: Call) -> Call:
    if len(plans) >= _MAX_PLANS:
        plans.clear()
    plans[key] = call
    return call


def planned(sizes, product: Product | None, dtype: torch.dtype) -> Call:
    meta = T.meta(sizes, None, dtype)
    if 0 in sizes or product is None or product.k == 0 or product.inner == 0:
        return Call(product, meta, (), (), True)
    return laid_out(product, plan(product, caps()), meta)


def laid_out(product: Product, found: Plan, meta) -> Call:
    """A plan with its buffers by number: a, b, c, out, then the ones it works in."""
    slots = {name: i for i, name in enumerate(("a", "b", "c", "out", *found.work))}
    work = tuple(T.meta((count,), None, T.TORCH_DTYPE[dtype.name]) for count, dtype in found.work.values())
    steps = tuple((s.program, itemgetter(*[slots[n] for n in s.bindings]), s.params, s.grid) for s in found.steps)
    return Call(product, meta, steps, work, False)


def run(call: Call, a, b, c=None, beta=1) -> torch.Tensor:
    out, block = T.make(call.meta)
    if call.empty:
        if out.numel():
            if c is None:
                fill(out, 0)
            else:
                out.copy_((c if beta == 1 else c * beta).expand(out.shape))
        return out
    blocks = T._blocks
    bound = [
        blocks[a.data_ptr() >> 40], blocks[b.data_ptr() >> 40], c if c is None else blocks[c.data_ptr() >> 40], block,
    ]  # fmt: skip
    if call.work:
        made = [T.make(meta) for meta in call.work]
        bound += [block for _, block in made]
    try:
        for program, chosen, params, grid in call.steps:
            hot.record(program, chosen(bound), params, grid)
    except BindingTooLarge:
        parts.multiply(call.product, a, b, c, out)
    return out


def matrix(x: torch.Tensor, row: int, col: int, outer: int = 0, inner: int = 0) -> Matrix:
    return Matrix(T.dtype_of(x), x.storage_offset(), row, col, outer, inner)


def output(dtype: torch.dtype, m: int, n: int, inner: int = 1) -> Matrix:
    """A contiguous [outer, inner, m, n] result."""
    return Matrix(T.DTYPES[dtype], 0, n, 1, inner * m * n, m * n)


def addend(c: torch.Tensor, shape) -> Matrix:
    """`c` broadcast to a shape of up to three dimensions: batch, m, n."""
    strides = c.expand(shape).stride()  # raises as torch does
    strides = (0,) * (3 - len(strides)) + tuple(strides)
    return matrix(c, strides[1], strides[2], 0, strides[0])


def supported(*tensors) -> None:
    for t in tensors:
        if t is None:
            continue
        if t.dtype in _NO_KERNEL:
            raise NotImplementedError(f"\"addmm_impl_cpu_\" not implemented for '{_NAMES[t.dtype]}'")
        if t.dtype not in T.DTYPES:
            raise Unsupported(f"webgpu: no matrix product of {t.dtype}")
        if t.device.type != T.NAME:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {T.DEVICE} and "
                f"{t.device}!"
            )


def refuse(op, *args, **kwargs):
    """Raises what torch raises for these shapes and dtypes, by asking its CPU kernel with tensors of one element."""
    like = [torch.empty((), dtype=a.dtype).expand(a.shape) if T.is_ours(a) else a for a in args]
    op(*like, **kwargs)
    shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in args if isinstance(a, torch.Tensor))
    raise RuntimeError(f"webgpu: {op} cannot multiply {shapes}")


def matching(a, b) -> bool:
    return a.dtype == b.dtype
