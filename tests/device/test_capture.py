"""torch.webgpu.graph: regions captured by hand."""

import gc

import pytest
import torch
from torch import nn

import webgpu_backend

D = "webgpu"


def captured(f):
    graph = torch.webgpu.WebGPUGraph()
    with torch.webgpu.graph(graph):
        out = f()
    return graph, out


def test_a_model_is_replayed_with_new_inputs():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(7, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)).eval()
    ours, static = nn.Sequential(*[m for m in net]).to(D), torch.zeros(5, 7, device=D)
    with torch.no_grad():
        ours(static)
        graph, out = captured(lambda: ours(static).softmax(-1))
        for seed in range(3):
            x = torch.randn(5, 7, generator=torch.Generator().manual_seed(seed))
            static.copy_(x)
            before = webgpu_backend.stats()["dispatches"]
            graph.replay()
            assert 3 <= webgpu_backend.stats()["dispatches"] - before <= 8
            expected = net.cpu()(x).softmax(-1)
            net.to(D)
            torch.testing.assert_close(out.cpu(), expected, rtol=1e-5, atol=1e-6)


def test_nothing_is_computed_while_a_region_is_captured():
    x = torch.ones(4, device=D)
    graph, _ = captured(lambda: x.add_(1))
    assert x.tolist() == [1.0] * 4
    graph.replay()
    graph.replay()
    assert x.tolist() == [3.0] * 4


def test_memory_is_the_graphs_own():
    """What the region made in between, and inputs whose tensors are gone, are nobody else's until the graph ends."""
    inputs = [torch.full((1000,), 2.0, device=D)]
    graph, out = captured(lambda: (inputs[0] * 3 + 1).exp().log() * 2)
    inputs.clear()
    gc.collect()
    others = [torch.full((1000,), -1.0, device=D) for _ in range(8)]
    graph.replay()
    assert out.cpu().allclose(torch.full((1000,), 14.0)) and all(o.cpu().eq(-1).all() for o in others)
    live = torch.webgpu.memory_allocated()
    graph.reset()
    assert torch.webgpu.memory_allocated() <= live
    more = [torch.full((1000,), 5.0, device=D) for _ in range(8)]
    assert out.cpu().allclose(torch.full((1000,), 14.0)) and all(m.cpu().eq(5).all() for m in more)
    with pytest.raises(RuntimeError, match="not been captured"):
        graph.replay()


def test_random_numbers_are_drawn_anew():
    graph, out = captured(lambda: torch.rand(100, device=D))
    torch.manual_seed(5)
    graph.replay()
    first = out.cpu()
    graph.replay()
    assert not torch.equal(first, out.cpu())
    torch.manual_seed(5)
    assert torch.equal(torch.rand(100, device=D).cpu(), first)


def test_gradients_inside():
    w, x = torch.randn(4, 3, device=D, requires_grad=True), torch.randn(5, 4, device=D)

    def step():
        (grad,) = torch.autograd.grad((x @ w).square().sum(), w)
        return grad

    expected = step().cpu()
    graph, grad = captured(step)
    graph.replay()
    torch.testing.assert_close(grad.cpu(), expected)


@pytest.mark.parametrize("bad", [lambda x: x.sum().item(), lambda x: x.cpu(), lambda x: x[x > 0],
                                 lambda x: x + torch.tensor([1.0, 2.0], device=D)])  # fmt: skip
def test_what_cannot_be_captured_says_so(bad):
    x = torch.randn(2, device=D)
    graph = torch.webgpu.WebGPUGraph()
    with pytest.raises(RuntimeError, match="captured"), torch.webgpu.graph(graph):
        bad(x)
    assert x.add(1).sub(1).cpu().allclose(x.cpu())  # the device works as before
    with pytest.raises(RuntimeError, match="not been captured"):
        graph.replay()


def test_captures_do_not_nest_and_do_not_repeat():
    x = torch.ones(2, device=D)
    graph, other = torch.webgpu.WebGPUGraph(), torch.webgpu.WebGPUGraph()
    with torch.webgpu.graph(graph):
        y = x + 1
        with pytest.raises(RuntimeError, match="captured already"):
            other.capture_begin()
    graph.replay()
    assert y.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="reset"):
        graph.capture_begin()


def test_by_the_name_that_names_no_device():
    graphs = [torch.webgpu.WebGPUGraph()]
    if hasattr(torch.accelerator, "Graph"):  # from torch 2.13 on
        graphs += [
            torch.accelerator.Graph(),
            torch.accelerator.graphs.Graph(True, pool=None, capture_error_mode="global"),
        ]
    for graph in graphs:
        x = torch.ones(3, device=D)
        with torch.Stream(device=D), graph:
            x += 1
        assert x.tolist() == [1.0] * 3
        graph.replay()
        assert x.tolist() == [2.0] * 3
        graph.reset()
        with pytest.raises(ZeroDivisionError), graph:
            x *= 1 / 0
        with pytest.raises(RuntimeError, match="has not been captured"):
            graph.replay()
        with graph:
            x *= 5
        graph.replay()
        assert x.tolist() == [10.0] * 3
