"""embedding_bag, embedding_renorm_, repeat_interleave, bincount, equal."""

import pytest
import torch
import torch.nn.functional as F

from tests.device._compare import both, gradients, same, values

DEVICE = "webgpu"


@pytest.fixture(autouse=True)
def seed():
    torch.default_generator.manual_seed(0)


INDICES = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9])
OFFSETS = torch.tensor([0, 3, 3, 5])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_embedding_bag(mode, dtype):
    w = values((10, 5), dtype, 1)
    last = torch.tensor([0, 3, 3, 5, 8])
    same(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode), w, INDICES, OFFSETS, tolerance=None)
    same(lambda w, i, o: F.embedding_bag(i.int(), w, o.int(), mode=mode), w, INDICES, OFFSETS, tolerance=None)
    same(
        lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, include_last_offset=True), w, INDICES, last, tolerance=None
    )
    same(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, padding_idx=4), w, INDICES, OFFSETS, tolerance=None)
    same(lambda w, i: F.embedding_bag(i.view(2, 4), w.t().contiguous().t(), mode=mode), w, INDICES, tolerance=None)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag_gradients(mode):
    w = values((10, 5), torch.float32, 1)
    for padding in (None, 4):
        gradients(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, padding_idx=padding), w, INDICES, OFFSETS)
    if mode != "max":
        # Against the definition: the CPU's kernel mixes up the counts of repeated indices.
        plain, scaled = w.clone().requires_grad_(), w.to(DEVICE).requires_grad_()
        F.embedding_bag(INDICES, plain, OFFSETS, mode=mode).sum().backward()
        places = INDICES.to(DEVICE), OFFSETS.to(DEVICE)
        F.embedding_bag(places[0], scaled, places[1], mode=mode, scale_grad_by_freq=True).sum().backward()
        counts = INDICES.bincount(minlength=10).clamp(min=1).unsqueeze(1)
        torch.testing.assert_close(scaled.grad.cpu(), plain.grad / counts)
    if mode == "sum":
        weights = torch.rand(8)
        for padding in (None, 4):
            gradients(
                lambda w, p, i, o: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=p, padding_idx=padding),
                w, weights, INDICES, OFFSETS,
            )  # fmt: skip


def test_a_bag_longer_than_a_software_driver_loops():
    i = torch.randint(0, 10, (70_000,))
    w = torch.rand(10, 2)
    offsets = torch.tensor([0, 5])
    for mode in ("sum", "max", "mean"):
        same(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode) / 1e4, w, i, offsets, tolerance=None)


def test_bad_index_in_a_bag():
    w = torch.zeros(10, 5).to(DEVICE)
    out = F.embedding_bag(torch.tensor([1, 10]).to(DEVICE), w, torch.tensor([0]).to(DEVICE))
    with pytest.raises(RuntimeError, match="Expected idx >= 0 && idx < num_embeddings but found idx to be 10,"):
        out.cpu()


def test_renorm():
    w = values((10, 5), torch.float32, 3)
    same(lambda w, i: F.embedding(i, w, max_norm=1.0), w, torch.tensor([1, 4, 4, 2]), tolerance=None)
    rows = torch.tensor([[1, 4, 4, 2]])
    same(lambda w, i: (F.embedding(i, w, max_norm=1.0, norm_type=1.0), w)[1], w, rows, tolerance=None)


def test_repeat_interleave():
    for dtype in (torch.int64, torch.int32):
        for repeats in ([1, 0, 3, 2, 0], [0, 0], [5], [], [0, 4, 0]):
            same(lambda r: torch.repeat_interleave(r), torch.tensor(repeats, dtype=dtype))
    x = torch.randn(3, 4)
    same(lambda x, r: x.repeat_interleave(r, 0), x, torch.tensor([2, 0, 3]))
    same(lambda x: x.repeat_interleave(3, 1), x)
    gradients(lambda x, r: x.repeat_interleave(r, 0), x, torch.tensor([2, 0, 3]))
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        torch.repeat_interleave(torch.tensor([2, -1]).to(DEVICE))


