"""Convolutions of one to three dimensions and their gradients, as matrix products that read the image in place."""

from dataclasses import replace
from itertools import product

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.conv import depthwise
from ...kernels.conv.by_tables import Convolution, plan
from ...kernels.layout import numel
from ...kernels.matmul import matmul
from ...kernels.matmul.product import Gather, Matrix, Product
from ...plan import caps, launch
from ...runtime.errors import BindingTooLarge
from ..matmul.operators import one_of
from ..matmul.product import matrix, multiply, output, supported
from ..shape.copy import fill, image_format, laid
from ..table import autocast, custom
from . import few_outputs, tables, winograd
from .ending import Ending, dtype_of

aten = torch.ops.aten


def _three(values, default) -> tuple:
    """A number for each of three dimensions."""
    return (default,) * (3 - len(values)) + tuple(values)


class Geometry:
    """A convolution as if it were three-dimensional: x windows over, y positions; `groups` blocks of channels."""

    def __init__(self, x_shape, y_shape, weight_shape, stride, padding, dilation, groups, small=False):
        self.batch, self.dims = x_shape[0], len(x_shape) - 2
        self.x_channels, self.y_channels = x_shape[1] // groups, y_shape[1] // groups  # per group
        self.x_sizes, self.y_sizes = _three(x_shape[2:], 1), _three(y_shape[2:], 1)
        self.window = _three(weight_shape[2:], 1)
        self.stride, self.padding, self.dilation = _three(stride, 1), _three(padding, 0), _three(dilation, 1)
        self.groups, self.small = groups, small  # small: every tensor fits one binding
        self.taps = self.window[0] * self.window[1] * self.window[2]
        self.x_count = self.x_sizes[0] * self.x_sizes[1] * self.x_sizes[2]
        self.y_count = self.y_sizes[0] * self.y_sizes[1] * self.y_sizes[2]
        self.some = self.batch * self.x_channels * self.y_channels * self.taps * self.x_count * self.y_count > 0

    @property
    def pointwise(self) -> bool:
        """One tap that meets each position: the image is the matrix."""
        return self.taps == 1 and self.x_sizes == self.y_sizes and self.padding == (0, 0, 0)

    @property
    def inside(self) -> bool:
        """One tap, without padding: every position meets it."""
        return self.taps == 1 and self.padding == (0, 0, 0)

    def gather(self, kind: str, image: torch.Tensor, positions) -> Gather:
        sizes = self.y_sizes if kind in "tu" else self.x_sizes
        strides = image.stride()
        spatial = (0,) * (5 - len(strides)) + tuple(strides[2:])
        return Gather(
            kind, sizes, (strides[1], *spatial), positions, self.window, self.stride, self.padding, self.dilation
        )

    def gathered(self, dtype: torch.dtype, rows: int | None, places: int) -> bool:
        """Whether the table-driven kernels take a product of these rows and positions (None: of any rows)."""
        return self.some and self.small and tables.served(dtype, rows, self.window, places)

    def phased(self, dtype: torch.dtype) -> bool:
        """Whether the phases of a transposed convolution take an ending: all go by tables, and there is a tap in each,
        so that every position has its sum."""
        taps = all([step <= taps for step, taps in zip(self.stride, self.window)])
        return taps and self.gathered(dtype, self.x_channels, self.x_count)

    def single(self, dtype: torch.dtype) -> bool:
        """Groups of one input channel, which few outputs share."""
        few_outputs = self.x_channels == 1 and self.y_channels <= 8 and self.groups > 1
        return self.some and self.small and few_outputs and tables.floats(dtype)

    def turned(self, weight: torch.Tensor) -> torch.Tensor:
        """[groups, y channels, taps, x channels]: rows of the left operand (x channels) are neighbours in memory."""
        if self.taps == 1:
            return weight.contiguous()
        return weight.view(self.groups, self.y_channels, *weight.shape[1:]).movedim(2, -1).contiguous()

    def alone(self, moved: bool, image: torch.Tensor) -> depthwise.Depthwise:
        """As a depthwise convolution; `moved`: of the gradient, back to the image."""
        strides = image.stride()
        spatial = (0,) * (5 - len(strides)) + tuple(strides[2:])
        return depthwise.Depthwise(
            self.batch, self.groups * (1 if moved else self.y_channels), self.y_channels,
            self.y_sizes if moved else self.x_sizes, (*strides[:2], *spatial), image.storage_offset(),
            self.x_sizes if moved else self.y_sizes, self.window, self.stride, self.padding, self.dilation,
        )  # fmt: skip

    def tables(self, moved: bool, image: torch.Tensor, channels: int, positions, phase=None) -> tuple:
        """What the tables for an image are made of."""
        strides = image.stride()
        spatial = (0,) * (5 - len(strides)) + tuple(strides[2:])
        return (
            moved, channels, self.y_sizes if moved else self.x_sizes, (strides[1], *spatial), positions, self.window,
            self.stride, self.padding, self.dilation, phase,
        )  # fmt: skip


