"""What transformers does for each layer of each token where nothing is compiled, in fewer steps."""

import inspect
import threading
from functools import cache, wraps
from typing import Any, NamedTuple

import torch

from ... import tensor as T

_modes, _transforms = torch._C._len_torch_dispatch_stack, torch._C._are_functorch_transforms_active


def static_update(original):
    """One token is written to a cache of fixed size, and counted, in one step: transformers takes five."""

    @wraps(original)
    def update(self, key_states, value_states, *args, **kwargs):
        count = getattr(self, "cumulative_length", None)
        ours = key_states.device.type == T.NAME and isinstance(count, torch.Tensor) and self.is_initialized
        if not ours or key_states.shape[-2] != 1 or torch.compiler.is_compiling() or torch.is_grad_enabled():
            return original(self, key_states, value_states, *args, **kwargs)
        watched = _modes() or _transforms() or key_states.__class__ is not torch.Tensor
        append = torch.ops.webgpu_backend.append_token.default if watched else _append()
        append(self.keys, self.values, count, key_states, value_states)
        return self.keys, self.values

    return update


@cache
def _append():
    """The operator without torch's dispatcher, which has nothing to add where nobody watches."""
    from ..dispatch.registration import form_of

    return form_of("webgpu_backend::append_token")


def grouped_attention(original):
    """Keys and values of fewer heads than the queries are read as they are with a mask too: no copies for each head.
    A graph has its own ways to see that."""

    @wraps(original)
    def use_gqa_in_sdpa(attention_mask, key, *args, **kwargs):
        ours = key.device.type == T.NAME and not torch.compiler.is_compiling()
        return ours or original(attention_mask, key, *args, **kwargs)

    return use_gqa_in_sdpa


class _Token(NamedTuple):
    """A token's mask: of the places from `start` to `end`, those that the count of tokens has not passed."""

    batch: int
    start: int
    end: int
    count: torch.Tensor

    def mask(self) -> torch.Tensor:
        seen = _places(self.start, self.end, self.count.device) <= self.count
        return seen if self.batch == 1 else seen.expand(self.batch, 1, 1, self.end - self.start)


class _Last(threading.local):
    """The mask that was made last in this thread."""

    token: _Token | None = None
    mask: torch.Tensor | None = None


_last = _Last()


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
    if attention_mask is None:
        _last.token = _Token(batch_size, kv_offset, end, q_offset)
        _last.mask = _last.token.mask()
        return _last.mask
    missing = end - attention_mask.shape[1]
    given = torch.nn.functional.pad(attention_mask, (0, missing)) if missing > 0 else attention_mask
    return _Token(1, kv_offset, end, q_offset).mask() & given[:, None, None, kv_offset:end]


class _Kept(NamedTuple):
    """How the mask of a cache's last token was made."""

    config: Any
    way: Any  # of attention, which the masks follow
    token: _Token
    layer: Any  # whose count it follows
    name: str | None  # of the mask, where masks are named


_OTHERS = ("or_mask_function", "and_mask_function", "block_sequence_ids")


def generation_masks(original):
    """What transformers asks its configuration and its cache for a token's mask is the same for each token."""

    @wraps(original)
    def create_masks_for_generate(config, inputs_embeds, attention_mask, past_key_values, *args, **kwargs):
        plain = attention_mask is None and not args and all([kwargs.get(name) is None for name in _OTHERS])
        if not plain or inputs_embeds.shape[1] != 1 or torch.compiler.is_compiling():
            return original(config, inputs_embeds, attention_mask, past_key_values, *args, **kwargs)
        kept = getattr(past_key_values, "_webgpu_mask", None)
        if kept is not None and kept.config is config and kept.way == config._attn_implementation:
            counted = kept.layer.is_initialized and kept.layer.cumulative_length is kept.token.count
            if counted and kept.token.batch == inputs_embeds.shape[0]:
                mask = kept.token.mask()
                return mask if kept.name is None else {kept.name: mask}
        _last.mask = None
        made = original(config, inputs_embeds, attention_mask, past_key_values, *args, **kwargs)
        _keep(made, config, past_key_values)
        return made

    return create_masks_for_generate


def _keep(made, config, past_key_values) -> None:
    """For the next token, if these masks are one, that of a token."""
    mask, token, name = made, _last.token, None
    if isinstance(made, dict) and len(made) == 1:
        ((name, mask),) = made.items()
    if mask is not None and mask is _last.mask:
        for layer in getattr(past_key_values, "layers", ()):
            if getattr(layer, "cumulative_length", None) is token.count:
                past_key_values._webgpu_mask = _Kept(config, config._attn_implementation, token, layer, name)
                break
    _last.mask = _last.token = None


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
