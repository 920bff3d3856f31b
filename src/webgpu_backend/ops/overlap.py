"""Tensors that share memory where one of them is written: torch's own checks, and its words."""

import warnings

import torch

from .. import tensor as T

_INTERNAL = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation."
)
_WITH_INPUT = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


def expanded(tensor: torch.Tensor) -> bool:
    return any([st == 0 and s > 1 for s, st in zip(tensor.shape, tensor.stride())]) and tensor.numel() > 0


def once(tensor: torch.Tensor) -> torch.Tensor:
    """An expanded tensor with one of its equal elements."""
    sizes = [1 if st == 0 else s for s, st in zip(tensor.shape, tensor.stride())]
    return T.as_strided(tensor, sizes, tensor.stride()) if tensor.numel() else tensor


def warn_expanded(op: str, value: str = "scalar") -> None:
    index = "indices" if op == "index_put_" else "mask"
    warnings.warn(
        f"Use of {op} on expanded tensors is deprecated. Please clone() the tensor before performing this operation. "
        f"This also applies to advanced indexing e.g. tensor[{index}] = {value}",
        stacklevel=3,
    )


def no_internal_overlap(written: torch.Tensor) -> None:
    if expanded(written):
        raise RuntimeError(_INTERNAL)


def no_partial_overlap(written: torch.Tensor, *read: torch.Tensor) -> None:
    """What is read may be what is written, but no part of it."""
    if any([T.overlap(written, x) == "partial" for x in read]):
        raise RuntimeError(_WITH_INPUT)


def no_overlap(written: torch.Tensor, *read) -> None:
    """What is not a tensor is passed over."""
    if any([isinstance(x, torch.Tensor) and T.overlap(written, x) for x in read]):
        raise RuntimeError(_WITH_INPUT)
