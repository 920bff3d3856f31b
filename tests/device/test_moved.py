"""Large copies that keep every byte: a software adapter does them by a command, a GPU by a kernel."""

import pytest
import torch

from webgpu_backend.kernels.pointwise.elementwise import MOVED
from webgpu_backend.plan import caps
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"
N = MOVED  # elements: more bytes than the least in every dtype
DTYPES = (torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64, torch.bfloat16)


def values(dtype: torch.dtype, n: int = N) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.testing.make_tensor((n,), dtype=dtype, device="cpu")


def same(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert found.stride() == expected.stride()
    torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("start", [0, 4, 3])
@pytest.mark.parametrize("less", [0, 1, 2])
def test_neighbours_stay(dtype, start, less):
    """Parts of a tensor are written from any start, in any length, and nothing beside them is."""
    source, target = values(dtype, N + 8), torch.zeros(N + 16, dtype=dtype)
    ours, there = source.to(D), target.to(D)
    part, place = slice(start, start + N - less), slice(8, 8 + N - less)
    target[place].copy_(source[part])
    there[place].copy_(ours[part])
    same(there, target)


def test_layouts():
    x = torch.randn(4, 16, 40, 40)
    for view in (
        lambda x: x,
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x.transpose(0, 3),
        lambda x: x[:, 2:9],
        lambda x: x[1:3],
        lambda x: x.expand(2, 4, 16, 40, 40),
    ):
        here, there = view(x.to(D)), view(x)
        same(here.clone(), there.clone())
        same(torch.zeros(there.shape, device=D).copy_(here), torch.zeros(there.shape).copy_(there))
        same(torch.empty_like(here).copy_(here), torch.empty_like(there).copy_(there))


def test_nan_bits_and_infinities():
    bits = torch.randint(-(2**31), 2**31 - 1, (N,), dtype=torch.int32)
    assert torch.equal(bits.view(torch.float32).to(D).clone().view(torch.int32).cpu(), bits)


def test_within_one_tensor():
    x = torch.arange(3.0 * N)
    ours = x.to(D)
    ours[2 * N :].copy_(ours[:N])
    x[2 * N :].copy_(x[:N])
    ours[N : 2 * N].copy_(ours[N : 2 * N])
    same(ours, x)


def test_in_order_with_kernels():
    x = torch.zeros(N, device=D)
    kept = []
    for i in range(300):  # more than a batch
        x.add_(1)
        if i % 30 == 0:
            kept.append(x.clone())
    assert [k[[0, -1]].tolist() for k in kept] == [[1.0 + 30 * i] * 2 for i in range(10)]


def test_by_which_way():
    """A software adapter runs no kernel for it, but where somebody watches the kernels it does; batches end anyway."""
    x = torch.randn(N, device=D)
    queue = gpu().queue
    x.clone()
    before, submits = queue.dispatches, queue.submits
    for _ in range(600):
        y = x.clone()
    assert queue.dispatches - before == 600 and queue.submits > submits
    queue.recording = []
    try:
        z = x.clone()
        assert [r.step.program.name.split("_")[0] for r in queue.recording] == ["copy"]
        assert (queue.recording[0].step.moved is not None) == (caps().kind == "cpu")
    finally:
        queue.recording = None
    assert torch.equal(z.cpu(), x.cpu()) and torch.equal(y.cpu(), x.cpu())
    if caps().kind == "cpu":
        from torch.profiler import ProfilerActivity, profile

        x.clone()
        assert queue.log[-1][0] == "copy"
        with profile(activities=[ProfilerActivity.CPU]):
            x.clone()
        x.clone()
        assert queue.log[-1][0] == "copy"


def test_in_a_captured_graph_and_compiled():
    x, y = torch.randn(N, device=D), torch.zeros(N, device=D)
    graph = torch.webgpu.WebGPUGraph()
    with torch.webgpu.graph(graph):
        y.copy_(x)
    x.mul_(2)
    graph.replay()
    assert torch.equal(y.cpu(), x.cpu())
    made = torch.compile(lambda a: (a.clone(), a.clone() + 1))(x)
    assert torch.equal(made[0].cpu(), x.cpu()) and torch.equal(made[1].cpu(), (x + 1).cpu())
