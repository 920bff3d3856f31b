"""Attention with the elementwise steps that follow, in one kernel. Compiled graphs are rewritten to this."""

import torch

from ...runtime.errors import BindingTooLarge
from . import sdpa

_library = torch.library.Library("webgpu_backend", "FRAGMENT")
_library.define(
    "finished_attention(Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor? other, bool causal, float scale, "
    "int[4] order, str after) -> Tensor",
    tags=(torch.Tag.flexible_layout,),
)


@torch.library.impl(_library, "finished_attention", "PrivateUse1")
def _finished(q, k, v, mask, other, causal, scale, order, after):
    """The elements that `after` makes of those of attention, r, and of `other`, d, which is broadcast."""
    rest = (causal, scale, 0.0, None, tuple(order), after)
    try:
        return sdpa.forward(q, k, v, mask, *rest, other)[0]
    except BindingTooLarge:  # parts of storages that are larger than a binding, while they are not
        q, k, v, mask, other = (None if x is None else x.clone() for x in (q, k, v, mask, other))
        return sdpa.forward(q, k, v, mask, *rest, other)[0]


@torch.library.register_fake("webgpu_backend::finished_attention", lib=_library)
def _shape(q, k, v, mask, other, causal, scale, order, after):
    sizes = (*q.shape[:3], v.shape[3])
    return q.new_empty([sizes[d] for d in order]).permute([order.index(d) for d in range(4)])
