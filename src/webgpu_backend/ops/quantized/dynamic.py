"""Weights of four bits by activations of eight that are quantised as they come, a scale and a zero point a row.

Packed weights are what the CPU makes where it has no packing of its own for a processor: a vector of floats with a
value for each byte of two weights, then the scales, then the bias. They may be made on one device and used on another.
"""

import torch

from ... import tensor as T
from ...kernels.quantized.formats import PIECE, Blocks
from ..table import custom
from .product import Weight, dense, multiply

_LOW, _HIGH = -128, 127


def _check_sizes(name: str, block_size: int, in_features: int) -> None:
    whole = block_size == in_features or (block_size % 32 == 0 and block_size and in_features % block_size == 0)
    if not whole:
        raise RuntimeError(
            f"{name}: Group size should be multiple of 32, in_features [{in_features}] must be divisible by it, or be "
            f"equal to it; got {block_size}"
        )


@custom("_dyn_quant_pack_4bit_weight")
def pack(weights, scales_zeros, bias, block_size, in_features, out_features):
    name = "_dyn_quant_pack_4bit_weight"
    if weights.dtype is not torch.uint8:
        raise RuntimeError(f"{name} : expect weight to be kByte.")
    _check_sizes(name, block_size, in_features)
    parts = [weights, scales_zeros] if bias is None else [weights, scales_zeros, bias]
    return torch.cat([part.float().flatten() for part in parts])


def _rounded(x: torch.Tensor) -> torch.Tensor:
    """Each row as the nearest of 256 values, zero among them."""
    low, high = x.amin(1, keepdim=True).clamp(max=0), x.amax(1, keepdim=True).clamp(min=0)
    scale = torch.where(low == high, 1.0, (_HIGH - _LOW) / (high - low))
    lower, upper = low * scale, high * scale
    zero = torch.where((_LOW + lower) + (_HIGH + upper) > 0, _LOW - lower, _HIGH - upper)
    zero = zero.clamp(_LOW, _HIGH).round()
    codes = ((x * scale).round() + zero).clamp(_LOW, _HIGH)
    return (codes - zero) * (1 / scale)


@custom("_dyn_quant_matmul_4bit")
def product(inp, packed_weights, block_size, in_features, out_features):
    name = "_dyn_quant_matmul_4bit"
    whole_rows = block_size == in_features
    if inp.dtype is not torch.float32 and not (inp.dtype is torch.bfloat16 and whole_rows):
        raise RuntimeError(f"{name} : expect input to be float32 or bfloat16 tensor.")
    _check_sizes(name, block_size, in_features)
    if inp.dim() != 2 or inp.shape[1] != in_features:
        raise RuntimeError(f"{name} : expect input to be [rows, {in_features}], got {list(inp.shape)}")
    n, k = out_features, in_features
    if not inp.numel() or not n:
        return inp.new_zeros((inp.shape[0], n))
    groups = 1 if whole_rows else k // block_size
    codes = packed_weights[: n * k // 2].to(torch.uint8).view(n, k // 2)
    scales = packed_weights[n * k // 2 :][: n * groups].view(n, groups)
    bias = packed_weights[n * k // 2 + n * groups :]
    made = _multiply(_rounded(inp.float()), codes, scales, n, k, block_size)
    return (made + bias if bias.numel() else made).to(inp.dtype)


def _multiply(x, codes, scales, n: int, k: int, block_size: int):
    groups = scales.shape[1]
    if k % PIECE or (groups > 1 and block_size & (block_size - 1)):  # no kernel reads such groups as they are
        low, high = (codes & 15).float() - 8, (codes >> 4).float() - 8
        weights = torch.stack([low, high], -1).reshape(n, groups, -1) * scales.unsqueeze(-1)
        return torch.mm(x, weights.view(n, k).t())
    with_zeros = torch.stack([scales, torch.zeros_like(scales)], -1)
    row, group, zero = with_zeros.stride()
    shift = (block_size - 1).bit_length()
    blocks = Blocks("int4", T.dtype_of(with_zeros), with_zeros.storage_offset(), row, group, shift, zero)
    return multiply(x, Weight(dense(codes.view(torch.int32)), with_zeros, blocks, n, k))
