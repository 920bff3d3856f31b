"""torch.histogram and histogramdd: bins found by bisection of the edges, so that edges and counts always agree."""

import torch

from ...dtypes import Unsupported
from ..table import custom

_FLOATS = (torch.float32, torch.float64)


def _edges(column: torch.Tensor, bins: int, low: float | None, high: float | None) -> torch.Tensor:
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if low is None:
        low, high = (column.min().item(), column.max().item()) if column.numel() else (0.0, 1.0)
    if not (abs(low) < float("inf") and abs(high) < float("inf")):
        raise RuntimeError(f"torch.histogramdd: dimension 0's range [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low} max {high} for dimension 0"
        )
    if low == high:
        low, high = low - 0.5, high + 0.5
    return torch.linspace(low, high, bins + 1, dtype=column.dtype, device=column.device)


def _count(points: torch.Tensor, edges: list[torch.Tensor], weight, density: bool) -> torch.Tensor:
    """The histogram of (points, dimensions)."""
    if points.dtype not in _FLOATS:
        raise Unsupported(f"webgpu: histogram has no kernel for {points.dtype}")
    count = points.shape[0]
    flat = torch.zeros((count,), dtype=torch.int64, device=points.device)
    inside = torch.ones((count,), dtype=torch.bool, device=points.device)
    shape = [e.numel() - 1 for e in edges]
    for d, e in enumerate(edges):
        x = points[:, d].contiguous()
        inside = inside & (x >= e[0]) & (x <= e[-1])
        place = (torch.searchsorted(e.contiguous(), x, right=True) - 1).clamp(0, shape[d] - 1)  # the last edge belongs
        flat = flat * shape[d] + place
    shares = torch.ones_like(points[:, 0]) if weight is None else weight.reshape(-1).to(points.dtype)
    shares = torch.where(inside, shares, torch.zeros_like(shares))
    total = 1
    for s in shape:
        total *= s
    result = torch.zeros((total,), dtype=points.dtype, device=points.device)
    if count:
        result.scatter_add_(0, flat, shares)
    result = result.reshape(shape)
    if density:
        result = result / result.sum()
        for d, e in enumerate(edges):
            widths = e[1:] - e[:-1]
            result = result / widths.reshape([-1 if k == d else 1 for k in range(len(shape))])
    return result


def _check_edges(x: torch.Tensor, edges) -> None:
    for d, e in enumerate(edges):
        if e.dtype is not x.dtype:
            raise RuntimeError(
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype "
                f"{x.dtype} and bins for dimension {d} with dtype {e.dtype}"
            )
        if e.dim() != 1:
            raise RuntimeError(
                f"torch.histogramdd: bins tensor should have one dimension, but got {e.dim()} dimensions in the bins "
                f"tensor for dimension {d}"
            )
        if not e.numel():
            raise RuntimeError(
                "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor "
                f"for dimension {d}"
            )
        if e.numel() == 1:
            raise RuntimeError(f"torch.histogram(): bins must be > 0, but got 0 for dimension {d}")


def _check_points(x: torch.Tensor, weight) -> None:
    """Of several dimensions: rows of coordinates, and a weight for each."""
    if x.dim() < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    _check_weight(x, weight)
    if weight is not None and weight.shape != x.shape[:-1]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
            f"excluding its innermost dimension, but got input with shape {list(x.shape)} and weight with shape "
            f"{list(weight.shape)}"
        )


def _check_weight(x: torch.Tensor, weight) -> None:
    if weight is not None and weight.dtype is not x.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same "
            f"dtype, but got input({x.dtype}), and weight({weight.dtype})"
        )


@custom("histogram.bin_ct")
def histogram(self, bins=100, *, range=None, weight=None, density=False):
    x = self.reshape(-1)
    _check_points(x.unsqueeze(1), weight if weight is None else weight.reshape(-1))
    if x.dtype not in _FLOATS:
        raise Unsupported(f"webgpu: histogram has no kernel for {x.dtype}")
    low, high = range if range is not None else (None, None)
    edges = _edges(x, bins, low, high)
    return _count(x.unsqueeze(1), [edges], weight, density), edges


@custom("histogram.bins_tensor")
def histogram_edges(self, bins, *, weight=None, density=False):
    points = self.reshape(-1, 1)
    _check_edges(self, [bins])
    _check_points(points, weight if weight is None else weight.reshape(-1))
    return _count(points, [bins], weight, density), bins.clone()


def _dimensions(x: torch.Tensor, bins, range) -> list[torch.Tensor]:
    if x.dtype not in _FLOATS:
        raise Unsupported(f"webgpu: histogramdd has no kernel for {x.dtype}")
    points = x.reshape(-1, x.shape[-1])
    if len(bins) != x.shape[-1]:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    if range is not None and len(range) != 2 * len(bins):
        raise RuntimeError(
            f"torch.histogramdd: for a {len(bins)}-dimensional histogram range should have {2 * len(bins)} elements, "
            f"but got {len(range)}"
        )
    bounds = [(None, None)] * len(bins) if range is None else list(zip(range[::2], range[1::2]))
    return [_edges(points[:, d].contiguous(), b, *bounds[d]) for d, b in enumerate(bins)]


@custom("_histogramdd_bin_edges")
def histogramdd_bin_edges(self, bins, *, range=None, weight=None, density=False):
    return _dimensions(self, bins, range)


@custom("_histogramdd_from_bin_cts")
def histogramdd_from_bin_cts(self, bins, *, range=None, weight=None, density=False):
    _check_points(self, weight)
    edges = _dimensions(self, bins, range)
    return _count(self.reshape(-1, self.shape[-1]), edges, weight, density)


@custom("_histogramdd_from_bin_tensors")
def histogramdd_from_bin_tensors(self, bins, *, weight=None, density=False):
    _check_points(self, weight)
    if len(bins) != self.shape[-1]:
        raise RuntimeError(
            f"torch.histogramdd: expected {self.shape[-1]} sequences of bin edges for a {self.shape[-1]}-dimensional "
            f"histogram but got {len(bins)}"
        )
    _check_edges(self, bins)
    return _count(self.reshape(-1, self.shape[-1]), list(bins), weight, density)
