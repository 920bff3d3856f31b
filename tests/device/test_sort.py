"""Sorting and selection against the CPU: stability, NaN, exact int64, every dtype, dimension and length class."""

import sys

import pytest
import torch

from tests import needs
from tests.device._compare import close
from webgpu_backend.kernels.sort import sort as kernels
from webgpu_backend.ops.sort import sort as operators
from webgpu_backend.runtime.gpu import gpu

SHAPES = [((1,), 0), ((7,), -1), ((3, 9), 0), ((40, 65), 1), ((2, 300, 5), 1), ((2, 3000), 1), ((20001,), 0)]
DTYPES = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.float32, torch.float16, torch.bfloat16]


def sample(shape, dtype):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3)) * 30
    x = (x.abs() if dtype is torch.uint8 else x).to(dtype)
    if dtype.is_floating_point and x.numel() > 100:
        flat = x.view(-1)
        flat[50] = flat[77] = float("nan")
        flat[31], flat[72], flat[2], flat[3] = float("inf"), -float("inf"), 0.0, -0.0
    return x


@pytest.mark.parametrize("shape, dim", SHAPES)
def test_sort(shape, dim, adapter_class):
    for dtype in [*DTYPES, torch.bool]:
        x = sample(shape, dtype)
        g = x.to("webgpu")
        for descending in (False, True):
            arguments = {"dim": dim, "descending": descending, "stable": True}
            close(g.sort(**arguments), x.sort(**arguments), 0)


@pytest.mark.parametrize("shape, dim", [((70,), 0), ((3, 500), 1), ((2, 300, 2), 1), ((3001,), 0)])
def test_sort_by_digits(shape, dim, adapter_of, monkeypatch):
    needs.feature("subgroups")  # which rank digits
    adapter_of(kind="gpu")
    monkeypatch.setattr(kernels, "RADIX", 64)
    monkeypatch.setattr(kernels, "LEAST", 64)
    wide = torch.randint(-(2**63), 2**63 - 1, shape, generator=torch.Generator().manual_seed(3))
    # Digits in which all agree are skipped: none, some, all of them.
    for x in [*(sample(shape, d) for d in (*DTYPES, torch.bool)), wide, wide >> 50, wide >> 40 << 20, wide * 0 + 7]:
        g = x.to("webgpu")
        for descending in (False, True):
            arguments = {"dim": dim, "descending": descending, "stable": True}
            close(g.sort(**arguments), x.sort(**arguments), 0)
        if x.dtype is not torch.bool:
            close(g.median(dim)[0], x.median(dim)[0], 0)
    few = wide.flatten() % 40
    close(few.to("webgpu").unique(return_inverse=True), few.unique(return_inverse=True), 0)


@pytest.mark.parametrize("shape, dim", SHAPES)
def test_selection(shape, dim, adapter_class):
    for dtype in DTYPES:
        x = sample(shape, dtype)
        g = x.to("webgpu")
        k = min(5, x.shape[dim])
        for largest in (False, True):
            values, indices = g.topk(k, dim, largest)
            close(values, x.topk(k, dim, largest)[0], 0)
            close(values, x.gather(dim, indices.cpu()), 0)
        for name in ("median", "nanmedian"):
            values, indices = getattr(torch, name)(g, dim, True)
            close(values, getattr(torch, name)(x, dim, True)[0], 0)
            close(values, x.gather(dim, indices.cpu()), 0)
            close(getattr(torch, name)(g), getattr(torch, name)(x), 0)
        close(g.kthvalue(k, dim)[0], x.kthvalue(k, dim)[0], 0)


def test_int64_is_exact():
    x = torch.tensor([2**62 + 1, 2**62, -(2**63), 2**63 - 1, 5, -1, 2**32, 2**32 - 1, -(2**40)])
    close(x.to("webgpu").sort(), x.sort(), 0)
    close(x.to("webgpu").sort(descending=True), x.sort(descending=True), 0)


def test_large_k_and_million_rows(adapter_class):
    x = torch.randn(300_000, generator=torch.Generator().manual_seed(4))
    g = x.to("webgpu")
    close(g.topk(5000)[0], x.topk(5000)[0], 0)
    close(g.topk(100, largest=False)[0], x.topk(100, largest=False)[0], 0)
    rows = torch.randn(100_000, 3)
    close(rows.to("webgpu").sort(1), rows.sort(1), 0)


def test_layouts_and_composites():
    x = sample((6, 9, 4), torch.float32)
    g = x.to("webgpu")
    view, ours = x.transpose(0, 2)[1:, ::2], g.transpose(0, 2)[1:, ::2]
    close(ours.sort(dim=1, stable=True), view.sort(dim=1, stable=True), 0)
    close(torch.msort(g), torch.msort(x), 0)
    close(torch.argsort(g, 2), torch.argsort(x, 2), 0)
    close(torch.tensor(3.0, device="webgpu").sort(), torch.tensor(3.0).sort(), 0)
    close(torch.empty(0, 3, device="webgpu").sort(), torch.empty(0, 3).sort(), 0)
    for k in (0, 1):  # of a number, none is one too
        close(torch.tensor(3.0, device="webgpu").topk(k), torch.tensor(3.0).topk(k), 0)
    all_nan = torch.full((2, 5), float("nan"))
    close(torch.nanmedian(all_nan.to("webgpu"), 1)[0], torch.nanmedian(all_nan, 1)[0])
    assert torch.median(torch.empty(0, device="webgpu")).isnan().item()


def test_errors():
    g = torch.zeros(3, 4, device="webgpu")
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        g.topk(5)
    with pytest.raises(RuntimeError, match="selected number k out of range for dimension 1"):
        g.kthvalue(9)
    with pytest.raises(IndexError, match="Dimension out of range"):
        g.sort(2)
    with pytest.raises(IndexError, match="to have non-zero size"):
        torch.zeros(3, 0, device="webgpu").median(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8], ids=str)
