"""torchvision's deform_conv2d with the gradients of all its arguments: columns by a kernel, the rest is a product."""

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.vision import deform
from ...plan import caps
from ..by_index import run
from ..oversize import apply
from ..table import custom


class _Windows:
    """What kernels have in common for one call: sizes, offsets and mask."""

    def __init__(self, input, weight, offset, mask, window: tuple, groups: int, use_mask: bool):
        if input.dtype not in T.DTYPES or not input.is_floating_point():
            raise Unsupported(f"webgpu: deform_conv2d has no kernel for {input.dtype}")
        self.dtype = T.dtype_of(input)
        self.batch, self.channels, self.height, self.width = input.shape
        self.groups, self.taps = groups, weight.shape[2] * weight.shape[3]
        self.places = offset.shape[2] * offset.shape[3]
        self.guides = (offset.contiguous(), mask.contiguous()) if use_mask else (offset.contiguous(),)
        self.numbers = (
            self.channels, groups, self.height, self.width, *weight.shape[2:], offset.shape[3], self.places, *window,
        )  # fmt: skip
        if caps().kind == "cpu" and 4 * self.channels // groups > deform.TRIPS:
            raise Unsupported("webgpu: so many channels are beyond the driver's loop limit")

    def run(self, kind: str, reads: tuple, writes: tuple) -> None:
        kernel = deform.kernel(kind, self.dtype, len(self.guides) == 2, caps())
        run(kernel, (*reads, *self.guides), writes, *self.numbers)

    def columns(self, x: torch.Tensor) -> torch.Tensor:
        out = T.empty((self.batch, self.channels * self.taps, self.places), x.dtype)
        self.run("columns", (x,), (out,))
        return out

    def to_input(self, columns: torch.Tensor) -> torch.Tensor:
        """Points lie anywhere, so gradients are scattered by the elements that they read."""
        wide = torch.promote_types(columns.dtype, torch.float32)
        sets, each, count = self.batch * self.groups, self.channels // self.groups, self.taps * self.places
        where, share = T.empty((sets, 4 * count), torch.int64), T.empty((sets, 4 * count), wide)
        self.run("taps", (), (where, share))
        sent = columns.reshape(sets, each, 1, count).to(wide) * share.reshape(sets, 1, 4, count)
        out = torch.zeros((sets, each, self.height * self.width), dtype=wide, device=columns.device)
        index = where.reshape(sets, 1, 4 * count).expand(sets, each, 4 * count)
        out.scatter_add_(2, index, sent.reshape(sets, each, 4 * count))
        return out.reshape(self.batch, self.channels, self.height, self.width).to(columns.dtype)


def _in_pieces(overload, *args):
    """One image, its offsets and its mask after the other."""
    return apply(overload, args, {}, {0: 0, 2: 0, 3: 0}, 0)


@custom("torchvision::deform_conv2d", oversize=_in_pieces, autocast="float32_and_back")
def deform_conv2d(
    input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups,
    use_mask,
):  # fmt: skip
    window = (stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w)
    _check(input, weight, offset, mask, window, groups, offset_groups, use_mask)
    shape = (input.shape[0], weight.shape[0], *offset.shape[2:])
    if not input.shape[0]:
        return T.empty(shape, input.dtype)
    windows = _Windows(input, weight, offset, mask, window, offset_groups, use_mask)
    columns = windows.columns(input.contiguous()).reshape(input.shape[0], groups, -1, windows.places)
    out = torch.matmul(weight.reshape(groups, weight.shape[0] // groups, -1), columns)
    return out.reshape(shape) + bias.reshape(1, -1, 1, 1)


@custom("torchvision::_deform_conv2d_backward")
def deform_conv2d_backward(
    grad, input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups,
    offset_groups, use_mask,
):  # fmt: skip
    window = (stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w)
    grad_bias = grad.sum((0, 2, 3))
    if not grad.numel():
        return (*[torch.zeros_like(x) for x in (input, weight, offset, mask)], grad_bias)
    windows = _Windows(input, weight, offset, mask, window, offset_groups, use_mask)
    x, batch = input.contiguous(), input.shape[0]
    rows = grad.reshape(batch, groups, weight.shape[0] // groups, windows.places)
    columns = windows.columns(x).reshape(batch, groups, -1, windows.places)
    grad_weight = torch.matmul(rows, columns.transpose(-1, -2)).sum(0).reshape(weight.shape)
    across = torch.matmul(weight.reshape(groups, weight.shape[0] // groups, -1).transpose(-1, -2), rows).contiguous()
    grad_offset = T.empty(offset.shape, offset.dtype)
    windows.run("offset", (x, across), (grad_offset,))
    grad_mask = torch.zeros_like(mask)
    if use_mask:
        grad_mask = T.empty(mask.shape, mask.dtype)
        windows.run("mask", (x, across), (grad_mask,))
    return windows.to_input(across), grad_weight, grad_offset, grad_mask, grad_bias


def _check(input, weight, offset, mask, window, groups: int, offset_groups: int, use_mask: bool) -> None:
    """What torchvision asks of its arguments, in its words where it has some."""
    tensors = {"input": input, "weight": weight, "offset": offset, **({"mask": mask} if use_mask else {})}
    for name, tensor in tensors.items():
        if tensor.dim() != 4:
            raise RuntimeError(f"{name} should have 4 dimensions, got {tensor.dim()}")
        if tensor.dtype != input.dtype:
            raise RuntimeError(f"expected scalar type {input.dtype} but found {tensor.dtype} for {name}")
    high, wide = weight.shape[2:]
    pairs = {"weight": (high, wide), "stride": window[:2], "pad": window[2:4], "dilation": window[4:]}
    for name, (y, x) in pairs.items():
        if min(y, x) < (0 if name == "pad" else 1):
            raise RuntimeError(f"{name}_h: {y} {name}_w: {x}")
    if weight.shape[1] * groups != input.shape[1] or weight.shape[0] % groups or input.shape[1] % offset_groups:
        raise RuntimeError(
            f"{input.shape[1]} input channels do not go with a weight of shape {tuple(weight.shape)}, {groups} groups "
            f"and {offset_groups} groups of offsets"
        )
    _check_guides(input, offset, mask, window, (high, wide), offset_groups, use_mask)


def _check_guides(input, offset, mask, window, taps: tuple, groups: int, use_mask: bool) -> None:
    sizes = tuple(
        (size + 2 * pad - (gap * (tap - 1) + 1)) // step + 1
        for size, step, pad, gap, tap in zip(input.shape[2:], window[:2], window[2:4], window[4:], taps)
    )
    for name, guide, each in (("offset", offset, 2), ("mask", mask, 1))[: 2 if use_mask else 1]:
        expected = each * groups * taps[0] * taps[1]
        if guide.shape[1] != expected:
            raise RuntimeError(f"{name}.shape[1] is not valid: got: {guide.shape[1]} expected: {expected}")
        if guide.shape[0] != input.shape[0]:
            raise RuntimeError(f"invalid batch size of {name}")
        if tuple(guide.shape[2:]) != sizes:
            raise RuntimeError(
                f"{name} output dims: ({guide.shape[2]}, {guide.shape[3]}) - computed output dims: "
                f"({sizes[0]}, {sizes[1]})"
            )
    if min(sizes) < 1:
        raise RuntimeError(f"Calculated output size too small - out_h: {sizes[0]} out_w: {sizes[1]}")
