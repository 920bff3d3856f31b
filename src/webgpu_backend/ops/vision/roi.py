"""torchvision's roi_align, ps_roi_align and roi_pool, with their gradients."""

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.layout import numel
from ...kernels.vision import roi
from ...plan import caps, launch
from ...plan.faults import site
from ..by_index import run
from ..table import custom


def _check(x: torch.Tensor, rois: torch.Tensor, name: str = "input") -> None:
    if rois.dim() != 2 or rois.shape[1] != 5:
        raise RuntimeError("rois must have shape as Tensor[K, 5]")
    if x.dtype != rois.dtype:
        raise RuntimeError(f"{name} should have the same type as rois")
    if x.dim() != 4:
        raise RuntimeError(f"{name} should have 4 dimensions, got {x.dim()}")
    if x.dtype not in T.DTYPES or not x.is_floating_point():
        raise Unsupported(f"webgpu: regions have no kernel for {x.dtype}")


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _averaged(op: str, x, rois, scale, bins, ratio, aligned: bool, mapped: bool):
    _check(x, rois)
    images, channels, height, width = x.shape
    shape = (rois.shape[0], channels // numel(bins) if mapped else channels, *bins)
    if not numel(shape):
        return T.empty(shape, x.dtype)
    if not x.numel():
        return torch.zeros(shape, dtype=x.dtype, device=x.device)
    dtype, rois, ratio = T.dtype_of(x), rois.contiguous(), max(ratio, 0)
    parts = roi.rows_of_forward(dtype, height, width, ratio, caps())
    total, made = None, x.dtype if len(parts) == 1 else _wide(x.dtype)
    for begin, end in parts:
        out = T.empty(shape, made)
        kernel = roi.forward(dtype, T.dtype_of(out), not ratio, aligned, mapped, caps())
        run(kernel, (x, rois), (out,), shape[1], height, width, *bins, images, *x.stride(), ratio, scale,
            roi.margin(dtype, max(height, width)), begin, end, site(f"torchvision::{op}", 0, False))  # fmt: skip
        total = out if total is None else total + out
    return total.to(x.dtype)


def _spread(grad, rois, scale, bins, ratio, shape, aligned: bool, mapped: bool):
    """The gradient of an image of that shape."""
    _check(grad, rois, "grad")
    images, channels, height, width = shape
    if not numel(shape) or not grad.numel():
        return torch.zeros(shape, dtype=grad.dtype, device=grad.device)
    dtype, rois, ratio = T.dtype_of(grad), rois.contiguous(), max(ratio, 0)
    kernel = roi.backward(dtype, not ratio, aligned, mapped, caps())
    threads = images * height * width * (channels if mapped else -(-channels // roi.CHUNK))
    window = roi.rois_of_backward(dtype, len(rois), (height, width, *bins), ratio, caps())
    total = None
    for begin in range(0, len(rois), window):
        out = T.empty((images, height, width, channels), _wide(grad.dtype))
        values = (channels, height, width, *bins, *grad.stride(), ratio, scale,
                  roi.margin(dtype, max(height, width)), begin, min(begin + window, len(rois)))  # fmt: skip
        offsets = rois.storage_offset(), grad.storage_offset()
        launch(kernel.step(caps(), threads, *values, *offsets), rois, grad, out)
        total = out if total is None else total + out
    return total.permute(0, 3, 1, 2).to(grad.dtype).contiguous()


@custom("torchvision::roi_align", autocast="float32_and_back")
def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    bins = (pooled_height, pooled_width)
    return _averaged("roi_align", input, rois, spatial_scale, bins, sampling_ratio, aligned, False)


@custom("torchvision::_roi_align_backward")
def roi_align_backward(
    grad, rois, spatial_scale, pooled_height, pooled_width, batch_size, channels, height, width, sampling_ratio, aligned
):
    bins, shape = (pooled_height, pooled_width), (batch_size, channels, height, width)
    return _spread(grad, rois, spatial_scale, bins, sampling_ratio, shape, aligned, False)


@custom("torchvision::ps_roi_align", autocast="float32_and_back")
def ps_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    """Each bin is of a channel of its own, and the second result says of which."""
    _check(input, rois)
    bins = (pooled_height, pooled_width)
    if input.shape[1] % numel(bins):
        raise RuntimeError("input channels must be a multiple of pooling height * pooling width")
    out = _averaged("ps_roi_align", input, rois, spatial_scale, bins, sampling_ratio, True, True)
    own = torch.arange(numel(out.shape[1:]), dtype=torch.int32, device=input.device)
    return out, own.reshape(out.shape[1:]).expand(out.shape).contiguous()


@custom("torchvision::_ps_roi_align_backward")
def ps_roi_align_backward(
    grad, rois, channel_mapping, spatial_scale, pooled_height, pooled_width, sampling_ratio, batch_size, channels,
    height, width,
):  # fmt: skip
    bins, shape = (pooled_height, pooled_width), (batch_size, channels, height, width)
    return _spread(grad, rois, spatial_scale, bins, sampling_ratio, shape, True, True)


@custom("torchvision::roi_pool", autocast="float32_and_back")
def roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    _check(input, rois)
    images, channels, height, width = input.shape
    shape = (rois.shape[0], channels, pooled_height, pooled_width)
    out, where = T.empty(shape, input.dtype), T.empty(shape, torch.int32)
    if not input.numel():
        return out.zero_(), where.fill_(-1)
    dtype = T.dtype_of(input)
    if caps().kind == "cpu" and height * width * (4 if dtype.packed else 1) > roi.TRIPS:
        raise Unsupported("webgpu: a region of this size is beyond the driver's loop limit")
    values = (channels, height, width, pooled_height, pooled_width, images, *input.stride(), spatial_scale)
    where_from = site("torchvision::roi_pool", 0, False)
    run(roi.pool(dtype, caps()), (input, rois.contiguous()), (out, where), *values, where_from)
    return out, where


@custom("torchvision::_roi_pool_backward")
def roi_pool_backward(
    grad, rois, argmax, spatial_scale, pooled_height, pooled_width, batch_size, channels, height, width
):
    _check(grad, rois, "grad")
    wide = _wide(grad.dtype)
    total = torch.zeros((batch_size * channels * height * width,), dtype=wide, device=grad.device)
    if grad.numel() and total.numel():
        plane = rois[:, :1].to(torch.int64) * channels + torch.arange(channels, device=grad.device)
        place = plane[:, :, None, None] * (height * width) + argmax.clamp(min=0)
        sent = torch.where(argmax < 0, 0, grad.to(wide))
        total.scatter_add_(0, place.reshape(-1), sent.reshape(-1))
    return total.reshape(batch_size, channels, height, width).to(grad.dtype)