def _bias(bias) -> Matrix | None:
    return None if bias is None else matrix(bias, bias.stride(0), 0)


def way_of(g: Geometry, dtype: torch.dtype, moved: bool) -> str:
    """By which kernels a convolution goes; `moved`: back from y to x."""
    if not moved:
        if winograd.served(g, dtype):
            return "winograd"
        if g.gathered(dtype, g.y_channels, g.y_count):
            return "tables"
        if g.single(dtype):
            return "depthwise"
        return "few" if few_outputs.served(g, dtype, False) else "product"
    if g.single(dtype):
        return "depthwise"
    if winograd.served(g, dtype):
        return "winograd"
    if few_outputs.served(g, dtype, True):
        return "few"
    if g.some and max(g.stride) > 1 and max(g.dilation) == 1:
        return "phases"
    return "tables" if g.gathered(dtype, g.x_channels, g.x_count) else "product"


def forward(x, weight, bias, y_shape, stride, padding, dilation, groups, ending: Ending | None = None):
    """y = x * weight; weight is [y channels, x channels / groups, window]. An ending takes the place of a bias."""
    small = tables.bindable(numel(y_shape), x, weight)
    g = Geometry(x.shape, y_shape, weight.shape, stride, padding, dilation, groups, small)
    way = way_of(g, x.dtype, False)
    if way == "winograd":
        return winograd.forward(x, weight, bias, y_shape, padding, ending)
    if way == "tables":
        return _forward_by_tables(g, x, weight, bias, y_shape, ending)
    if way == "depthwise":
        return _depthwise("g", g.alone(False, x), x, weight, bias, y_shape, ending)
    if way == "few":
        return few_outputs.convolve(g, x, weight, bias, y_shape, False, ending)
    rows, k = g.y_channels, g.x_channels * g.taps
    a = matrix(weight, k, 1, 0, rows * k)
    dtype = dtype_of(ending, x)
    out = Matrix(T.DTYPES[dtype], 0, g.y_count, 1, y_shape[1] * g.y_count, rows * g.y_count)
    c = None if bias is None else matrix(bias, bias.stride(0), 0, 0, rows * bias.stride(0))
    sn, sc = x.stride(0), x.stride(1)
    gather = None
    b = matrix(x, 0, 0, sn, g.x_channels * sc)
    if g.pointwise and x.is_contiguous():
        b = b._replace(row=1, col=sc)
    else:
        gather = g.gather("g", x, g.y_sizes)
    found = Product(rows, g.y_count, k, a, b, out, c, g.batch, groups, gather=gather)
    return _multiply(y_shape, dtype, found, weight, x, bias, ending)


def _multiply(shape, dtype: torch.dtype, product: Product, a, b, bias, ending: Ending | None):
    if ending is None:
        return multiply(shape, dtype, product, a, b, bias)
    out, after = T.empty(shape, dtype), ending.after(shape, product.m)
    product = replace(product, act=after.act, d=after.d, e=after.e)
    launch(matmul.plan(product, caps()), a, b, None, *[t for t in ending.tensors if t is not None], out)
    return out


def _after(ending: Ending | None, shape):
    """How kernels that count the channels of all groups read an ending, and what they bind for it."""
    return (None, (None, None)) if ending is None else (ending.after(shape, shape[1]), ending.tensors)


def _depthwise(kind: str, q: depthwise.Depthwise, image, weight, bias, shape, ending):
    out = T.empty(shape, dtype_of(ending, image))
    after, read = _after(ending, shape)
    dtypes = T.dtype_of(image), T.dtype_of(out)
    plan = depthwise.plan(q, kind, matrix(weight, 0, 0), _bias(bias), *dtypes, caps(), after)
    launch(plan, weight, image, bias, out, *read)
    return out


