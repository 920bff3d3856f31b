"""Nested tensors of the strided kind: one dense buffer on the device; where its parts lie is known on the CPU.

torch's code for the CPU is made of calls of dense tensors, buffers or parts, for nearly all that it has; it touches no
element and serves the device as it is. What reads elements through a pointer must not be in that list: it is written
here, or refused in words.
"""

import math

import torch

from ...plan.places import placed

aten = torch.ops.aten
_CPU, _NESTED_CPU = torch._C.DispatchKey.CPU, torch._C.DispatchKey.NestedTensorCPU
_MADE_OF_PARTS = (
    "_fused_sdp_choice", "_native_multi_head_attention", "_nested_from_padded_and_nested_example",
    "_nested_select_backward", "_nested_tensor_size", "_nested_tensor_softmax_with_shape",
    "_nested_tensor_storage_offsets", "_nested_tensor_strides", "_safe_softmax", "_softmax", "_softmax_backward_data",
    "_test_autograd_multiple_dispatch.fullcoverage", "_test_autograd_multiple_dispatch.ntonly", "_to_copy",
    "_transformer_encoder_layer_fwd", "abs", "abs_", "add.Tensor", "add_.Tensor", "alias", "all.dim", "bmm", "cat",
    "chunk", "clone", "copy_", "cos", "detach", "div.Scalar", "div.Tensor", "embedding", "empty_like", "eq.Scalar",
    "eq.Tensor", "fill_.Scalar", "fill_.Tensor", "ge.Scalar", "gelu", "gelu_", "gelu_backward", "gt.Scalar",
    "is_same_size", "isinf", "isnan", "isneginf", "isposinf", "linear", "linear_backward", "logical_not",
    "logical_not_", "masked_fill.Scalar", "matmul", "matmul.out", "matmul_backward", "mul.Scalar", "mul.Tensor",
    "mul_.Scalar", "mul_.Tensor", "narrow", "native_dropout", "native_dropout_backward", "neg", "neg_", "normal_",
    "ones_like", "relu", "relu_", "select.int", "sgn", "sgn_", "silu", "silu_", "silu_backward", "sin",
    "split_with_sizes", "sqrt", "squeeze", "squeeze.dim", "squeeze.dims", "sub.Tensor", "tanh", "tanh_",
    "threshold_backward", "to_padded_tensor", "transpose.int", "unbind.int", "unsqueeze", "values", "view",
    "where.self", "where.self_out", "zero_",
)  # fmt: skip
_FROM_DENSE = ("_nested_view_from_buffer", "_nested_from_padded", "_nested_tensor_from_mask")


def register(library: torch.library.Library) -> None:
    known = set(torch._C._dispatch_get_registrations_for_dispatch_key("NestedTensorCPU"))
    for name in _MADE_OF_PARTS:
        if f"aten::{name}" in known:  # some are newer than the oldest torch
            library.impl(name, placed(_of_the_cpu(_overload(name), _NESTED_CPU), name), "NestedTensorPrivateUse1")
    for name in _FROM_DENSE:
        library.impl(name, placed(_of_the_cpu(_overload(name), _CPU), name), "PrivateUse1")
    for kernel in (sum_dim, sum_backward, layer_norm, layer_norm_backward, padded_heads):
        library.impl(kernel.name, placed(kernel, kernel.name), "NestedTensorPrivateUse1")


def _overload(name: str):
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload or "default")


def _of_the_cpu(op, key):
    return lambda *args, **kwargs: op._op_dk(key, *args, **kwargs)


def _named(name: str):
    def name_it(kernel):
        kernel.name = name
        return kernel

    return name_it


def _parts(nested: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    """A buffer with the sizes of a contiguous nested tensor."""
    sizes, strides = nested._nested_tensor_size(), nested._nested_tensor_strides()
    return torch._nested_view_from_buffer(buffer.reshape(-1), sizes, strides, nested._nested_tensor_storage_offsets())


def _rows(nested: torch.Tensor, length: int) -> torch.Tensor:
    return nested.contiguous().values().view(-1, length)


@_named("sum.dim_IntList")
def sum_dim(self, dim, keepdim=False, *, dtype=None):
    """Under the CPU's conditions."""
    if dim is None or len(dim) != 1:
        raise RuntimeError("NestedTensor only allows reduction of a single dimension for now.")
    (dim,) = dim
    if dim % self.dim() != self.dim() - 1:
        raise RuntimeError(
            f"NestedTensor can only be reduced across the last dimension for now got dimension {dim} instead."
        )
    if not keepdim:
        raise RuntimeError("NestedTensor always requires keepdim=True for now.")
    if dtype is not None:
        raise RuntimeError("NestedTensor does not support dtype argument for now.")
    if not self.size(0):
        return self
    return torch._nested_tensor_from_tensor_list(
        [part.sum(-1, keepdim=True, dtype=self.dtype) for part in self.unbind()]
    )


@_named("_nested_sum_backward")
def sum_backward(grad, self, dim, keepdim=False):
    sums = [one.expand(part.shape) for one, part in zip(grad.unbind(), self.unbind())]
    return torch._nested_tensor_from_tensor_list(sums)


@_named("native_layer_norm")
def layer_norm(input, normalized_shape, weight, bias, eps):
    """Under the CPU's conditions."""
    if weight is None or bias is None:
        raise ValueError("NestedTensor layer_norm requires weight and bias")
    if not input.is_contiguous():
        raise RuntimeError("layer_norm of a nested tensor expects it to be contiguous")
    last = input._nested_tensor_size()[:, -len(normalized_shape) :]
    if not (last == torch.tensor(normalized_shape, device="cpu")).all():
        raise RuntimeError("normalized_shape extends into irregular dimensions for the nested tensor")
    length = math.prod(normalized_shape)
    rows = _rows(input, length)
    out, mean, rstd = torch.native_layer_norm(rows, [length], weight.reshape(-1), bias.reshape(-1), eps)
    return _parts(input, out), mean.view(-1), rstd.view(-1)


@_named("native_layer_norm_backward")
def layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    length = math.prod(normalized_shape)
    found = aten.native_layer_norm_backward(
        _rows(grad_out, length), _rows(input, length), [length], mean.view(-1, 1), rstd.view(-1, 1),
        weight.reshape(-1), bias.reshape(-1), output_mask,
    )  # fmt: skip
    grads = [grad if grad is None else grad.view(normalized_shape) for grad in found[1:]]
    return _parts(input, found[0]) if output_mask[0] else None, *grads


@_named("_transform_bias_rescale_qkv")
def padded_heads(qkv, qkv_bias, num_heads):
    return aten._transform_bias_rescale_qkv(torch.nested.to_padded_tensor(qkv, 0.0), qkv_bias, num_heads)
