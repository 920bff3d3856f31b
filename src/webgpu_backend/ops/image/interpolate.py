"""Interpolation (nearest, linear, cubic, Lanczos', antialiased) with gradients."""

from functools import lru_cache

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.image import interpolate
from ...kernels.layout import contiguous_strides
from ...plan import caps, constant
from ..by_index import run
from ..oversize import by_batch
from ..pointwise.elementwise import _scalar_name
from ..shape.copy import image_format, laid
from ..table import autocast, custom
from .pool import _channels, _spatial, _strides

aten = torch.ops.aten
_NEAREST = ("nearest", "exact")
_WEIGHTS = {"nearest": "nearest", "exact": "nearest", "linear": "linear", "cubic": "cubic", "lanczos": "lanczos"}


def _scale(size: int, outs: int, corners: bool, given: float | None) -> float:
    """Input elements per output element, as torch reckons it."""
    if corners:
        return (size - 1) / (outs - 1) if outs > 1 else 0.0
    return 1.0 / given if given is not None and given > 0 else size / max(outs, 1)


def _numbers(x, sizes_in, sizes_out, dims, corners, scales, copies: bool) -> tuple:
    """`copies`: along a dimension of as many outputs as inputs these are copied, whatever its scale, as on the CPU."""
    inner, outs = _spatial(sizes_in, dims), _spatial(sizes_out, dims)
    scales = [None] * (3 - dims) + list(scales)
    if copies:
        scales = [None if s == o else g for s, o, g in zip(inner, outs, scales)]
    factors = [_scale(s, o, corners, g) for s, o, g in zip(inner, outs, scales)]
    return (_channels(sizes_in, dims), *inner, *outs, *factors, *_strides(x, dims))


def _last_strides(sizes) -> tuple[int, ...]:
    """Dense strides with channels innermost."""
    order = (0, *range(2, len(sizes)), 1)
    dense = contiguous_strides([sizes[d] for d in order])
    return tuple(dense[order.index(d)] for d in range(len(sizes)))


def _check(x: torch.Tensor, dims: int, output_size) -> None:
    if len(output_size) != dims:
        raise RuntimeError(f"It is expected output_size equals to {dims}, but got size {len(output_size)}")
    if x.dim() != dims + 2 or 0 in x.shape[1:]:
        raise RuntimeError(f"Non-empty {dims + 2}D data tensor expected but got a tensor with sizes {list(x.shape)}")
    if any(s <= 0 for s in output_size):
        names = "DHW"[3 - dims :]
        given = ", ".join(f"{n}: {s}" for n, s in zip(names, x.shape[2:]))
        wanted = ", ".join(f"{n}: {s}" for n, s in zip(names, output_size))
        between = " and " if dims == 1 else " "
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({given}){between}output ({wanted})"
        )


def _check_dtype(mode: str, x: torch.Tensor) -> None:
    """Floats; bytes where nothing is weighed. Two-dimensional images of bytes have a kernel of their own."""
    if not x.is_floating_point() and not (mode in _NEAREST and x.dtype is torch.uint8):
        name = f"compute_indices_weights_{_WEIGHTS[mode]}"
        raise NotImplementedError(f"\"{name}\" not implemented for '{_scalar_name(x.dtype)}'")