def _forward_by_tables(g: Geometry, x, weight, bias, y_shape, ending):
    rows, k = g.y_channels, g.x_channels * g.taps
    channel = x.stride(1)
    after, read = _after(ending, y_shape)
    out = T.empty(y_shape, dtype_of(ending, x))
    product = Convolution(
        "image", rows, g.batch * g.y_count, k, g.y_count, g.groups, matrix(weight, k, 1, rows * k),
        matrix(x, channel, 0, g.x_channels * channel, x.stride(0)),
        Matrix(T.dtype_of(out), 0, g.y_count, 1, rows * g.y_count, y_shape[1] * g.y_count), _bias(bias),
        plain=g.pointwise and x.is_contiguous(), single=g.inside, after=after,
    )  # fmt: skip
    geometry = g.tables(False, x, g.x_channels, g.y_sizes)
    tables.convolve(plan(product, caps()), weight, x, bias, out, geometry, read)
    return out


def backward_image(dy, weight, bias, x_shape, stride, padding, dilation, groups, ending: Ending | None = None):
    """dx of `forward`, which is also the transposed convolution of dy."""
    small = tables.bindable(numel(x_shape), dy, weight)
    g = Geometry(x_shape, dy.shape, weight.shape, stride, padding, dilation, groups, small)
    way = way_of(g, dy.dtype, True)
    if way == "depthwise":
        return _depthwise("u" if g.stride == (1, 1, 1) else "t", g.alone(True, dy), dy, weight, bias, x_shape, ending)
    if way == "winograd":
        return winograd.backward_image(dy, weight, bias, x_shape, padding, ending)
    if way == "few":
        return few_outputs.convolve(g, dy, weight, bias, x_shape, True, ending)
    if way == "phases":
        if ending is not None and not g.phased(dy.dtype):  # storages are larger than what is seen of them
            raise BindingTooLarge("a transposed convolution by phases that takes nothing in")
        return _by_phases(dy, weight, bias, x_shape, stride, padding, groups, g, ending)
    if way == "tables":
        out = T.empty(x_shape, dtype_of(ending, dy))
        _image_by_tables(g, dy, g.turned(weight), bias, out, ending=ending)
        return out
    rows, k = g.x_channels, g.y_channels * g.taps
    if g.taps > 1:
        # Rows of the left operand are x channels: its k must count (y channel, tap) with one stride.
        weight = weight.view(groups, g.y_channels, g.x_channels, g.taps).transpose(1, 2).contiguous()
        a = matrix(weight, k, 1, 0, rows * k)
    else:
        a = matrix(weight, 1, g.x_channels, 0, rows * k)
    dtype = dtype_of(ending, dy)
    out = Matrix(T.DTYPES[dtype], 0, g.x_count, 1, x_shape[1] * g.x_count, rows * g.x_count)
    c = None if bias is None else matrix(bias, bias.stride(0), 0, 0, rows * bias.stride(0))
    b = matrix(dy, 0, 0, dy.stride(0), g.y_channels * dy.stride(1))
    gather = None
    if g.pointwise and dy.is_contiguous():
        b = b._replace(row=1, col=dy.stride(1))
    else:
        gather = g.gather("u" if g.stride == (1, 1, 1) else "t", dy, g.x_sizes)
    found = Product(rows, g.x_count, k, a, b, out, c, g.batch, groups, gather=gather)
    return _multiply(x_shape, dtype, found, weight, dy, bias, ending)


def _image_by_tables(g: Geometry, dy, turned, bias, out, phase=None, ending=None) -> None:
    """`phase`: which of the output's places and of the window's taps this is."""
    rows, k = g.x_channels, g.y_channels * g.taps
    plane, taps = (g.x_count, g.taps) if phase is None else (numel(phase.sizes), numel(phase.window))
    plain = g.pointwise and dy.is_contiguous()
    a = matrix(turned, 1, rows, rows * g.y_channels * taps)
    if phase is not None and plain:  # one of the taps for each y channel
        a = a._replace(offset=a.offset + rows * int(phase.tap((1, 1, 1))), col=rows * taps)
    channel = dy.stride(1)
    after, read = _after(ending, out.shape)
    product = Convolution(
        "image", rows, g.batch * g.x_count, k, g.x_count, g.groups, a,
        matrix(dy, channel, 0, g.y_channels * channel, dy.stride(0)),
        Matrix(T.dtype_of(out), 0, plane, 1, rows * plane, out.shape[1] * plane), _bias(bias), plain,
        scattered=phase is not None, after=after,
    )  # fmt: skip
    geometry = g.tables(True, dy, g.y_channels, g.x_sizes, phase)
    tables.convolve(plan(product, caps()), turned, dy, bias, out, geometry, read)


