"""Products with weights in GGUF's formats that share their rows, as one dispatch: with the norm of the rows before them
and what is done to the results after. Compiled graphs are rewritten to this operator."""

import torch

from ... import tensor as T
from ...kernels.matmul import digits, few_rows
from ...kernels.quantized.formats import FORMATS, PIECE
from ...plan import caps, launch, planned
from ..matmul.product import matrix, output
from .product import in_blocks

_library = torch.library.Library("webgpu_backend", "FRAGMENT")
_library.define(
    "products_of_blocks(Tensor x, Tensor[] codes, Tensor[] scales, str format, Tensor[] others, bool joined, "
    "str after, Tensor? norm, float eps, str before) -> Tensor"
)


def serves(rows: int, dtype: torch.dtype, codes: list[torch.Tensor], scales: list[torch.Tensor], format: str) -> bool:
    """Whether one dispatch does it: few rows, an adapter that multiplies by digits, and weights that can be bound."""
    here = caps()
    if here.kind != "gpu" or rows > few_rows.ROWS or dtype not in T.DTYPES:
        return False
    k = codes[0].shape[1] // FORMATS[format].words * PIECE
    fits = all([t.is_contiguous() and t.nbytes <= here.max_binding for t in (*codes, *scales)])
    return fits and k >= few_rows.LEAST and digits.serve(format, T.DTYPES[dtype], here)


@planned
def _products(x, codes, scales, format: str, others, joined: bool, after: str, norm, eps: float, before: str):
    weights = [in_blocks(c, s, format) for c, s in zip(codes, scales)]
    k, bound, found = weights[0].k, [], []
    for weight in weights:
        held, levels, place, blocks = weight.bound()
        bound += [held, levels]
        found.append(digits.Weight(weight.n, place, blocks))
    n = sum([w.n for w in weights]) if joined else weights[0].n
    out = T.empty((*x.shape[:-1], n), x.dtype)
    rows = _whole(x.reshape(-1, k))
    m = rows.shape[0]
    norm = None if norm is None else _whole(norm)
    others = [c.reshape(-1, c.shape[-1]) for c in others]
    product = digits.Digits(
        m, k, matrix(rows, rows.stride(0), 1), tuple(found), output(out.dtype, m, n),
        tuple([matrix(c, c.stride(0) if c.shape[0] > 1 else 0, c.stride(1)) for c in others]), after, joined, before,
        None if norm is None else matrix(norm, 0, 1), eps,
    )  # fmt: skip
    norms = [] if norm is None else [norm]
    launch(digits.plan(product, caps()), rows, *norms, *bound, *others, out)
    return out


def _whole(x: torch.Tensor) -> torch.Tensor:
    """Rows that are read four elements at a time."""
    if x.stride(-1) != 1 or x.storage_offset() % 4 or (x.dim() > 1 and x.stride(0) % 4):
        return x.clone(memory_format=torch.contiguous_format)
    return x


torch.library.impl(_library, "products_of_blocks", "PrivateUse1")(_products)


@torch.library.register_fake("webgpu_backend::products_of_blocks", lib=_library)
def _shape(x, codes, scales, format, others, joined, after, norm, eps, before):
    return x.new_empty((*x.shape[:-1], sum([c.shape[0] for c in codes]) if joined else codes[0].shape[0]))
