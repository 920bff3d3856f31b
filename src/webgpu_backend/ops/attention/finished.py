"""Attention with the elementwise steps that follow, in one kernel. Compiled graphs are rewritten to this."""

import torch

from ...runtime.errors import BindingTooLarge
from ..oversize import fit, pieces
from . import sdpa

_library = torch.library.Library("webgpu_backend", "FRAGMENT")
_library.define(
    "finished_attention(Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor? other, bool causal, float scale, "
    "int[4] order, str after, ScalarType dtype) -> Tensor",
    tags=(torch.Tag.flexible_layout,),
)


@torch.library.impl(_library, "finished_attention", "PrivateUse1")
def _finished(q, k, v, mask, other, causal, scale, order, after, dtype):
    """The elements that `after` makes of those of attention, r, and of `other`, d, which is broadcast."""
    rest = (causal, scale, 0.0, None, tuple(order), after)
    given = (q, k, v, mask, other)
    try:
        return sdpa.forward(*given[:4], *rest, other, dtype)[0]
    except BindingTooLarge:  # parts of storages that are larger than a binding, or a larger batch than was known
        out = torch.empty((*q.shape[:3], v.shape[3]), dtype=dtype, device="meta")
        if fit(*given, out):
            *given, other = [None if x is None else x.clone() for x in given]
            return sdpa.forward(*given, *rest, other, dtype)[0]
        if q.shape[0] < 2:
            raise

    def part(x, start, length):
        return x if x is None or x.dim() < 4 or x.shape[0] == 1 else x.narrow(0, start, length)

    made = [
        _finished(*[part(x, *piece) for x in given], causal, scale, order, after, dtype)
        for piece in pieces(q.shape[0], *given, out)
    ]
    inner = [order.index(d) for d in range(4)]
    return torch.cat([x.permute(order) for x in made], inner[0]).permute(inner)


@torch.library.register_fake("webgpu_backend::finished_attention", lib=_library)
def _shape(q, k, v, mask, other, causal, scale, order, after, dtype):
    sizes = (*q.shape[:3], v.shape[3])
    return q.new_empty([sizes[d] for d in order], dtype=dtype).permute([order.index(d) for d in range(4)])