def test_bincount():
    for dtype in (torch.int64, torch.int32, torch.uint8):
        x = torch.randint(0, 9, (100,)).to(dtype)
        same(lambda x: x.bincount(), x)
        same(lambda x: x.bincount(minlength=20), x)
        same(lambda x, w: x.bincount(w), x, torch.rand(100), tolerance=None)
    same(lambda x: x.bincount(minlength=3), torch.zeros(0, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.tensor([-1, 2]).to(DEVICE).bincount()


def test_equal():
    x = torch.randn(3, 4).to(DEVICE)
    assert torch.equal(x, x.clone()) and not torch.equal(x, x + 1) and not torch.equal(x, x[:2])
    assert torch.equal(x[:0], x[:0].clone())
    assert not torch.equal(*[torch.tensor([float("nan")]).to(DEVICE)] * 2)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segment_reduce(reduce):
    x = torch.randn(7, 3)
    x[4, 1] = 0
    lengths, offsets = torch.tensor([3, 0, 2, 2]), torch.tensor([0, 3, 3, 5, 7])
    for initial in (None, 0.5):
        same(lambda x, n: torch.segment_reduce(x, reduce, lengths=n, initial=initial), x, lengths, tolerance=None)
        same(lambda x, n: torch.segment_reduce(x, reduce, offsets=n, initial=initial), x, offsets, tolerance=None)
        if initial is None and reduce == "mean":
            continue
        gradients(lambda x, n: torch.segment_reduce(x, reduce, lengths=n, initial=initial), x, lengths)
    deep = torch.tensor([[1, 2, 0], [0, 1, 2]])
    same(lambda x, n: torch.segment_reduce(x, reduce, lengths=n, axis=1), torch.randn(2, 3, 4), deep, tolerance=None)
    with pytest.raises(RuntimeError, match="Expected all rows of lengths along axis to sum"):
        torch.segment_reduce(x.to(DEVICE), reduce, lengths=lengths.to(DEVICE) + 1)


@pytest.mark.parametrize("values", [[1.0, float("nan"), 3.0], [0.0, float("nan"), 2.0, 0.0], [float("nan")] * 2 + [4.0],
                                    [3.0, float("nan"), 0.0], [5.0, float("inf"), 0.0]])  # fmt: skip
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments_with_nan(reduce, values):
    def call(device):
        x = torch.tensor(values, device=device, requires_grad=True)
        lengths = torch.tensor([1, len(values) - 1], device=device)
        out = torch.segment_reduce(x, reduce, lengths=lengths)
        return out.detach(), torch.autograd.grad(out, x, torch.tensor([2.0, 3.0], device=device))[0]

    both(call)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 2.0])
def test_segments_of_nothing(reduce, initial):
    def call(device, shape=(0, 3), count=2):
        x = torch.zeros(shape, device=device, requires_grad=True)
        lengths = torch.zeros(count, dtype=torch.int64, device=device)
        out = torch.segment_reduce(x, reduce, lengths=lengths, initial=initial)
        return out.detach(), torch.autograd.grad(out.sum(), x)[0]

    both(call)
    assert call("webgpu", (0,), 0)[0].shape == (0,)


def test_dimensions_that_do_not_fit():
    one, two, five = (
        torch.zeros(2, dtype=torch.long),
        torch.zeros(2, 2, dtype=torch.long),
        torch.zeros(2, 0, 0, 6, 6).long(),
    )
    for weight, indices, offsets, words in (
        (torch.zeros(2, 6), five, five, "input has to be a 1D or 2D Tensor"),
        (torch.zeros(2, 6), one, two, "offsets has to be a 1D Tensor"),
        (torch.zeros(6), one, one, "weight has to be a 2D Tensor"),
    ):
        for device in ("cpu", DEVICE):
            for function in (torch._embedding_bag, torch._embedding_bag_forward_only):
                with pytest.raises(RuntimeError, match=words):
                    function(*[t.to(device) for t in (weight, indices, offsets)])
    weight = torch.tensor([[1.0, 10.0], [100.0, 1000.0]])
    found = torch._embedding_bag(weight.to(DEVICE), torch.tensor([[0, 1], [1, 1]]).t().to(DEVICE), one[:1].to(DEVICE))
    assert found[0].tolist() == [[301.0, 3010.0]]