def test_short_rows_choose_among_equals_as_the_cpu(dtype):
    """Which of several equal values topk and kthvalue name: rows of up to 63 follow the CPU's own algorithms."""
    g = torch.Generator().manual_seed(0)
    for length in (1, 2, 3, 5, 10, 17, 40, 63):
        x = torch.randint(0, 4, (29, length), generator=g).to(dtype)
        if dtype.is_floating_point:
            x[::5, ::3], x[1::5, 1::4] = float("nan"), float("-inf")
        d = x.to("webgpu")
        for k in {1, (length + 1) // 2, min(length, 17)}:
            for largest in (True, False):
                for ordered in (True, False):
                    ours, theirs = (t.topk(k, 1, largest, ordered).indices for t in (d, x))
                    assert k > 17 or torch.equal(ours.cpu(), theirs)
            assert torch.equal(d.kthvalue(k, 1).indices.cpu(), x.kthvalue(k, 1).indices)
    x = torch.randint(0, 4, (3, 9, 5), generator=g).to(dtype)
    assert torch.equal(x.to("webgpu").topk(4, 1).indices.cpu(), x.topk(4, 1).indices)


@pytest.fixture(params=["own", "workgroup", "buffer"])
def quick(request, monkeypatch, adapter_of):
    """Short sorts as the adapter has them, as a GPU with much workgroup memory, and without any."""
    monkeypatch.setattr(kernels, "QUICK", dict.fromkeys(kernels.QUICK, kernels.LONGEST))
    if request.param == "buffer":
        monkeypatch.setattr(kernels, "capacity", lambda *_: 0)
    adapter_of(**{"kind": "gpu"} if request.param == "workgroup" else {})
    return request.param


@pytest.mark.skipif(
    sys.platform != "linux",
    reason="the order of equal values is libstdc++'s, which torch has on Linux",
)
def test_short_sorts_leave_equals_as_the_cpu(quick):
    """Values of up to 16 bits, up to 8,192 of them, without stable=True; and the index of the mode, of every dtype."""
    g = torch.Generator().manual_seed(0)
    for shape in [(17,), (40,), (4, 256), (257,), (1000,), (4000,), (8000,), (8192,), (5, 300), (3, 100, 4)]:
        dim = 1 if len(shape) == 3 else -1
        for dtype in (torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.bool, torch.int16, torch.int64):
            for values in (2, 300):
                x = torch.randint(0, values, shape, generator=g).to(dtype)
                if dtype.is_floating_point:
                    flat = x.view(-1)
                    flat[::5] *= -1
                    flat[1::11] = float("inf")
                    if values == 2:
                        flat[3::7] = float("nan")
                d = x.to("webgpu")
                if not operators.fits_quick(d, (1, x.shape[dim], 1)):
                    assert gpu().caps.kind == "gpu"  # no room
                    continue
                if dtype.itemsize <= 2:
                    close(d.sort(dim), x.sort(dim), 0)
                    close(d.argsort(dim, descending=True), x.argsort(dim, descending=True), 0)
                    close(d.sort(dim=dim, stable=True), x.sort(dim=dim, stable=True), 0)
                if (
                    dtype.itemsize <= 2 or quick == "own"
                ) and not x.isnan().any():  # the CPU's mode has no order for it
                    close(d.mode(dim), x.mode(dim), 0)
    x = torch.randint(0, 50, (60, 40), generator=g).half()
    close(x.to("webgpu").t()[3:].msort(), x.t()[3:].msort(), 0)


def test_a_short_sort_ends_where_every_pivot_is_bad(quick):
    """Against an adversary std::sort gives up its pivots for a heap; here other pivots are drawn."""
    for length in (100, 1500, 8192):
        x = _bad_for_quicksort(length)
        values, indices = x.to("webgpu").sort()
        close(values, torch.arange(length, dtype=torch.int16), 0)
        close(indices, x.long().argsort(), 0)


def _bad_for_quicksort(length: int) -> torch.Tensor:
    """M. D. McIlroy, A Killer Adversary for Quicksort: values are decided only as the sort asks for them, and the
    pivot always becomes one of the least."""
    undecided, value, decided, candidate = length, [length] * length, 0, 0

    def less(a: int, b: int) -> bool:
        nonlocal decided, candidate
        if value[a] == undecided and value[b] == undecided:
            chosen = a if a == candidate else b
            value[chosen] = decided
            decided += 1
        if value[a] == undecided:
            candidate = a
        elif value[b] == undecided:
            candidate = b
        return value[a] < value[b]

    order, end, levels = list(range(length)), length, 0
    while end > 16 and levels < 4 * length.bit_length():  # the largest segment alone: the adversary starves the rest
        first = length - end
        last = length - 1
        a, b, c = first + 1, first + end // 2, last
        if less(order[a], order[b]):
            chosen = b if less(order[b], order[c]) else c if less(order[a], order[c]) else a
        else:
            chosen = a if less(order[a], order[c]) else c if less(order[b], order[c]) else b
        order[first], order[chosen] = order[chosen], order[first]
        i, j = first + 1, last
        while True:
            while less(order[i], order[first]):
                i += 1
            while less(order[first], order[j]):
                j -= 1
            if i >= j:
                break
            order[i], order[j] = order[j], order[i]
            i, j = i + 1, j - 1
        end, levels = length - i, levels + 1
    for i in range(length):
        if value[i] == undecided:
            value[i] = decided
            decided += 1
    return torch.tensor(value, dtype=torch.int16)
