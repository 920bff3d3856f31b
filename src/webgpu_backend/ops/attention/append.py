"""A text's next token in a cache of fixed size whose count is on the device."""

import torch

from ...kernels.attention import append
from ...plan import caps, launch
from ...plan.faults import site
from ..overlap import no_internal_overlap, no_overlap
from ..table import custom
from .sdpa import grouped

torch.library.define(
    "webgpu_backend::append_token",
    "(Tensor(a!) keys, Tensor(b!) values, Tensor(c!) count, Tensor key, Tensor value) -> ()",
)


def _fits(keys, values, count, key, value) -> bool:
    tensors = (keys, values, key, value)
    if count.dtype is not torch.int64 or count.numel() != 1 or not all([t.dim() == 4 and grouped(t) for t in tensors]):
        return False
    if len({t.dtype for t in tensors}) > 1 or keys.element_size() not in append.GROUPS or not key.numel():
        return False
    alike = key.shape[:2] == value.shape[:2] == keys.shape[:2] == values.shape[:2]
    rows = key.shape[2] == value.shape[2] == 1 and keys.shape[2] == values.shape[2] > 0
    sizes = key.shape[3] == keys.shape[3] and value.shape[3] == values.shape[3]
    if not (alike and rows and sizes) or key.shape[3] % 4 or value.shape[3] % 4:
        return False
    whole = all([t.untyped_storage().nbytes() <= caps().max_binding for t in tensors])
    return whole and max(key.numel(), value.numel()) <= 4 * append.MOST_GROUPS


@custom("webgpu_backend::append_token")
def append_token(keys, values, count, key, value):
    for cache in (keys, values):
        no_internal_overlap(cache)
        no_overlap(cache, count, key, value)
    if not _fits(keys, values, count, key, value):
        keys.index_copy_(2, count, key)
        values.index_copy_(2, count, value)
        count.add_(1)
        return
    tensors = {"keys": keys, "values": values, "key": key, "value": value}
    places = {
        name: (t.shape[3] // 4, *[n // 4 for n in (t.storage_offset(), *t.stride()[:3])]) for name, t in tensors.items()
    }
    batch, heads, size = keys.shape[:3]
    where = site("index_copy", 2, False)
    step = append.plan(keys.element_size(), batch, heads, size, count.storage_offset(), where, places, caps())
    launch(step, key, value, keys, values, count)


@torch.library.register_fake("webgpu_backend::append_token")
def _fake(keys, values, count, key, value):
    return None
