"""torchvision's nms: sorted by score, overlaps as bits, one walk over them; only the number of boxes is read back."""

import math
from struct import pack, unpack

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.vision import nms as kernels
from ...plan import caps, launch, planned
from ..by_index import run
from ..indexing.masks import selected
from ..table import custom

_LARGEST = torch.finfo(torch.float32).max


@custom("torchvision::nms", planned=False, autocast="float32")
def nms(dets, scores, iou_threshold):
    _check(dets, scores)
    if not dets.numel():
        return T.empty((0,), torch.int64)
    order, flags = _kept(dets, scores, float(iou_threshold))
    return selected(order, flags)


def _check(dets: torch.Tensor, scores: torch.Tensor) -> None:
    if dets.dim() != 2:
        raise RuntimeError(f"boxes should be a 2d tensor, got {dets.dim()}D")
    if dets.shape[1] != 4:
        raise RuntimeError(f"boxes should have 4 elements in dimension 1, got {dets.shape[1]}")
    if scores.dim() != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {scores.dim()}D")
    if dets.shape[0] != scores.shape[0]:
        raise RuntimeError(
            "boxes and scores should have same number of elements in dimension 0, got "
            f"{dets.shape[0]} and {scores.shape[0]}"
        )
    if dets.dtype != scores.dtype:
        raise RuntimeError("dets should have the same type as scores")
    if not dets.is_floating_point():
        raise Unsupported(f"webgpu: nms has no kernel for {dets.dtype}")


@planned
def _kept(dets: torch.Tensor, scores: torch.Tensor, threshold: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The boxes from the best on, and for each of these whether it stays."""
    order = torch.sort(scores, descending=True, stable=True)[1]
    wide = torch.promote_types(dets.dtype, torch.float32)
    boxes = dets.to(wide).index_select(0, order).contiguous()
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    n, double = len(order), wide is torch.float64
    words, window = kernels.words(n), kernels.window(n)
    overlaps = T.empty((window * words,), torch.int32)
    gone = torch.zeros((words,), dtype=torch.int32, device=dets.device)
    kept = T.empty((words,), torch.int32)
    limit = threshold if double else _below(threshold)
    for begin in range(0, 32 * words, window):
        rows = min(window, 32 * words - begin)
        part = overlaps[: rows * words]
        run(kernels.overlaps(double, caps()), (boxes, areas), (part,), n, words, begin, limit)
        launch(kernels.plan_sweep(begin // 32, rows // 32, words, caps()), part, gone, kept)
    flags = T.empty((n,), torch.bool)
    run(kernels.flags(caps()), (kept,), (flags,))
    return order, flags


def _below(x: float) -> float:
    """The largest float32 that is not larger: a float32 is above one if and only if it is above the other."""
    try:
        near = unpack("<f", pack("<f", x))[0]
    except OverflowError:
        return _LARGEST if x > 0 else -math.inf
    if not near > x:
        return near
    bits = unpack("<i", pack("<f", near))[0]
    return unpack("<f", pack("<i", bits - 1 if near > 0 else bits + 1))[0]
