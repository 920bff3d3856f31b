"""What transformers does for each layer of each token where nothing is compiled, in fewer steps."""

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
