"""Convolutions of one to three dimensions and their gradients, as matrix products that read the image in place."""

from itertools import product

import torch

from .. import tensor as T
from ..dtypes import Unsupported
from ..kernels.layout import numel
from ..kernels.matmul import Gather, Matrix, Product
from .copy import fill
from .matmul import _plans as plans
from .matmul import key_of, matrix, one_of, output, planned, remember, run, supported
from .remember import remembered
from .table import custom


class Geometry:
    """A convolution as if it were three-dimensional: x windows over, y positions; `groups` blocks of channels."""

    def __init__(self, x_shape, y_shape, weight_shape, stride, padding, dilation, groups):
        def three(values, default):
            return (default,) * (3 - len(values)) + tuple(values)

        self.batch = x_shape[0]
        self.x_channels, self.y_channels = x_shape[1] // groups, y_shape[1] // groups  # per group
        self.x_sizes, self.y_sizes = three(x_shape[2:], 1), three(y_shape[2:], 1)
        self.window = three(weight_shape[2:], 1)
        self.stride, self.padding, self.dilation = three(stride, 1), three(padding, 0), three(dilation, 1)
        self.groups = groups
        self.taps = self.window[0] * self.window[1] * self.window[2]
        self.x_count = self.x_sizes[0] * self.x_sizes[1] * self.x_sizes[2]
        self.y_count = self.y_sizes[0] * self.y_sizes[1] * self.y_sizes[2]

    @property
    def pointwise(self) -> bool:
        """One tap that meets each position: the image is the matrix."""
        return self.taps == 1 and self.x_sizes == self.y_sizes and self.padding == (0, 0, 0)

    def gather(self, kind: str, image: torch.Tensor, positions) -> Gather:
        sizes = self.y_sizes if kind in "tu" else self.x_sizes
        strides = image.stride()
        spatial = (0,) * (5 - len(strides)) + tuple(strides[2:])
        return Gather(
            kind, sizes, (strides[1], *spatial), positions, self.window, self.stride, self.padding, self.dilation
        )


def _bias_key(bias) -> tuple:
    return () if bias is None else key_of(bias)


def forward(x, weight, bias, y_shape, stride, padding, dilation, groups):
    """y = x * weight; weight is [y channels, x channels / groups, window]."""
    key = ("conv", *key_of(x), *key_of(weight), *_bias_key(bias), y_shape, stride, padding, dilation, groups)
    call = plans.get(key)
    if call is None:
        g = Geometry(x.shape, y_shape, weight.shape, stride, padding, dilation, groups)
        rows, k = g.y_channels, g.x_channels * g.taps
        a = matrix(weight, k, 1, 0, rows * k)
        out = Matrix(T.dtype_of(x), 0, g.y_count, 1, y_shape[1] * g.y_count, rows * g.y_count)
        c = None if bias is None else matrix(bias, bias.stride(0), 0, 0, rows * bias.stride(0))
        sn, sc = x.stride(0), x.stride(1)
        gather = None
        b = matrix(x, 0, 0, sn, g.x_channels * sc)
        if g.pointwise and x.is_contiguous():
            b = b._replace(row=1, col=sc)
        else:
            gather = g.gather("g", x, g.y_sizes)
        found = Product(rows, g.y_count, k, a, b, out, c, g.batch, groups, gather=gather)
        call = remember(key, planned(y_shape, found, x.dtype))
    return run(call, weight, x, bias)


def backward_image(dy, weight, bias, x_shape, stride, padding, dilation, groups):
    """dx of `forward`, which is also the transposed convolution of dy."""
    if max(stride) > 1 and max(dilation) == 1 and 0 not in x_shape and 0 not in dy.shape:
        return _by_phases(dy, weight, bias, x_shape, stride, padding, groups)
    key = ("conv_t", *key_of(dy), *key_of(weight), *_bias_key(bias), x_shape, stride, padding, dilation, groups)
    call = plans.get(key)
    g = Geometry(x_shape, dy.shape, weight.shape, stride, padding, dilation, groups)
    if g.taps > 1:
        # Rows of the left operand are x channels: its k must count (y channel, tap) with one stride.
        weight = weight.view(groups, g.y_channels, g.x_channels, g.taps).transpose(1, 2).contiguous()
    if call is None:
        rows, k = g.x_channels, g.y_channels * g.taps
        if g.taps > 1:
            a = matrix(weight, k, 1, 0, rows * k)
        else:
            a = matrix(weight, 1, g.x_channels, 0, rows * k)
        out = Matrix(T.dtype_of(dy), 0, g.x_count, 1, x_shape[1] * g.x_count, rows * g.x_count)
        c = None if bias is None else matrix(bias, bias.stride(0), 0, 0, rows * bias.stride(0))
        b = matrix(dy, 0, 0, dy.stride(0), g.y_channels * dy.stride(1))
        gather = None
        if g.pointwise and dy.is_contiguous():
            b = b._replace(row=1, col=dy.stride(1))
        else:
            gather = g.gather("u" if g.stride == (1, 1, 1) else "t", dy, g.x_sizes)
        found = Product(rows, g.x_count, k, a, b, out, c, g.batch, groups, gather=gather)
        call = remember(key, planned(x_shape, found, dy.dtype))
    return run(call, weight, dy, bias)


