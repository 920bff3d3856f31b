"""Modules whose weights are GGUF's blocks, and the conversion of a model to them.

They are linear layers and embeddings like torch's, so that libraries that look for those (peft, transformers) find
them; their `weight` holds the codes, a parameter of whole numbers without a gradient, and `scales` what belongs to it.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import nn

from ... import tensor as T
from .. import first_use

FORMATS = ("q8_0", "q4_0", "q4_k", "q6_k")
_BLOCK = {"q8_0": 32, "q4_0": 32, "q4_k": 256, "q6_k": 256}
_AT_ONCE = 1 << 24  # weights that are quantised together: what is in between takes some times their memory


class QuantizedLinear(nn.Linear):
    """A linear layer over codes and scales. It computes in the dtype of what it is given."""

    def __init__(self, codes: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, format: str, columns: int):
        nn.Module.__init__(self)
        self.in_features, self.out_features, self.format = columns, codes.shape[0], format
        self.weight = nn.Parameter(codes, requires_grad=False)
        self.scales = nn.Parameter(scales, requires_grad=False)  # compiled graphs look at parameters once
        self.bias = bias

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        bias = self.bias
        if bias is not None and bias.dtype != input.dtype:
            bias = bias.to(input.dtype)
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or input.device.type != T.NAME:
            return torch.ops.webgpu_backend.linear_blocks(input, self.weight, self.scales, bias, self.format)
        return _direct()(input, self.weight, self.scales, bias, self.format)  # not by way of torch's dispatcher

    def extra_repr(self) -> str:
        rest = f"bias={self.bias is not None}, format={self.format!r}"
        return f"in_features={self.in_features}, out_features={self.out_features}, {rest}"

    def dequantize(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The weights as numbers, [out_features, in_features]."""
        return torch.ops.webgpu_backend.weights_of_blocks(self.weight, self.scales, self.format, dtype)


class QuantizedEmbedding(nn.Embedding):
    """A table of rows over codes and scales: the rows that are asked for become numbers, in `dtype`."""

    def __init__(self, codes: torch.Tensor, scales: torch.Tensor, format: str, columns: int, dtype: torch.dtype):
        nn.Module.__init__(self)
        self.num_embeddings, self.embedding_dim, self.format, self.dtype = codes.shape[0], columns, format, dtype
        self.padding_idx = self.max_norm = None
        self.norm_type, self.scale_grad_by_freq, self.sparse = 2.0, False, False
        self.weight = nn.Parameter(codes, requires_grad=False)
        self.scales = nn.Parameter(scales, requires_grad=False)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        given = input.reshape(-1), self.weight, self.scales, self.format, self.dtype
        found = torch.ops.webgpu_backend.rows_of_blocks(*given)
        return found.view(*input.shape, self.embedding_dim)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, format={self.format!r}, dtype={self.dtype}"


@cache
def _direct() -> Callable:
    from ...ops.quantized.blocks import linear_here

    return linear_here


def quantize_(
    model: nn.Module, format: str, filter: Callable[[nn.Module, str], bool] | None = None, embeddings: bool = True
) -> nn.Module:
    """Replaces the linear layers of a model, and its embeddings, by ones over blocks of `format`: "q8_0", "q4_0",
    "q4_k" or "q6_k" as llama.cpp defines them. Returns the model (a linear layer by itself cannot be replaced in place:
    take what is returned).

    `filter(module, name)` says which modules to take. Weights are quantised where they lie, layer by layer, so a model
    larger than the device is converted on the CPU and moved then. Rows that are no whole blocks of 256 get "q8_0", and
    rows that are no multiple of 32 stay as they are. Weights that two modules share stay shared.
    """
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}: one of {', '.join(FORMATS)}")
    first_use.complete()
    sharing: dict[int, list[str]] = {}  # names of modules by their weight; ids are of weights that are all alive
    for name, module in model.named_modules():
        wanted = type(module) is nn.Linear or (embeddings and type(module) is nn.Embedding and module.max_norm is None)
        if wanted and module.weight.is_floating_point() and (filter is None or filter(module, name)):
            sharing.setdefault(id(module.weight), []).append(name)
    for names in sharing.values():
        weight = model.get_submodule(names[0]).weight
        chosen = _format_of(weight.shape[1], format)
        if chosen is None:
            continue
        codes, scales = _quantised(weight, chosen)
        new = [quantized_module(model.get_submodule(name), codes, scales, chosen) for name in names]
        for name, module in zip(names, new):
            module.weight, module.scales = new[0].weight, new[0].scales
            if not name:
                return module
            model.set_submodule(name, module)
    return model


def quantized_module(module: nn.Module, codes, scales, format: str) -> nn.Module:
    """What takes the place of a linear layer or an embedding."""
    if isinstance(module, nn.Linear):
        new = QuantizedLinear(codes, scales, module.bias, format, module.in_features)
    else:
        new = QuantizedEmbedding(codes, scales, format, module.embedding_dim, module.weight.dtype)
    new.train(module.training)
    return new


def _format_of(columns: int, format: str) -> str | None:
    if columns and columns % _BLOCK[format] == 0:
        return format
    return "q8_0" if columns and columns % 32 == 0 else None


def _quantised(weight: torch.Tensor, format: str) -> tuple[torch.Tensor, torch.Tensor]:
    from ...ops.quantized import codecs

    with torch.no_grad():
        rows = max(1, _AT_ONCE // weight.shape[1])
        parts = [codecs.quantised(part, format) for part in weight.detach().split(rows)]
        if len(parts) == 1:
            return parts[0]
        return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])
