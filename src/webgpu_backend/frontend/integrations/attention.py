"""Attention of torch's own Python code: over jagged tensors, and FlexAttention's list of devices."""

from functools import wraps
from types import FunctionType

import torch
from torch.nn import functional as F

from ... import tensor as T


def _rows(nested) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of a jagged tensor [batch, heads, length, width]: its values [rows, heads, width], where each sequence starts,
    and how long it is."""
    offsets, lengths = nested.offsets(), nested.lengths()
    return nested.transpose(1, 2).values(), offsets[:-1], offsets.diff() if lengths is None else lengths


def _padded(nested) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As a dense tensor [batch, heads, longest, width]; which of [batch, longest] are there; and their rows."""
    values, starts, lengths = _rows(nested)
    places = torch.arange(int(nested._get_max_seqlen()), device=values.device)
    there = places < lengths.unsqueeze(1)
    rows = torch.where(there, starts.unsqueeze(1) + places, 0)
    return values[rows].transpose(1, 2), there, rows


def jagged(original):
    """Torch's plain way takes nested tensors of the strided kind, which the device has not: dense ones are padded, with
    a mask for what is not there."""

    @wraps(original)
    def jagged_scaled_dot_product_attention(
        query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
    ):
        ours = all(x.is_nested and x.device.type == T.NAME and x.dim() == 4 for x in (query, key, value))
        if (
            not ours
            or attn_mask is not None
            or any(not isinstance(x.shape[2], torch.SymInt) for x in (query, key, value))
        ):
            return original(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        from torch.nested._internal.nested_tensor import nested_view_from_values_offsets_lengths

        (q, rows_there, rows), (k, there, _), (v, _, _) = _padded(query), _padded(key), _padded(value)
        mask = there[:, None, None, :]
        if is_causal:
            mask = mask & torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
        out = F.scaled_dot_product_attention(q, k, v, mask, dropout_p, False, scale=scale, enable_gqa=enable_gqa)
        values, _, _ = _rows(query)
        made = out.transpose(1, 2)[rows_there]
        if len(made) != len(values):  # rows of no sequence
            made = made.new_zeros((len(values), *made.shape[1:])).index_copy(0, rows[rows_there], made)
        result = nested_view_from_values_offsets_lengths(
            made, query.offsets(), query.lengths(), min_seqlen=query._maybe_min_seqlen,
            max_seqlen=query._maybe_max_seqlen,
        )  # fmt: skip
        return result.transpose(1, 2)

    return jagged_scaled_dot_product_attention


def flexible(original):
    """Torch's own function with one more device in its list: torch.compile reads it on as a part of torch, and would
    break graphs at a function of ours."""
    code = original.__code__
    lists = [c for c in code.co_consts if isinstance(c, frozenset) and "cuda" in c]
    if len(lists) != 1:
        raise TypeError("it has no list of devices")
    known = tuple([c | {T.NAME} if c is lists[0] else c for c in code.co_consts])
    made = FunctionType(code.replace(co_consts=known), original.__globals__, original.__name__)
    made.__module__ = __name__
    return made