def _by_phases(dy, weight, bias, x_shape, stride, padding, groups):
    """A position meets only every stride-th tap: one product of unit step for each phase, without the zeros between.

    Where (i + padding) % s = r, the taps are r, r + s, ...; the phase is the transposed convolution of those.
    """
    out = T.empty(x_shape, dy.dtype)
    unit = (1,) * len(stride)
    if any(s > k for s, k in zip(stride, weight.shape[2:])):  # phases without a tap
        if bias is None:
            fill(out, 0)
        else:
            out.copy_(bias.view(-1, *unit).expand(x_shape))
    for phase in product(*(range(min(s, k)) for s, k in zip(stride, weight.shape[2:]))):
        first = [(r - p) % s for r, p, s in zip(phase, padding, stride)]
        where = (..., *(slice(i, None, s) for i, s in zip(first, stride)))
        part = out[where]
        if not part.numel():
            continue
        inset = tuple((i + p - r) // s for i, p, r, s in zip(first, padding, phase, stride))
        taps = weight[(..., *(slice(r, None, s) for r, s in zip(phase, stride)))].contiguous()
        part.copy_(backward_image(dy, taps, bias, tuple(part.shape), unit, inset, unit, groups))
    return out


def backward_weight(x, dy, weight_shape, stride, padding, dilation, groups):
    """dw of `forward`, laid out as its weight."""
    dy = dy.contiguous()
    key = ("conv_w", *key_of(x), *key_of(dy), weight_shape, stride, padding, dilation, groups)
    call = plans.get(key)
    if call is None:
        g = Geometry(x.shape, dy.shape, weight_shape, stride, padding, dilation, groups)
        rows, columns = g.y_channels, g.x_channels * g.taps
        a = matrix(dy, dy.stride(1), 1, rows * dy.stride(1), dy.stride(0))
        out = Matrix(T.dtype_of(x), 0, columns, 1, rows * columns, 0)
        b = matrix(x, 0, 0, g.x_channels * x.stride(1), x.stride(0))
        gather = None
        if g.pointwise and x.is_contiguous():
            b = b._replace(row=x.stride(1), col=1)
        else:
            gather = g.gather("w", x, g.y_sizes)
        found = Product(
            rows, columns, g.y_count, a, b, out, None, groups, g.batch, summed=True, gather=gather
        )  # fmt: skip
        call = remember(key, planned(weight_shape, found, x.dtype))
    return run(call, dy, x)


def channel_sums(dy):
    """The bias's gradient: a product with ones, summed over the images."""
    dy = dy.contiguous()
    key = ("channel_sums", *key_of(dy))
    call = plans.get(key)
    if call is None:
        batch, channels = dy.shape[:2]
        a = matrix(dy, dy.stride(1), 1, 0, dy.stride(0))
        one = Matrix(T.dtype_of(dy), 0, 0, 0)
        count = numel(dy.shape[2:])
        found = Product(channels, 1, count, a, one, output(dy.dtype, channels, 1), inner=batch, summed=True)
        call = remember(key, planned((channels,), found, dy.dtype))
    return run(call, dy, one_of(dy.dtype))


def _ready(*tensors) -> None:
    supported(*tensors)
    if len({t.dtype for t in tensors if t is not None}) > 1:
        raise RuntimeError(f"Input type ({tensors[0].dtype}) and weight type ({tensors[1].dtype}) should be the same")
    if tensors[0].dim() > 5:
        raise Unsupported("webgpu: convolution of more than three dimensions")


@custom("convolution_overrideable")
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    _ready(input, weight, bias)
    stride, padding, dilation = tuple(stride), tuple(padding), tuple(dilation)
    weight = weight.contiguous()
    sizes = zip(input.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding)
    if transposed:
        spatial = [(n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, d, o in sizes]
        shape = (input.shape[0], weight.shape[1] * groups, *spatial)
        return backward_image(input, weight, bias, shape, stride, padding, dilation, groups)
    spatial = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, _ in sizes]
    shape = (input.shape[0], weight.shape[0], *spatial)
    return forward(input, weight, bias, shape, stride, padding, dilation, groups)


@custom("convolution_backward_overrideable")
@remembered
def convolution_backward(
    grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups, output_mask
):
    _ready(grad_output, input, weight)
    stride, padding, dilation = tuple(stride), tuple(padding), tuple(dilation)
    weight = weight.contiguous()
    wanted = tuple(weight.shape)
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        if transposed:
            grad_input = forward(grad_output, weight, None, tuple(input.shape), stride, padding, dilation, groups)
        else:
            grad_input = backward_image(
                grad_output, weight, None, tuple(input.shape), stride, padding, dilation, groups
            )
    if output_mask[1]:
        x, dy = (grad_output, input) if transposed else (input, grad_output)
        grad_weight = backward_weight(x, dy, wanted, stride, padding, dilation, groups)
    if output_mask[2]:
        grad_bias = channel_sums(grad_output)
    return grad_input, grad_weight, grad_bias
