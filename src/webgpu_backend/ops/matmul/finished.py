"""Products of matrices, or of batches of them, with the elementwise steps that follow, in one kernel. Compiled graphs
are rewritten to this operator."""

import torch

from ... import tensor as T
from ...kernels.matmul.matmul import plan
from ...kernels.matmul.product import Product
from ...plan import caps, launch, planned
from ...runtime.errors import BindingTooLarge
from ..oversize import fit, pieces
from .product import addend, matrix, output

_library = torch.library.Library("webgpu_backend", "FRAGMENT")
_library.define("finished_product(Tensor a, Tensor b, Tensor? c, Tensor? d, str after, ScalarType dtype) -> Tensor")


@planned
def _product(a, b, c, d, after: str, dtype: torch.dtype):
    (*batch, m, k), n = a.shape, b.shape[-1]
    shape = (*batch, m, n)
    (*each, a_row, a_col), (*every, b_row, b_col) = a.stride(), b.stride()
    out = T.empty(shape, dtype)
    if not out.numel():
        return out
    product = Product(
        m, n, k, matrix(a, a_row, a_col, 0, *each), matrix(b, b_col, b_row, 0, *every), output(dtype, m, n, *batch),
        c=None if c is None else addend(c, shape), d=None if d is None else addend(d, shape), act=after,
        inner=batch[0] if batch else 1,
    )  # fmt: skip
    launch(plan(product, caps()), a, b, c, *([] if d is None else [d]), out)
    return out


@torch.library.impl(_library, "finished_product", "PrivateUse1")
def _finished(a, b, c, d, after, dtype):
    """The elements that `after` makes of r, which is a times b plus c, and of d."""
    try:
        return _product(a, b, c, d, after, dtype)
    except BindingTooLarge:  # parts of storages that are larger than a binding, or more rows than were known
        out = torch.empty((*a.shape[:-1], b.shape[-1]), dtype=dtype, device="meta")
        if fit(a, b, c, d, out):
            return _product(*[None if x is None else x.clone() for x in (a, b, c, d)], after, dtype)
    return _in_parts(a, b, c, d, after, out)


def _in_parts(a, b, c, d, after, out):
    """Cut along the matrices of a batch, or along the rows."""
    cut = 0 if a.dim() == 3 and a.shape[0] > 1 else a.dim() - 2
    behind = a.dim() - cut  # dimensions, counted from the last

    def part(x, start, length):
        whole = x is None or x.dim() < behind or x.shape[-behind] == 1 or (x is b and behind == 2)
        return x if whole else x.narrow(-behind, start, length)

    made = [
        _finished(*[part(x, *piece) for x in (a, b, c, d)], after, out.dtype)
        for piece in pieces(a.shape[cut], a, d, out)
    ]
    return torch.cat(made, cut)


@torch.library.register_fake("webgpu_backend::finished_product", lib=_library)
def _shape(a, b, c, d, after, dtype):
    return a.new_empty((*a.shape[:-1], b.shape[-1]), dtype=dtype)
