"""What transformers does for each layer of each token where nothing is compiled, in fewer steps."""

import inspect
from functools import wraps

import torch

from ... import tensor as T


def static_update(original):
    """One token is written to a cache of fixed size, and counted, in one step: transformers takes five."""

    @wraps(original)
    def update(self, key_states, value_states, *args, **kwargs):
        count = getattr(self, "cumulative_length", None)
        ours = key_states.device.type == T.NAME and isinstance(count, torch.Tensor) and self.is_initialized
        if not ours or key_states.shape[-2] != 1 or torch.compiler.is_compiling() or torch.is_grad_enabled():
            return original(self, key_states, value_states, *args, **kwargs)
        torch.ops.webgpu_backend.append_token.default(self.keys, self.values, count, key_states, value_states)
        return self.keys, self.values

    return update


def grouped_attention(original):
    """Keys and values of fewer heads than the queries are read as they are with a mask too: no copies for each head.
    A graph has its own ways to see that."""

    @wraps(original)
    def use_gqa_in_sdpa(attention_mask, key, *args, **kwargs):
        ours = key.device.type == T.NAME and not torch.compiler.is_compiling()
        return ours or original(attention_mask, key, *args, **kwargs)

    return use_gqa_in_sdpa


def masks(mapping: dict) -> dict:
    """The mask of one token before a cache of fixed size is a comparison: transformers counts every dimension."""
    original = mapping.get("sdpa")
    parameters = inspect.signature(original).parameters if original is not None else {}
    if not {"q_length", "kv_length", "q_offset", "kv_offset", "mask_function"} <= set(parameters):
        return mapping  # of another version, whose masks are made as it does
    causal = parameters["mask_function"].default

    @wraps(original)
    def sdpa_mask(*args, **kwargs):
        mask = _one_token(causal, *args, **kwargs) if not torch.compiler.is_compiling() else None
        return original(*args, **kwargs) if mask is None else mask

    mapping["sdpa"] = sdpa_mask
    return mapping


def _one_token(
    causal, batch_size, q_length, kv_length, q_offset=0, kv_offset=0, mask_function=None, attention_mask=None,
    use_vmap=False, **_,
):  # fmt: skip
    """None where the mask is another one."""
    counted = isinstance(q_offset, torch.Tensor) and q_offset.numel() == 1 and type(kv_offset) is int
    if q_length != 1 or mask_function not in (None, causal) or use_vmap or not counted:
        return None
    if q_offset.device.type != T.NAME or not (attention_mask is None or _padding(attention_mask, batch_size)):
        return None
    end = kv_offset + kv_length
    seen = _places(kv_offset, end, q_offset.device) <= q_offset
    if attention_mask is None:
        return seen if batch_size == 1 else seen.expand(batch_size, 1, 1, kv_length)
    missing = end - attention_mask.shape[1]
    given = torch.nn.functional.pad(attention_mask, (0, missing)) if missing > 0 else attention_mask
    return seen & given[:, None, None, kv_offset:end]


_MOST_PLACES = 8
_kept: dict[tuple, torch.Tensor] = {}  # by their ends and device


def _places(start: int, end: int, device) -> torch.Tensor:
    """The places of a cache, as keys of a mask. They are the same for each token."""
    found = _kept.get((start, end, device))
    if found is None:
        with torch.inference_mode(False):
            found = torch.arange(start, end, device=device).view(1, 1, 1, -1)
        if found.__class__ is torch.Tensor:  # no mode makes others of them
            if len(_kept) >= _MOST_PLACES:
                _kept.clear()
            _kept[start, end, device] = found
    return found


def _padding(mask: torch.Tensor, batch: int) -> bool:
    return mask.dim() == 2 and mask.dtype is torch.bool and mask.shape[0] == batch and mask.device.type == T.NAME
