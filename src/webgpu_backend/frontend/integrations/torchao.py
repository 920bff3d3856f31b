"""torchao: its weights of eight bits by our products, and those of four bits without CUDA.

`quantize_`, its configurations and tensors are used as they are. What of them asks for CUDA: `Int4WeightOnlyConfig` in
its default packing wants the package mslk, whose kernels are CUDA's, and in `tile_packed_to_4d` asks for a card's
compute capability; here both become the latter, by torchao's own functions for its parts.
"""

from functools import wraps

import torch

from ... import tensor as T

aten = torch.ops.aten
_TILES_OF_K = 8  # what torchao packs with, and pads k for
_MULTIPLE = 1024


def int8_linear(tensor: type) -> type:
    """Weights of eight bits with a scale a row are multiplied as they are. torchao's own product makes floats of all of
    them first, and trusts Inductor to leave that out."""
    own = tensor._TORCH_FN_TABLE[tensor][torch.nn.functional.linear]

    def linear(func, types, args, kwargs):
        x, weight, bias = args[0], args[1], args[2] if len(args) > 2 else kwargs.get("bias")
        whole = weight.qdata.dim() == 2 and weight.block_size[-1] == weight.qdata.shape[-1]
        if not whole or weight.act_quant_kwargs is not None or weight.qdata.device.type != T.NAME:
            return own(func, types, args, kwargs)
        if weight.act_pre_scale is not None:
            x = x * weight.act_pre_scale
        n = weight.qdata.shape[0]
        y = torch._weight_int8pack_mm(x.reshape(-1, x.shape[-1]), weight.qdata, weight.scale.flatten().expand(n))
        y = y.reshape(*x.shape[:-1], n)
        return y if bias is None else y + bias

    tensor.implements(aten.linear.default)(linear)
    tensor.implements_torch_function(torch.nn.functional.linear)(linear)
    return tensor


def int_product(original):
    """torchao goes by what cuBLAS takes: few rows as products of int32, and odd sizes on the CPU."""

    @wraps(original)
    def safe_int_mm(input, mat2):
        if input.device.type == T.NAME:
            return torch._int_mm(input, mat2)
        return original(input, mat2)

    return safe_int_mm


def int4_weights(original):
    @wraps(original)
    def _int4_weight_only_quantize_tensor(weight, config):
        packing = getattr(config.int4_packing_format, "value", config.int4_packing_format)
        ours = weight.device.type == T.NAME and packing in ("plain", "tile_packed_to_4d")
        if not ours or weight.shape[-1] % config.group_size:
            return original(weight, config)
        return _tile_packed(weight, config)

    return _int4_weight_only_quantize_tensor


def _tile_packed(weight: torch.Tensor, config):
    """What torchao's `Int4TilePackedTo4dTensor.from_hp` makes, less its question for a card."""
    from torchao.quantization.quantize_.workflows.int4 import int4_tile_packed_to_4d_tensor as theirs

    rows, columns = weight.shape
    block = [1, config.group_size]
    more = -columns % _MULTIPLE, -rows % config.int4_tile_packed_ntile
    padded = torch.nn.functional.pad(weight.detach(), (0, more[0], 0, more[1]))
    if config.int4_choose_qparams_algorithm == theirs.Int4ChooseQParamsAlgorithm.HQQ:
        codes, scale, zero, _ = theirs._choose_qparams_and_quantize_affine_hqq(
            padded, nbits=4, group_size=block[-1], axis=1, compute_dtype=padded.dtype, device=padded.device,
            verbose=False, raw_output=False,
        )  # fmt: skip
        codes = codes.to(torch.int32)
    else:
        bounds = dict(quant_min=0, quant_max=15)
        scale, zero = theirs._choose_qparams_affine_tinygemm(
            padded, mapping_type=theirs.MappingType.ASYMMETRIC, block_size=tuple(block), target_dtype=torch.int32,
            scale_dtype=padded.dtype, zero_point_dtype=padded.dtype, **bounds,
        )  # fmt: skip
        codes = theirs._quantize_affine_tinygemm(padded, block, scale, zero, torch.int32, **bounds)
    pairs = (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8).contiguous()
    packed = aten._convert_weight_to_int4pack(pairs, _TILES_OF_K)
    scale, zero = scale.reshape(codes.shape[0], -1), zero.reshape(codes.shape[0], -1)
    both = theirs.pack_tinygemm_scales_and_zeros(scale, zero, scale.dtype)
    return theirs.Int4TilePackedTo4dTensor(
        qdata=packed, scale_and_zero=both, block_size=block, shape=weight.shape, act_pre_scale=None
    )
