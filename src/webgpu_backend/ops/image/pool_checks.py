"""What the CPU's pools refuse, in its words. torch's functions for metadata check less, and some in other words."""

import torch

from ..pointwise.elementwise import _scalar_name

_SMALL = {torch.float32: "float", torch.float64: "double", torch.float16: "c10::Half", torch.bfloat16: "c10::BFloat16"}


def dtype(name: str, x: torch.Tensor, *more: torch.dtype) -> None:
    """Floating numbers, and `more`."""
    if not x.is_floating_point() and x.dtype not in more:
        raise NotImplementedError(f"\"{name}\" not implemented for '{_scalar_name(x.dtype)}'")


def _small(dtype: torch.dtype) -> str:
    return _SMALL.get(dtype, str(dtype))


def _same_dtype(before: str, argument: str, grad: torch.Tensor, x: torch.Tensor) -> None:
    if grad.dtype != x.dtype:
        raise RuntimeError(f"{before} dtype {_small(x.dtype)} for `{argument}` but got dtype {_small(grad.dtype)}")


def _same_scalar(grad: torch.Tensor, x: torch.Tensor) -> None:
    if grad.dtype != x.dtype:
        raise RuntimeError(f"expected scalar type {_scalar_name(x.dtype)} but found {_scalar_name(grad.dtype)}")


def _sized(tensor: torch.Tensor, rank: int, dims: int, sizes: list[int]) -> None:
    """The planes and what they hold, of a gradient or of indices."""
    for d, size in enumerate(sizes, rank - dims - 1):
        if tensor.dim() != rank or tensor.shape[d] != size:
            has = tensor.shape[d] if d < tensor.dim() else 0
            raise RuntimeError(
                f"Expected a tensor of dimension {rank} and tensor.size[{d}] == {size} but got: dimension "
                f"{tensor.dim()} and tensor.size[{d}] = {has}"
            )


def windows_back(dims: int, grad: torch.Tensor, x: torch.Tensor, pooled: list[int], indices=None) -> None:
    """The gradient of a pool whose results have these sizes; in three dimensions the CPU believes the gradient's."""
    if indices is None and dims == 3:
        _same_scalar(grad, x)
    else:
        _same_dtype("expected", "gradOutput", grad, x)
    sizes = [x.shape[-dims - 1], *pooled]
    if indices is None or dims == 2:
        _sized(grad, x.dim(), dims, sizes)
    if indices is not None:
        _sized(indices, x.dim(), dims, sizes if dims == 2 else list(grad.shape[-dims - 1 :]))


def divisor(value: int | None) -> None:
    if value == 0:
        raise RuntimeError("divisor must be not zero")


def _not_empty(name: str, grad: torch.Tensor) -> None:
    for d, size in enumerate(grad.shape[1:], 1):
        if not size:
            raise RuntimeError(
                f"{name}(): Expected grad_output to have non-zero size for non-batch dimensions, but grad_output has "
                f"sizes {list(grad.shape)} with dimension {d} being empty"
            )


def adaptive_avg_back(dims: int, grad: torch.Tensor, x: torch.Tensor) -> None:
    name = f"adaptive_avg_pool{dims}d_backward"
    where, argument = f"{name}_out_cpu_template", "grad_output" if dims == 2 else "gradOutput_"
    _not_empty(name, grad)
    if x.dim() not in (dims + 1, dims + 2):
        raise RuntimeError(f"{where}: Expected {dims + 1}D or {dims + 2}D tensor, but got {list(x.shape)}")
    if grad.dim() != x.dim():
        raise RuntimeError(f"{where}: Expected dimensions {x.dim()} for `{argument}` but got dimensions {grad.dim()}")
    if dims == 2:
        _same_dtype(f"{where}: Expected", argument, grad, x)
    else:
        _same_scalar(grad, x)
    if grad.shape[:-dims] != x.shape[:-dims]:  # which the CPU reads past the end for
        raise RuntimeError(f"{where}: Expected planes {list(x.shape[:-dims])} but got {list(grad.shape[:-dims])}")


def adaptive_max_back(dims: int, grad: torch.Tensor, x: torch.Tensor, indices: torch.Tensor) -> None:
    _not_empty(f"adaptive_max_pool{dims}d_backward", grad)
    argument = "grad_output" if dims == 2 else "gradOutput"
    _same_dtype("expected", argument, grad, x)
    if dims == 3:
        for named, tensor in ((argument, grad), ("indices", indices)):
            if tensor.dim() != x.dim():
                raise RuntimeError(f"expected dimensions {x.dim()} for `{named}` but got dimensions {tensor.dim()}")
    if grad.shape != indices.shape:
        raise RuntimeError(f"expected sizes {list(indices.shape)} for `{argument}` but got sizes {list(grad.shape)}")


def fractional(dims: int, x: torch.Tensor, kernel: tuple, output: tuple, samples: torch.Tensor) -> None:
    """Of a plane's sizes, what is drawn for it, and both together."""
    name = f"fractional_max_pool{dims}d"
    for argument, values in (("kernel_size", kernel), ("output_size", output)):
        if len(values) != dims:
            some = "three " if dims == 3 else ""
            raise RuntimeError(f"{name}: {argument} must either be a single Int or tuple of {some}Ints")
    out = name if dims == 2 else f"{name}_out"
    if x.dim() not in (dims + 1, dims + 2):
        raise RuntimeError(f"{out}(): Expected {dims + 1}D or {dims + 2}D tensor, but got: {list(x.shape)}")
    for side, k, o, size in zip(("time", "height", "width")[-dims:], kernel, output, x.shape[-dims:]):
        if k < 0:  # the CPU reads memory before the plane
            raise RuntimeError(f"{out}(): pool {side} {k} is negative")
        if o + k - 1 > size:
            raise RuntimeError(f"{out}(): pool {side} {k} too large relative to input {side} {size}")
    dtype(f"{name}_out_frame", x)
    if samples.dtype != x.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if samples.dim() != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {samples.dim()}")
    if samples.shape[0] < (x.shape[0] if x.dim() == dims + 2 else 1):
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if samples.shape[1] != x.shape[-dims - 1]:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if samples.shape[2] != dims:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {dims}; got {samples.shape[2]}.")


def fractional_back(dims: int, grad: torch.Tensor, x: torch.Tensor, output: tuple) -> None:
    name = f"fractional_max_pool{dims}d_backward"
    _same_scalar(grad, x)
    if grad.dim() != x.dim() or list(grad.shape[-dims:]) != list(output):
        if dims == 2:
            raise RuntimeError(f"{name}(): gradOutput sizes unexpected")
        sides = zip(("time", "height", "width"), grad.shape[-3:], output)
        side = next((side for side, has, wanted in sides if has != wanted), "sizes")
        raise RuntimeError(f"{name}_out(): gradOutput {side} unexpected")
