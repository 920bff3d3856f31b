"""Joining tensors and moving elements by their coordinates."""

import pytest
import torch
import torch.nn.functional as F

import webgpu_backend
from tests.device._compare import MOVED, both, gradients, same, values
from webgpu_backend.ops.shape import rearrange
from webgpu_backend.plan import caps

DEVICE = "webgpu"


@pytest.fixture(autouse=True)
def seed():
    torch.default_generator.manual_seed(0)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_cat_and_stack(dtype):
    a, b, c = values((3, 4, 5), dtype), values((3, 1, 5), dtype), values((3, 8, 5), dtype)
    for dim in (0, 1, 2, -1):
        same(lambda a: torch.cat([a, a * 1, a], dim), a)
        same(lambda a: torch.stack([a, a], dim), a)
    same(lambda a, b, c: torch.cat([a, b, c, torch.zeros(0, dtype=a.dtype, device=a.device)], 1), a, b, c)
    same(lambda a: torch.cat([a[:, :, i : i + 1] for i in (0, 1, 2, 3, 4)] * 5, 2), a)
    same(lambda a: torch.cat([a.transpose(0, 2), a.transpose(0, 2)], 1), a)
    same(lambda a: torch.cat([a[:, 1:], a[:, :0], a], 1), a)
    same(lambda a: torch.cat([a], 0), a)
    same(lambda a: torch.cat([a[:, :4], a], 1, out=torch.empty(0, dtype=a.dtype, device=a.device)), a)
    same(lambda a: torch.stack([a[0, 0, 0]] * 60), a)


def test_cat_promotes_and_keeps_channels_last():
    same(lambda a, b: torch.cat([a, b]), torch.ones(3), torch.ones(2, dtype=torch.int64))
    same(lambda a, b: torch.cat([a, b]), torch.ones(3, dtype=torch.uint8), torch.ones(2, dtype=torch.int8))
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    same(lambda x: torch.cat([x, x], 1), x)
    assert torch.cat([x.to(DEVICE)] * 2, 1).is_contiguous(memory_format=torch.channels_last)


def test_large_cat():
    a, b = torch.randn(300, 1000), torch.randn(300, 24)
    same(lambda a, b: torch.cat([a, b], 1), a, b)
    same(lambda a, b: torch.cat([a.half(), b.half()[:, :3]], 1), a, b)
    same(lambda a: torch.cat([a] * 9, 0), a)


def test_cat_reads_views_where_they_are():
    """Rows that are whole in memory are joined in one dispatch, however the rows lie: a rotary embedding's halves."""
    for dtype in (torch.float32, torch.float16, torch.uint8, torch.int64):
        x = (torch.arange(2 * 5 * 3 * 8) % 97).view(2, 5, 3, 8).to(dtype)
        y = x.to(DEVICE)

        def halves(t):
            t = t.transpose(1, 2)
            return torch.cat((t[..., 4:], t[..., :4]), -1)

        def odd(t):
            return torch.cat((t[:, ::2, :, 3:], t[:, 1:4, :, :5]), -1)

        def cache(t):
            return torch.cat((t.view(2, 3, 5, 8), t[:, :1].transpose(1, 2)), 2)

        for f in (halves, odd, cache):
            assert torch.equal(f(y).cpu(), f(x)), (dtype, f.__name__)
            before = webgpu_backend.stats()["dispatches"]
            f(y)
            assert webgpu_backend.stats()["dispatches"] == before + 1, (dtype, f.__name__)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.bfloat16, torch.int64])
def test_many_inputs_on_a_gpu(dtype, monkeypatch, adapter_of):
    """Sixteen to a dispatch, in turns where these are runs of the output, else in rounds or one by one."""
    adapter_of(kind="gpu")
    monkeypatch.setattr(rearrange, "_LARGE", 64)
    a = values((3, 4, 6), dtype)
    counted = lambda call: (webgpu_backend.stats()["dispatches"], call(), webgpu_backend.stats()["dispatches"])  # noqa: E731
    device = a.to(DEVICE)
    before, _, after = counted(lambda: torch.cat([device] * 40))
    assert after - before == (3 if caps().max_bindings > 16 else 6)
    same(lambda a: torch.cat([a * 1 for _ in range(40)]), a)
    same(lambda a: torch.cat([a[:1, :, k % 6] for k in range(37)], 1), a)  # not in one run of memory
    same(lambda a: torch.stack([a[0, 0, k % 6] for k in range(50)]), a)
    same(lambda a: torch.cat([a[0, 0, : k % 5 + 1] for k in range(50)]), a)  # turns that end inside a group of four
    same(lambda a: torch.stack([a * 1 for _ in range(17)], -1), a)
    same(lambda a: torch.cat([a.repeat(1, 9, 9) for _ in range(17)], 1), a)


