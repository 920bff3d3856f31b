"""Whole layers that torch calls as one operator, composed of the device's operators."""

import math

import torch
from torch.nn import functional as F

from ...dtypes import Unsupported
from ..table import custom


def _additive(mask, mask_type, dtype):
    """A mask to be added to scores [batch, heads, target, source]: true means hidden, numbers are taken as they are."""
    if mask is None:
        return None
    if mask_type == 1:
        mask = mask[:, None, None, :]
    if mask.dtype == torch.bool:
        hidden = torch.zeros((), dtype=dtype, device=mask.device).fill_(-math.inf)
        return torch.where(mask, hidden, torch.zeros((), dtype=dtype, device=mask.device))
    return mask.to(dtype)


def _heads(x: torch.Tensor, count: int) -> torch.Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def _project(query, key, value, weight, bias):
    if query is key and key is value:
        return F.linear(query, weight, bias).chunk(3, -1)
    return tuple(F.linear(x, w, b) for x, w, b in zip((query, key, value), weight.chunk(3), bias.chunk(3)))


@custom("_native_multi_head_attention")
def multi_head_attention(
    query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None, need_weights=True,
    average_attn_weights=True, mask_type=None,
):  # fmt: skip
    q, k, v = (_heads(x, num_head) for x in _project(query, key, value, qkv_weight, qkv_bias))
    bias = _additive(mask, mask_type, q.dtype)
    weights = None
    if need_weights:
        scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.transpose(-2, -1)
        weights = (scores if bias is None else scores + bias).softmax(-1)
        out = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        out = F.scaled_dot_product_attention(q, k, v, bias)
    return F.linear(out.transpose(1, 2).flatten(2), proj_weight, proj_bias), weights


@custom("_transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1,
    norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask=None,
    mask_type=None,
):  # fmt: skip
    def norm(x, weight, bias):
        return F.layer_norm(x, (embed_dim,), weight, bias, eps)

    def attend(x):
        rest = (embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type)
        return multi_head_attention(x, x, x, *rest)[0]

    def feed(x):
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attend(norm(src, norm_weight_1, norm_bias_1))
        return x + feed(norm(x, norm_weight_2, norm_bias_2))
    x = norm(src + attend(src), norm_weight_1, norm_bias_1)
    return norm(x + feed(x), norm_weight_2, norm_bias_2)


@custom("_weight_norm_interface_backward")
def weight_norm_backward(grad_w, saved_v, saved_g, saved_norms, dim):
    others = [d for d in range(saved_v.dim()) if d != dim % saved_v.dim()]
    norms = saved_norms.to(saved_v.dtype)
    along = (grad_w * saved_v).sum(others, keepdim=True) / norms
    return (grad_w - saved_v * (along / norms)) * (saved_g / norms), along


def instance_norm(
    input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled
):  # fmt: skip
    """A group norm with a group for each channel, where no statistics are kept: one kernel, where torch's composite
    repeats the parameters for a batch norm."""
    same = all([p is None or p.dtype is input.dtype for p in (weight, bias)])
    if running_mean is not None or running_var is not None or not (use_input_stats and same and input.dim() > 2):
        raise Unsupported("webgpu: instance norm with running statistics is torch's composite")
    return F.group_norm(input.contiguous(), input.shape[1], weight, bias, eps)


custom("instance_norm", gradient=instance_norm, writes=("running_mean", "running_var"))(instance_norm)
