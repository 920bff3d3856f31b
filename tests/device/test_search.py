"""Searching against the CPU: bisection, unique values, modes, histograms, membership."""

import pytest
import torch

from tests.device._compare import close, same

DTYPES = [torch.float32, torch.int64, torch.uint8, torch.bfloat16, torch.int32]


def sample(shape, dtype, seed=7):
    return (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 20).abs().to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(dtype, right):
    row, rows, values = sample(50, dtype).sort()[0], sample((3, 50), dtype), sample((3, 7), dtype, 8)
    same(lambda a, b: torch.searchsorted(a, b, right=right), row, values)
    same(lambda a, b: torch.searchsorted(a, b[:, ::2], right=right), rows.sort(1)[0], values)
    same(lambda a, b, c: torch.searchsorted(a, b, right=right, sorter=c), rows, values, rows.argsort(1))
    same(lambda a, b: torch.bucketize(b, a, right=right, out_int32=True), row, values)
    same(lambda a: torch.searchsorted(a, 3, right=right), row)
    same(lambda a: torch.bucketize(3, a, right=right), row)


def test_searchsorted_warns_of_copies():
    rows, values = torch.arange(12.0).view(2, 6), torch.ones(2, 6)
    for device in ("cpu", "webgpu"):
        a, b = rows.to(device), values.to(device)
        torch.set_warn_always(True)
        try:
            with pytest.warns(UserWarning, match="input value tensor is non-contiguous"):
                torch.searchsorted(a, b[:, ::2])
            with pytest.warns(UserWarning, match="boundary tensor is non-contiguous"):
                torch.searchsorted(a[:, ::2], b)
        finally:
            torch.set_warn_always(False)


def test_searchsorted_edges():
    nan = float("nan")
    same(lambda a, b: torch.searchsorted(a, b), torch.tensor([1.0, 2.0, nan]), torch.tensor([nan, 1.5, 9.0]))
    same(lambda a, b: torch.searchsorted(a, b), torch.empty(0), torch.ones(3))
    with pytest.raises(RuntimeError, match="first N-1 dimensions of boundaries"):
        torch.searchsorted(torch.ones(2, 3, device="webgpu"), torch.ones(3, 3, device="webgpu"))
    with pytest.raises(RuntimeError, match="can't be set to opposites"):
        torch.searchsorted(torch.ones(2, device="webgpu"), torch.ones(3, device="webgpu"), side="left", right=True)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool])
def test_unique(dtype, adapter_class):
    for n in (1, 5, 3000):
        x = sample((n, 1), dtype)
        same(lambda t: torch.unique(t, return_inverse=True, return_counts=True), x)
        same(lambda t: torch.unique_consecutive(t, return_inverse=True, return_counts=True), x)
    rows = (torch.rand(30, 2, 2, generator=torch.Generator().manual_seed(9)) * 2).round().to(dtype)
    for dim in (0, 1):
        same(lambda t: torch.unique(t, dim=dim, return_inverse=True, return_counts=True), rows)  # noqa: B023
        same(lambda t: torch.unique_consecutive(t, dim=dim, return_inverse=True, return_counts=True), rows)  # noqa: B023


def test_unique_keeps_nans_apart():
    x = torch.tensor([1.0, float("nan"), 2.0, float("nan"), 1.0, -0.0, 0.0])
    same(lambda t: torch.unique(t, return_counts=True), x)
    same(lambda t: torch.unique(t), torch.empty(0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_mode(dtype, adapter_class):
    x = (sample((4, 9, 3), torch.float32) / 8).to(dtype).round()
    for dim in (0, 1, -1):
        same(lambda t: torch.mode(t, dim), x)  # noqa: B023
    same(lambda t: torch.mode(t, 1, True)[0], sample((2, 3000), torch.int32))


@pytest.mark.parametrize("bins", [1, 100, 2048, 2049])
def test_a_gpu_counts_few_bins_in_workgroups(bins, adapter_of):
    adapter_of(kind="gpu")
    # In the middle of a bin: a value at its border may be counted beside it where a division is not exact.
    x = (torch.randint(-9, bins + 9, (40_001,)) + 0.5) * (6 / bins) - 3
    x[::7] = float("nan")
    same(lambda t: torch.histc(t, bins, -3, 3), x)


def test_histc():
    x = torch.randn(10000, generator=torch.Generator().manual_seed(10))
    same(lambda t: torch.histc(t, 20), x)
    same(lambda t: torch.histc(t, 7, -1, 1), x)
    same(lambda t: torch.histc(t, 3), torch.ones(5))
    same(lambda t: torch.histc(t, 4, 0, 1), torch.tensor([float("nan"), 0.0, 1.0, 2.0]))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_histc_of_integers(dtype):
    """Which the CPU refuses and CUDA counts: one bin for each expert, values outside dropped."""
    x = torch.tensor([0, 1, 1, 3, 9, 4, 3, 3, 6], dtype=dtype)
    counts = torch.histc(x.to("webgpu"), bins=5, min=0, max=4)
    assert counts.dtype is dtype and counts.cpu().tolist() == [1, 2, 0, 3, 1]
    assert torch.histc(x.to("webgpu"), bins=3).cpu().tolist() == [3, 4, 2]
    assert torch.histc(x[:0].to("webgpu"), bins=2).cpu().tolist() == [0, 0]


def test_membership_and_quantiles():
    x = torch.randint(0, 900, (5, 60), generator=torch.Generator().manual_seed(11))
    same(lambda a, b: torch.isin(a, b), x, x[0, ::2])
    same(lambda a, b: torch.isin(a, b, invert=True), x, x[:2])
    same(lambda a: torch.isin(a, 3), x % 5)
    y, q = torch.randn(100, 9), torch.tensor([0.1, 0.5])
    close(torch.quantile(y.to("webgpu"), q.to("webgpu"), dim=0), torch.quantile(y, q, dim=0))
    close(torch.nanquantile(y.to("webgpu"), 0.3, dim=1), torch.nanquantile(y, 0.3, dim=1))


def test_histograms():
    x = torch.randn(500, generator=torch.Generator().manual_seed(15))
    w = torch.rand(500, generator=torch.Generator().manual_seed(16))
    for arguments in ({}, {"range": (-1.0, 1.0)}, {"density": True}):
        close(torch.histogram(x.to("webgpu"), 20, **arguments), torch.histogram(x, 20, **arguments), 1e-5)
    edges = torch.tensor([-2.0, -0.5, 0.0, 3.0])
    ours = torch.histogram(x.to("webgpu"), edges.to("webgpu"), weight=w.to("webgpu"))
    close(ours, torch.histogram(x, edges, weight=w), 1e-5)
    points = x.reshape(250, 2)
    ours, theirs = torch.histogramdd(points.to("webgpu"), [4, 5]), torch.histogramdd(points, [4, 5])
    close(ours.hist, theirs.hist, 1e-5)
    close(list(ours.bin_edges), list(theirs.bin_edges), 1e-5)