@lru_cache(maxsize=256)
def _repeats(mode: str, size: int, outs: int, scale: float) -> bool:
    """Whether each input has outputs of its own, as many as any other, by the kernels' own arithmetic."""
    if outs % size:
        return False
    places = torch.arange(outs, device="cpu")
    found = (places + (0.5 if mode == "exact" else 0.0)).float() * torch.tensor(
        scale, dtype=torch.float32, device="cpu"
    )
    return torch.equal(found.floor().long(), places // (outs // size))


def _copies(mode: str, dims: int, antialias: bool) -> bool:
    """As the CPU's forward kernels do. Gradients are those of the same places; the CPU has others of nearest in one and
    three dimensions, of antialiased and of bicubic images, which do not fit its results."""
    return antialias or mode == "linear" or (mode == "nearest" and dims == 2)


def _planes(x: torch.Tensor) -> bool:
    """Whether the next image's first channel follows the last channel of the one before."""
    return x.stride(0) == x.shape[1] * x.stride(1)


def _forward(mode, dims, x, output_size, corners, scales, antialias=False):
    _check(x, dims, output_size)
    _check_dtype(mode, x)
    if x.dtype not in T.DTYPES:
        raise Unsupported(f"webgpu: interpolation has no kernel for {x.dtype}")
    last = image_format(x) is not torch.contiguous_format
    sizes = (*x.shape[:2], *output_size)
    out = T.empty(sizes, x.dtype, _last_strides(sizes) if last else None)
    fours = mode in _NEAREST and not last and sizes[-1] % 4 == 0
    kernel = interpolate.kernel(mode, dims, corners, antialias, False, T.dtype_of(x), last, _planes(x), fours, caps())
    run(kernel, (x,), (out,), *_numbers(x, x.shape, sizes, dims, corners, scales, _copies(mode, dims, antialias)))
    return out


@lru_cache(maxsize=64)
def _byte_tables(device: torch.device, *filter_) -> tuple:
    lows, weights, taps, bits = interpolate.byte_weights(*filter_)
    made = [constant(lambda t=t: torch.tensor(t, dtype=torch.int32, device="cpu").to(device)) for t in (lows, weights)]
    return *made, taps, bits


def _bytes(mode, x, output_size, corners, scales, antialias):
    """uint8 as on the CPU: rows first, then columns, each rounded to a byte."""
    _check(x, 2, output_size)
    y = x.contiguous()
    for dim in (3, 2):
        size, outs = y.shape[dim], output_size[dim - 2]
        if size == outs or not y.numel():
            continue
        scale = _scale(size, outs, corners, scales[dim - 2])
        low, weight, taps, bits = _byte_tables(T.here(), mode, size, outs, scale, corners, antialias)
        shape = list(y.shape)
        shape[dim] = outs
        out = T.empty(shape, torch.uint8)
        inner = y.shape[3] if dim == 2 else 1
        run(interpolate.byte_kernel(caps()), (y, low, weight), (out,), inner, size, outs, taps, bits)
        y = out
    return laid(y.clone() if T.share_memory(x, y) else y, image_format(x))


def _backward(mode, dims, grad, output_size, input_size, corners, scales, antialias=False):
    if grad.dtype not in T.DTYPES:
        raise Unsupported(f"webgpu: interpolation has no kernel for {grad.dtype}")
    expected = [*input_size[:2], *output_size]
    if list(grad.shape) != expected:
        bad = next(i for i, (a, b) in enumerate(zip(grad.shape, expected)) if a != b)
        raise RuntimeError(
            f"Expected grad_output to have the same shape as output; output.size({bad}) = {expected[bad]} but got "
            f"grad_output.size({bad}) = {grad.shape[bad]}"
        )
    sizes = tuple(input_size)
    last = image_format(grad) is not torch.contiguous_format
    result = T.empty(sizes, grad.dtype, _last_strides(sizes) if last else None)
    numbers = _numbers(grad, sizes, grad.shape, dims, corners, scales, _copies(mode, dims, antialias))
    whole = mode in _NEAREST and all(_repeats(mode, *one) for one in zip(*(numbers[k : k + 3] for k in (1, 4, 7))))
    kernel = interpolate.kernel(
        mode, dims, corners, antialias, True, T.dtype_of(grad), last, _planes(grad), whole, caps()
    )
    run(kernel, (grad,), (result,), *numbers)
    return result


def _register_nearest(name: str, mode: str, dims: int) -> None:
    def forward(self, output_size, *scales, **named):
        return _forward(mode, dims, self, output_size, False, _scales(dims, scales, named))

    def backward(grad_output, output_size, input_size, *scales, **named):
        return _backward(mode, dims, grad_output, output_size, input_size, False, _scales(dims, scales, named))

    custom(name, autocast="float32", oversize=by_batch)(forward)
    custom(f"{name}_backward")(backward)


def _register_smooth(name: str, mode: str, dims: int, antialias: bool = False) -> None:
    def forward(self, output_size, align_corners, *scales, **named):
        scales = _scales(dims, scales, named)
        if dims == 1 and self.dim() == 3 and output_size[0] == self.shape[2]:  # torch copies, whatever the scale
            return self.clone()
        if self.dtype is torch.uint8 and dims == 2:
            return _bytes(mode, self, output_size, align_corners, scales, antialias)
        return _forward(mode, dims, self, output_size, align_corners, scales, antialias)

    def backward(grad_output, output_size, input_size, align_corners, *scales, **named):
        if dims == 1 and len(input_size) == 3 and tuple(grad_output.shape) == tuple(input_size):
            return grad_output.clone()
        scales = _scales(dims, scales, named)
        return _backward(mode, dims, grad_output, output_size, input_size, align_corners, scales, antialias)

    custom(name, autocast="float32", oversize=by_batch)(forward)
    custom(f"{name}_backward")(backward)


_SCALE_NAMES = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}


def _scales(dims: int, given: tuple, named: dict) -> tuple:
    """A scale or None per dimension; torch leaves out trailing ones that are None."""
    names = _SCALE_NAMES[dims]
    return tuple(given[i] if i < len(given) else named.get(names[i]) for i in range(dims))


for _dims in (1, 2, 3):
    _register_nearest(f"upsample_nearest{_dims}d", "nearest", _dims)
    _register_nearest(f"_upsample_nearest_exact{_dims}d", "exact", _dims)
_register_smooth("upsample_linear1d", "linear", 1)
_register_smooth("upsample_bilinear2d", "linear", 2)
_register_smooth("upsample_trilinear3d", "linear", 3)
_register_smooth("upsample_bicubic2d", "cubic", 2)
_register_smooth("_upsample_bilinear2d_aa", "linear", 2, True)
_register_smooth("_upsample_bicubic2d_aa", "cubic", 2, True)
if hasattr(aten, "_upsample_lanczos2d_aa"):  # since torch 2.13
    _register_smooth("_upsample_lanczos2d_aa", "lanczos", 2, True)


autocast("float32", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