def _by_phases(dy, weight, bias, x_shape, stride, padding, groups, whole: Geometry, ending: Ending | None = None):
    """A position meets only every stride-th tap: one product of unit step for each phase, without the zeros between.

    Where (i + padding) % s = r, the taps are r, r + s, ...; the phase is the transposed convolution of those. An ending
    is for what is `phased`.
    """
    out = T.empty(x_shape, dtype_of(ending, dy))
    unit = (1,) * len(stride)
    if any(s > k for s, k in zip(stride, weight.shape[2:])):  # phases without a tap
        if bias is None:
            fill(out, 0)
        else:
            out.copy_(bias.view(-1, *unit).expand(x_shape))
    turned = None
    for phase in product(*(range(min(s, k)) for s, k in zip(stride, weight.shape[2:]))):
        first = tuple((r - p) % s for r, p, s in zip(phase, padding, stride))
        sizes = tuple(len(range(i, n, s)) for i, n, s in zip(first, x_shape[2:], stride))
        if 0 in sizes:
            continue
        inset = tuple((i + p - r) // s for i, p, r, s in zip(first, padding, phase, stride))
        window = tuple(len(range(r, k, s)) for r, k, s in zip(phase, weight.shape[2:], stride))
        part_shape = (*x_shape[:2], *sizes)
        g = Geometry(part_shape, dy.shape, (*weight.shape[:2], *window), unit, inset, unit, groups, whole.small)
        if not g.gathered(dy.dtype, g.x_channels, g.x_count):
            taps = weight[(..., *(slice(r, None, s) for r, s in zip(phase, stride)))].contiguous()
            part = out[(..., *(slice(i, None, s) for i, s in zip(first, stride)))]
            part.copy_(backward_image(dy, taps, bias, part_shape, unit, inset, unit, groups))
            continue
        if turned is None:
            turned = whole.turned(weight)
        which = tables.Phase(_three(phase, 0), _three(first, 0), whole.stride, whole.window, whole.x_sizes)
        _image_by_tables(g, dy, turned, bias, out, which, ending)
    return out


def backward_weight(x, dy, weight_shape, stride, padding, dilation, groups):
    """dw of `forward`, laid out as its weight."""
    dy = dy.contiguous()
    small = tables.bindable(numel(weight_shape), x, dy)
    g = Geometry(x.shape, dy.shape, weight_shape, stride, padding, dilation, groups, small)
    if winograd.served(g, x.dtype):
        return winograd.backward_weight(x, dy, weight_shape, padding)
    if few_outputs.served(g, x.dtype, False):
        return few_outputs.weight_gradient(g, x, dy, weight_shape)
    if g.gathered(x.dtype, None, g.y_count):
        return _weight_by_tables(g, x, dy, weight_shape)
    rows, columns = g.y_channels, g.x_channels * g.taps
    a = matrix(dy, dy.stride(1), 1, rows * dy.stride(1), dy.stride(0))
    out = Matrix(T.dtype_of(x), 0, columns, 1, rows * columns, 0)
    b = matrix(x, 0, 0, g.x_channels * x.stride(1), x.stride(0))
    gather = None
    if g.pointwise and x.is_contiguous():
        b = b._replace(row=x.stride(1), col=1)
    else:
        gather = g.gather("w", x, g.y_sizes)
    found = Product(rows, columns, g.y_count, a, b, out, None, groups, g.batch, summed=True, gather=gather)
    return multiply(weight_shape, x.dtype, found, dy, x)


def _weight_by_tables(g: Geometry, x, dy, weight_shape):
    rows, columns, channel = g.y_channels, g.x_channels * g.taps, x.stride(1)
    product = Convolution(
        "weight", rows, columns, g.batch * g.y_count, g.y_count, g.groups,
        matrix(dy, dy.stride(1), 1, rows * dy.stride(1), dy.stride(0)),
        matrix(x, channel, 0, g.x_channels * channel, x.stride(0)),
        Matrix(T.dtype_of(x), 0, columns, 1, rows * columns, 0), plain=g.pointwise and x.is_contiguous(),
        single=g.inside,
    )  # fmt: skip
    out = T.empty(weight_shape, x.dtype)
    tables.convolve(plan(product, caps()), dy, x, None, out, g.tables(False, x, g.x_channels, g.y_sizes))
    return out


def channel_sums(dy):
    """The bias's gradient: a product with ones, summed over the images."""
    dy = dy.contiguous()
    batch, channels = dy.shape[:2]
    a = matrix(dy, dy.stride(1), 1, 0, dy.stride(0))
    one = Matrix(T.dtype_of(dy), 0, 0, 0)
    count = numel(dy.shape[2:])
    found = Product(channels, 1, count, a, one, output(dy.dtype, channels, 1), inner=batch, summed=True)
    return multiply((channels,), dy.dtype, found, dy, one_of(dy.dtype))


def _ready(*tensors) -> None:
    supported(*tensors)
    if len({t.dtype for t in tensors if t is not None}) > 1:
        raise RuntimeError(f"Input type ({tensors[0].dtype}) and weight type ({tensors[1].dtype}) should be the same")
    if tensors[0].dim() > 5:
        raise Unsupported("webgpu: convolution of more than three dimensions")


def _near(image: torch.Tensor) -> torch.Tensor:
    """A big GPU reads neighbours together: an image whose columns are not neighbours is worth a copy."""
    return image if caps().kind == "cpu" or image.stride(-1) == 1 else image.contiguous()


@custom("convolution", autocast="lower")
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Torch's own composite checks the shapes and comes back below."""
    rest = (stride, padding, dilation, transposed, output_padding, groups)
    return aten._convolution.default(input, weight, bias, *rest, False, False, False, False)


@custom("convolution_overrideable")
def convolve(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    return convolved(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def convolved(
    input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, ending: Ending | None = None
):
    """An ending is for what `finished.serves`, and takes the place of a bias."""
    _ready(input, weight, bias)
    shape = output_shape(input, weight, stride, padding, dilation, transposed, output_padding, groups)
    format = image_format(input, weight)
    input, weight = _near(input), weight.contiguous()
    ending = ending and ending.placed(shape)
    how = (tuple(stride), tuple(padding), tuple(dilation), groups, ending)
    return laid((backward_image if transposed else forward)(input, weight, bias, shape, *how), format)


def each(dims: int, *how) -> list:
    """One number stands for every dimension, as where the padding was given by name."""
    return [list(x) * dims if isinstance(x, list | tuple) and len(x) == 1 else x for x in how]


def output_shape(input, weight, stride, padding, dilation, transposed, output_padding, groups) -> tuple:
    sizes = zip(input.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding)
    if transposed:
        spatial = [(n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, d, o in sizes]
        return (input.shape[0], weight.shape[1] * groups, *spatial)
    spatial = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, _ in sizes]
    return (input.shape[0], weight.shape[0], *spatial)


@custom("convolution_backward")
def convolution_backward(
    grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask
):
    if grad_output.dim() != input.dim():
        raise RuntimeError(
            "Expected input and grad_output to have the same number of dimensions, but got: "
            f"{input.dim()} and {grad_output.dim()}"
        )
    how = each(input.dim() - 2, stride, padding, dilation, transposed, output_padding, groups)
    found = gradients(grad_output, input, weight, *how, output_mask)
    if output_mask[2] and not grad_output.numel():  # of an output without channels, whatever the weight has
        return found[0], found[1], fill(T.empty(bias_sizes, input.dtype), 0)
    return found


@custom("convolution_backward_overrideable")
def gradients(grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups, output_mask):
    _ready(grad_output, input, weight)
    stride, padding, dilation = tuple(stride), tuple(padding), tuple(dilation)
    format = image_format(input, weight)
    grad_output, input, weight = _near(grad_output), _near(input), weight.contiguous()
    wanted = tuple(weight.shape)
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        shape = tuple(input.shape)
        back = forward if transposed else backward_image
        grad_input = laid(back(grad_output, weight, None, shape, stride, padding, dilation, groups), format)
    if output_mask[1]:
        x, dy = (grad_output, input) if transposed else (input, grad_output)
        grad_weight = laid(backward_weight(x, dy, wanted, stride, padding, dilation, groups), format)
    if output_mask[2]:
        grad_bias = channel_sums(grad_output)
    return grad_input, grad_weight, grad_bias


autocast(
    "lower",
    "_convolution.deprecated", "_convolution", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d",
    "conv_transpose2d.input", "conv_transpose3d.input",
)  # fmt: skip