def test_cat_is_one_dispatch():
    a = torch.randn(4, 4).to(DEVICE)
    torch.cat([a] * 5)
    before = webgpu_backend.stats()
    torch.cat([a[:3]] * 5)
    after = webgpu_backend.stats()
    assert after["dispatches"] - before["dispatches"] == 1
    assert after["pipelines_compiled"] == before["pipelines_compiled"]


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_moves(dtype):
    a = values((3, 4, 5), dtype)
    same(lambda a: F.pad(a, (1, 2, 0, 3, -1, 1), value=1), a)
    same(lambda a: F.pad(a, (-1, -2)), a)
    same(lambda a: F.pad(a[:, 1:].transpose(0, 1), (2, 1)), a)
    same(lambda a: F.pad(a[:0], (0, 0, 0, 0, 2, 1), value=1), a)
    if a.is_floating_point():
        same(lambda a: torch.signbit(F.pad(a, (1, 2), value=-0.0)), a)
    same(lambda a: a.flip(0, 2), a)
    same(lambda a: a[..., 1:].flip(1), a)
    same(lambda a: a.roll(2), a)
    same(lambda a: a.roll((2, -3), (0, 2)), a)
    same(lambda a: a.transpose(0, 1).roll(1, 0), a)
    for diagonal in (-9, -1, 0, 1, 7):
        same(lambda a: a.tril(diagonal), a)
        same(lambda a: a.transpose(0, 2).triu(diagonal), a)
    same(lambda a: a.tril_(), a)
    b = values((3, 6, 8), dtype)  # rows of a multiple of four elements
    for diagonal in (-2, 0, 3):
        same(lambda b: b.tril(diagonal), b)
        same(lambda b: b[0].triu(diagonal), b)
    same(lambda b: F.pad(b, (0, 0, 2, 1, 1, 0), value=1), b)
    same(lambda b: b.roll(2, 1), b)
    same(lambda b: b.flip(0, 1), b)
    same(lambda a: torch.rot90(a, 1, (0, 2)), a)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.complex64, torch.int64], ids=str)
def test_edge_pads(dtype):
    a = values((3, 4, 5), dtype)
    for mode in ("reflect", "replicate", "circular"):
        same(lambda a: F.pad(a, (1, 2), mode=mode), a)
        same(lambda a: F.pad(a, (-1, 3), mode=mode), a)
        same(lambda a: F.pad(a[None], (1, 2, 3, 2), mode=mode), a)
        same(lambda a: F.pad(a[None, None], (1, 2, 3, 2, 1, 1), mode=mode), a)


def test_gradients():
    a = torch.randn(3, 4, 5)
    gradients(lambda a: torch.cat([a, a[:, 1:]], 1), a)
    gradients(lambda a: torch.stack([a, a * 2], 1), a)
    gradients(lambda a: F.pad(a, (1, 2, -1, 3), value=1.0), a)
    gradients(lambda a: a.flip(0, 2), a)
    gradients(lambda a: a.roll((2, -3), (0, 2)), a)
    gradients(lambda a: a.tril(1), a)
    for mode in ("reflect", "replicate", "circular"):
        gradients(lambda a: F.pad(a, (1, 2), mode=mode), a)
        gradients(lambda a: F.pad(a[None], (1, 2, 3, 2), mode=mode), a)
        gradients(lambda a: F.pad(a[None, None], (1, 2, 3, 2, 1, 1), mode=mode), a)


@pytest.mark.parametrize("function", [
    lambda a: torch.cat([a, a[0]]),
    lambda a: torch.cat([a, a[:, 1:]]),
    lambda a: torch.cat([a, a[0, 0, 0]]),
    lambda a: torch.cat([a, a], 3),
    lambda a: torch.stack([a, a[1:]]),
    lambda a: F.pad(a, (1, 2), mode="reflect") if a.shape[-1] < 2 else F.pad(a, (5, 1), mode="reflect"),
    lambda a: F.pad(a, (-3, -3)),
    lambda a: a.flip(0, 0),
    lambda a: a.roll((1, 2), (0,)),
    lambda a: a[0, 0].tril(),
])  # fmt: skip
def test_wrong_arguments_raise_as_on_the_cpu(function):
    a = torch.randn(3, 4, 5)
    with pytest.raises(Exception) as expected:
        function(a)
    with pytest.raises(type(expected.value)) as raised:
        function(a.to(DEVICE))
    assert str(raised.value)[:40] == str(expected.value)[:40]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.complex64], ids=str)
def test_windows(dtype):
    x = values((2, 3, 7, 6), dtype, 1)
    for rest in ({}, {"padding": 1}, {"stride": 2, "padding": (0, 2)}, {"dilation": (2, 1), "stride": (1, 3)}):
        same(lambda x: F.unfold(x, (3, 2), **rest), x)
        same(lambda x: F.unfold(x[0].transpose(1, 2), (2, 3), **rest), x)
        same(lambda x: F.fold(F.unfold(x, (3, 2), **rest), (7, 6), (3, 2), **rest), x, tolerance=None)
    if dtype is not torch.complex64:
        for dim, size, step in ((1, 2, 1), (2, 3, 2), (3, 2, 4), (3, 6, 1)):
            gradients(lambda x: x.unfold(dim, size, step), x)
        gradients(lambda x: F.unfold(x, 3, padding=1, stride=2), x)
        gradients(lambda x: F.fold(x.reshape(2, 126)[:, :120].reshape(2, 24, 5), (6, 2), (2, 2)), x)


