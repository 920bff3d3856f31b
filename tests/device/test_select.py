"""What a GPU does without sorting: the largest of long rows by digits, and masks compacted by tiles."""

import pytest
import torch
from _compare import close

from webgpu_backend.kernels.indexing import compact
from webgpu_backend.kernels.sort import select

D = "webgpu"
MASKS = [(1,), (5,), (4096,), (4097,), (3, 1000), (7, 11, 13), (20000,)]
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int16, torch.uint8, torch.complex64]
KEYS = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.int8, torch.uint8]


@pytest.fixture
def big_gpu(adapter_of, monkeypatch):
    adapter_of(kind="gpu")
    monkeypatch.setattr(select, "LONG", 512)


@pytest.fixture(params=["each tile adds up", "sums first"])
def tiles(request, big_gpu, monkeypatch):
    if request.param == "sums first":
        monkeypatch.setattr(compact, "FEW", 0)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool], ids=str)
def test_nonzero(dtype, tiles):
    for shape in MASKS:
        x = (torch.rand(shape) > 0.6).to(dtype)
        for _ in range(2):
            close(x.to(D).nonzero(), x.nonzero())
    close(x.to(D)[4:].nonzero(), x[4:].nonzero())
    close(x.to(D)[3:].nonzero(), x[3:].nonzero())  # not at a multiple of four
    close(torch.nonzero_static(x.to(D), size=9), torch.nonzero_static(x, size=9))
    close((x * 0).to(D).nonzero(), (x * 0).nonzero())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_by_masks(dtype, tiles):
    for shape in MASKS:
        x, mask = (torch.randn(shape) * 50).to(dtype), torch.rand(shape) > 0.3
        close(x.to(D).masked_select(mask.to(D)), x.masked_select(mask))
        source = torch.arange(mask.numel()).to(dtype)
        close(x.to(D).masked_scatter_(mask.to(D), source.to(D)), x.clone().masked_scatter_(mask, source))
    wide = torch.randn(6, 4).to(dtype)
    close(wide.to(D).t().masked_select((wide.real > 0).t().to(D)), wide.t().masked_select((wide.real > 0).t()))


def test_too_few_values(tiles):
    written = torch.zeros(8, device=D).masked_scatter_(
        torch.ones(8, dtype=torch.bool, device=D), torch.ones(3, device=D)
    )
    with pytest.raises(RuntimeError, match="masked_scatter: expected at least as many elements"):
        written.cpu()


@pytest.mark.parametrize("dtype", KEYS, ids=str)
@pytest.mark.parametrize("case", [(1, 20000, 50), (3, 5003, 7), (2, 4096, 512), (5, 1000, 1)], ids=str)
def test_topk_takes_the_first_of_equal_values(case, dtype, big_gpu):
    rows, length, k = case
    for scale in (100.0, 1.7):  # hardly any ties, and hardly anything else
        low = 0 if dtype == torch.uint8 else -127
        x = (torch.randn(rows, length) * scale).round().clamp(low, 127).to(dtype)
        for largest in (True, False):
            values, indices = torch.topk(x.to(D), k, largest=largest)
            order = torch.sort(x, dim=1, stable=True, descending=largest)
            close(values, order[0][:, :k])
            close(indices, order[1][:, :k])


@pytest.mark.parametrize("dtype", KEYS[:3], ids=str)
def test_topk_of_nan_and_infinities(dtype, big_gpu):
    x = torch.randn(3, 4000).to(dtype)
    x[0, 5], x[0, 77], x[1, 3], x[2] = float("nan"), float("inf"), -float("inf"), float("nan")
    for largest in (True, False):
        values, indices = torch.topk(x.to(D), 9, largest=largest)
        close(values, torch.topk(x, 9, largest=largest)[0])
        close(x.to(D).gather(1, indices), torch.topk(x, 9, largest=largest)[0])
        assert all(len(set(row)) == 9 for row in indices.tolist())


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.uint8], ids=str)
def test_unique(dtype, tiles):
    x = (torch.rand(7000) * 90).to(dtype)
    close(torch.unique(x.to(D)), torch.unique(x))
    close(
        torch.unique(x.to(D), return_inverse=True, return_counts=True),
        torch.unique(x, return_inverse=True, return_counts=True),
    )


def test_masked_scatter_into_its_own_mask_and_source():
    mask = torch.tensor([True, False, True, True, False])
    ours = mask.to(D)
    ours.masked_scatter_(ours, ours.flip(0).contiguous())
    assert torch.equal(ours.cpu(), mask.clone().masked_scatter_(mask.clone(), mask.flip(0)))
    x = torch.arange(5.0)
    y = x.to(D)
    y.masked_scatter_(mask.to(D), y)
    assert torch.equal(y.cpu(), x.clone().masked_scatter_(mask, x))
