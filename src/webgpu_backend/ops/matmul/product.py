"""A product over tensors: what it reads and writes, and the errors for operands that do not fit."""

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.matmul.matmul import plan
from ...kernels.matmul.product import Matrix, Product
from ...kernels.text import numbers
from ...plan import caps, launch
from ...runtime.errors import BindingTooLarge
from ..shape.copy import fill
from . import oversized

_NO_KERNEL = (torch.bool, torch.uint16, torch.uint32, torch.uint64)
_NAMES = {torch.bool: "Bool", torch.uint16: "UInt16", torch.uint32: "UInt32", torch.uint64: "UInt64"}


def multiply(sizes, dtype: torch.dtype, product: Product | None, a, b, c=None) -> torch.Tensor:
    """The result of a product, of these sizes; without a sum to compute it is beta * c, or zero."""
    if product is not None:
        check_factors(dtype, product.alpha, product.beta)
    out = T.empty(sizes, dtype)
    if 0 in sizes or product is None or product.k == 0 or product.inner == 0:
        if out.numel():
            if c is None:
                fill(out, 0)
            else:
                out.copy_((c if product.beta == 1 else c * product.beta).expand(out.shape))
        return out
    try:
        launch(plan(product, caps()), a, b, c, out)
    except BindingTooLarge:
        oversized.multiply(product, a, b, c, out)
    return out


def check_factors(dtype: torch.dtype, *factors) -> None:
    """Raises torch's error for a factor that whole numbers have no room for."""
    if not (dtype.is_floating_point or dtype.is_complex):
        for factor in factors:
            numbers.check(factor, str(dtype).removeprefix("torch."))


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


def supported(*tensors, kernel: str = "addmm_impl_cpu_") -> None:
    given = [t for t in tensors if t is not None]
    alike = len({t.dtype for t in given}) == 1  # others are refused for that
    for t in given:
        if alike and t.dtype in _NO_KERNEL and (kernel == "dot" or all([x.numel() for x in given])):
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{_NAMES[t.dtype]}'")
        if t.dtype not in T.DTYPES:
            raise Unsupported(f"webgpu: no matrix product of {t.dtype}")
        if t.device.type != T.NAME:
            raise T.two_devices("a matrix product", t.device)


def refuse(op, *args, **kwargs):
    """Raises what torch raises for these shapes and dtypes, by asking its CPU kernel with tensors of one element."""
    like = [torch.empty((), dtype=a.dtype, device="cpu").expand(a.shape) if T.is_ours(a) else a for a in args]
    op(*like, **kwargs)
    shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in args if isinstance(a, torch.Tensor))
    raise RuntimeError(f"webgpu: {op} cannot multiply {shapes}")


def matching(a, b) -> bool:
    return a.dtype == b.dtype