def test_windows_take_few_dispatches():
    x = torch.randn(2, 3, 8, 8).to(DEVICE)
    columns = F.unfold(x, 3)
    for function, most in (
        (lambda: F.unfold(x, 3), 1),
        (lambda: F.unfold(x, 3, padding=1), 2),
        (lambda: F.fold(columns, (8, 8), 3), 1),
    ):
        before = webgpu_backend.stats()["dispatches"]
        function()
        assert webgpu_backend.stats()["dispatches"] - before <= most


def test_tensor_split_by_tensors():
    x = torch.randn(7, 3)
    same(lambda x, n: x.tensor_split(n), x, torch.tensor(3))
    same(lambda x, n: x.tensor_split(n, 0), x, torch.tensor([1, 5]))
    gradients(lambda x, n: x.tensor_split(n)[1], x, torch.tensor(3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bool, torch.int64, torch.complex64])
def test_stacks_of_numbers(dtype):
    """Neighbours in memory in order, and everything that only looks like it."""
    host = (torch.randn(9) * 3).to(dtype)

    def run(d):
        x = host.to(d)
        each = [*x.unbind()]
        return [
            torch.stack(each), torch.stack(each[3:7]), torch.stack(each[::-1]), torch.stack(each[::2]),
            torch.stack(each[:2] + each[1:3]), torch.stack(each[:1]), torch.stack([*x.clone().unbind()] + each),
            torch.stack([each[0], -each[1].to(torch.float32) if dtype is torch.float32 else each[1]]),
        ]  # fmt: skip

    both(run)


def test_stacks_of_numbers_with_gradients():
    def run(d):
        x = torch.randn(6).to(d).requires_grad_()
        (torch.stack([*x.unbind()]) ** 3).sum().backward()
        y = torch.stack([*x.detach().unbind()])
        y.zero_()
        return x.grad, x.detach(), y

    both(run)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8, torch.int64, torch.complex64])
def test_pads_of_whole_groups(dtype):
    """Rows whose inside begins and ends at multiples of four are moved four elements at a time, others are not."""
    x = (torch.randn(3, 5, 16) * 9).to(dtype)
    for pad in ((4, 4), (4, 0), (0, 8), (-4, 4), (-8, 12, 1, 0), (4, -4, 4, 4), (4, 6), (2, 2)):
        both(lambda d, pad=pad: F.pad(x.to(d), pad, value=3))
        both(lambda d, pad=pad: F.pad(x.to(d)[..., 4:12], pad, value=3))
        both(lambda d, pad=pad: F.pad(x.to(d)[..., 3:11], pad, value=3))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.flip([0, 2]),
        lambda x: x.rot90(1, (1, 2)),
        lambda x: x.sort(1)[0],
        lambda x: x.sort(-1, descending=True)[1],
        lambda x: torch.argsort(x, dim=0, stable=True),
        lambda x: x.index_fill(1, torch.tensor([1], device=x.device), 2.0),
        lambda x: x.index_put((torch.tensor([1], device=x.device),), torch.tensor(1.0, device=x.device)),
    ],
)
def test_results_lie_in_memory_as_the_cpus(call):
    whole = torch.randn(2, 3, 4, 6)
    for x in (
        whole.to(memory_format=torch.channels_last),
        whole.permute(3, 1, 0, 2),
        whole.transpose(1, 3)[:, 1::2],
        whole.to(memory_format=torch.channels_last)[:, 1:, :, ::2],
        whole[:, :, ::2],
    ):
        there = whole.to(DEVICE).flatten().as_strided(x.shape, x.stride(), x.storage_offset())
        there.copy_(x)
        want, got = call(x), call(there)
        assert torch.equal(got.cpu(), want) and got.stride() == want.stride()


def test_cat_of_parts_of_channels_last_images_and_of_nothing():
    image = torch.arange(24.0).reshape(2, 2, 3, 2).to(memory_format=torch.channels_last)

    def joined(device):
        x = image.to(device)
        found = [torch.cat((x[:, :, :2], x[:, :, 1:]), dim=3), torch.cat((x[:, :, :2], x), dim=2)]
        found.append(torch.cat((x, torch.ones(0, device=device))))
        nothing = torch.ones(0, device=device)
        return [*found, torch.cat([nothing, nothing], dim=1), torch.cat([nothing], dim=-3)]

    for expected, result in zip(joined("cpu"), joined(DEVICE)):
        assert torch.equal(expected, result.cpu()) and expected.stride() == result.stride()


def test_windows_of_one_row_for_all():
    """Torch's istft in Python gives the gradient of one row; others were read from beyond it."""
    grad = torch.randn(1, 3, 4)
    found = [torch.ops.aten.unfold_backward(grad.to(d), (5, 8), 1, 4, 2).cpu() for d in ("cpu", "webgpu")]
    torch.testing.assert_close(found[1], found[0])
    with pytest.raises(RuntimeError, match="must match"):
        torch.ops.aten.unfold_backward(torch.ones(2, 3, 4, device="webgpu"), (5, 8), 1, 4, 2)
