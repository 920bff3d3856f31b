"""Attention of a text's next token over a cache of fixed size, to which its key and value are added; its place turns
query and key (rotary embedding). Compiled graphs are rewritten to this: one dispatch instead of two."""

import torch

from ... import tensor as T
from ...kernels.attention import one_query
from ...kernels.attention.single import MAX_HEAD, Shape
from ...kernels.layout import strides_in
from ...plan import caps, launch, planned
from ...plan.faults import site
from .sdpa import grouped, ready, where_mask, where_rows

_library = torch.library.Library("webgpu_backend", "FRAGMENT")
_library.define(
    "cached_attention(Tensor fresh, Tensor(a!) keys, Tensor(b!) values, Tensor place, Tensor cos, Tensor sin, "
    "Tensor? mask, float scale, int heads, int[3] starts, int[4] order) -> Tensor"
)


def serves(fresh, keys, values, cos, sin, heads: int, starts: tuple[int, int, int]) -> bool:
    """Whether one dispatch does it: groups of four elements everywhere, and few enough keys. Sizes are known."""
    here, shape = caps(), _shape(fresh, keys, values, heads)
    alike = len({t.dtype for t in (fresh, keys, values, cos, sin)}) == 1 and fresh.dtype in T.DTYPES
    groups = all([grouped(t) for t in (fresh, keys, values, cos, sin)]) and not any([n % 4 for n in starts])
    if not alike or not groups or shape.e % 8 or shape.v % 4 or here.max_bindings < one_query.CACHED_BINDINGS:
        return False
    if max(shape.e, shape.v) > MAX_HEAD:
        return False
    whole = all([t.untyped_storage().nbytes() <= here.max_binding for t in (fresh, keys, values)])
    return whole and one_query.fits(shape, T.DTYPES[fresh.dtype], False, 0.0, here)


def _shape(fresh, keys, values, heads: int) -> Shape:
    return Shape(fresh.shape[0], heads, keys.shape[1], 1, keys.shape[2], keys.shape[3], values.shape[3])


@torch.library.impl(_library, "cached_attention", "PrivateUse1")
def _cached(fresh, keys, values, place, cos, sin, mask, scale, heads, starts, order):
    return _attention(fresh, keys, values, place, cos, sin, mask, scale, heads, tuple(starts), tuple(order))


@planned(writes=True)
def _attention(fresh, keys, values, place, cos, sin, mask, scale: float, heads: int, starts: tuple, order: tuple):
    """`fresh` is [batch, 1, columns], with the heads of queries, keys and values from column `starts` on; cosines and
    sines are [batch or 1, ..., element]."""
    shape = _shape(fresh, keys, values, heads)
    mask, how = where_mask(mask, shape)
    sizes = (shape.batch, heads, 1, shape.v)
    out = T.empty(sizes, fresh.dtype, strides_in(sizes, order))
    cos, sin = ready(cos.reshape(-1, 1, 1, shape.e)), ready(sin.reshape(-1, 1, 1, shape.e))
    steps = [t.stride(0) // 4 if t.shape[0] > 1 else 0 for t in (cos, sin)]
    if steps[0] != steps[1]:
        raise ValueError(f"cached_attention: cosines of {list(cos.shape)} beside sines of {list(sin.shape)}")
    row = one_query.Fresh(
        *[(fresh.storage_offset() + start) // 4 for start in starts], fresh.stride(0) // 4, cos.storage_offset() // 4,
        sin.storage_offset() // 4, steps[0], place.storage_offset(), site("index_put", 2, True),
    )  # fmt: skip
    operands = {"k": where_rows(keys), "v": where_rows(values), "out": where_rows(out)}
    step = one_query.plan_cached(shape, T.dtype_of(fresh), row, operands, how, scale, caps())
    launch(step, fresh, keys, values, place, cos, sin, *([] if mask is None else [mask]), out)
    return out


@torch.library.register_fake("webgpu_backend::cached_attention", lib=_library)
def _fake(fresh, keys, values, place, cos, sin, mask, scale, heads, starts, order):
    sizes = (fresh.shape[0], heads, 1, values.shape[3])
    return fresh.new_empty([sizes[d] for d in order]).permute([list(order).index(d) for d in range(4)])
