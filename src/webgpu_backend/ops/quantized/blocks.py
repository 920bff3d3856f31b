"""Operators of our own over weights in GGUF's formats: linear layers, rows of a table, the weights as numbers. They are
operators so that graphs, exports and gradients know them; elsewhere than on the device they are torch's arithmetic."""

import torch

from ...kernels.quantized.formats import FORMATS, PIECE
from ...plan import planned
from ...runtime.errors import BindingTooLarge
from . import codecs
from .product import in_blocks, multiply, numbers, rows_of

_library = torch.library.Library("webgpu_backend", "FRAGMENT")
_library.define("linear_blocks(Tensor x, Tensor codes, Tensor scales, Tensor? bias, str format) -> Tensor")
_library.define("weights_of_blocks(Tensor codes, Tensor scales, str format, ScalarType dtype) -> Tensor")
_library.define("rows_of_blocks(Tensor index, Tensor codes, Tensor scales, str format, ScalarType dtype) -> Tensor")
ours = torch.ops.webgpu_backend


def columns(codes: torch.Tensor, format: str) -> int:
    return codes.shape[1] // FORMATS[format].words * PIECE


def _check(x, codes, bias, format) -> None:
    k = columns(codes, format)
    if x.shape[-1] != k:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({list(x.shape)} and {k}x{codes.shape[0]})")
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise RuntimeError(f"linear over {format} weights: expected a float tensor, got {x.dtype}")
    if bias is not None and bias.dtype != x.dtype:
        raise RuntimeError(f"expected the bias to have dtype {x.dtype}, got {bias.dtype}")


def _check_index(index) -> None:
    if index.dim() != 1 or index.dtype not in (torch.int64, torch.int32):
        raise RuntimeError(f"rows of an embedding: expected one dimension of Long or Int, got {index.dtype}")


@planned
def _linear(x, codes, scales, bias, format: str):
    return multiply(x, in_blocks(codes, scales, format), bias)


@planned
def _numbers(codes, scales, format: str, dtype):
    return numbers(in_blocks(codes, scales, format), dtype)


@planned
def _rows(index, codes, scales, format: str, dtype):
    index = index.clone(memory_format=torch.contiguous_format) if index.stride(0) != 1 else index
    return rows_of(in_blocks(codes, scales, format), index, dtype)


@torch.library.impl(_library, "linear_blocks", "PrivateUse1")
def linear_here(x, codes, scales, bias, format):
    _check(x, codes, bias, format)
    return _linear(x, codes, scales, bias, format)


@torch.library.impl(_library, "linear_blocks", "CPU")
def _linear_on_cpu(x, codes, scales, bias, format):
    _check(x, codes, bias, format)
    return torch.nn.functional.linear(x, codecs.dequantised(codes, scales, format).to(x.dtype), bias)


@torch.library.impl(_library, "weights_of_blocks", "PrivateUse1")
def _numbers_here(codes, scales, format, dtype):
    return _numbers(codes, scales, format, dtype)


@torch.library.impl(_library, "weights_of_blocks", "CPU")
def _numbers_on_cpu(codes, scales, format, dtype):
    return codecs.dequantised(codes, scales, format).to(dtype)


@torch.library.impl(_library, "rows_of_blocks", "PrivateUse1")
def _rows_here(index, codes, scales, format, dtype):
    _check_index(index)
    try:
        return _rows(index, codes, scales, format, dtype)
    except BindingTooLarge:
        return _numbers(codes.index_select(0, index), scales.index_select(0, index), format, dtype)


@torch.library.impl(_library, "rows_of_blocks", "CPU")
def _rows_on_cpu(index, codes, scales, format, dtype):
    _check_index(index)
    return _numbers_on_cpu(codes.index_select(0, index), scales.index_select(0, index), format, dtype)


@torch.library.register_fake("webgpu_backend::rows_of_blocks", lib=_library)
def _rows_shape(index, codes, scales, format, dtype):
    _check_index(index)
    return codes.new_empty((index.shape[0], columns(codes, format)), dtype=dtype)


@torch.library.register_fake("webgpu_backend::linear_blocks", lib=_library)
def _linear_shape(x, codes, scales, bias, format):
    return x.new_empty((*x.shape[:-1], codes.shape[0]))


@torch.library.register_fake("webgpu_backend::weights_of_blocks", lib=_library)
def _numbers_shape(codes, scales, format, dtype):
    return codes.new_empty((codes.shape[0], columns(codes, format)), dtype=dtype)


def _saves(ctx, inputs, output):
    x, codes, scales, bias, ctx.format = inputs
    ctx.save_for_backward(codes, scales)
    ctx.bias = bias is not None
    ctx.set_materialize_grads(False)


def _gradient(ctx, grad):
    codes, scales = ctx.saved_tensors
    wanted = ctx.needs_input_grad
    found = [None] * 5
    if grad is None:
        return tuple(found)
    if wanted[0]:
        found[0] = grad @ ours.weights_of_blocks(codes, scales, ctx.format, grad.dtype)
    if ctx.bias and wanted[3]:
        found[3] = grad.flatten(0, -2).sum(0) if grad.dim() > 1 else grad
    return tuple(found)


torch.library.register_autograd("webgpu_backend::linear_blocks", _gradient, setup_context=_saves, lib=_library)
