"""torch.compile over time: what the next process finds again, tensors of the host, and caches that grow."""

import pytest
import torch

from webgpu_backend import env
from webgpu_backend.frontend.graphs.inductor import compiling
from webgpu_backend.plan.operator import Operator

D = "webgpu"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(env, "COMPILE", "inductor")
    torch._dynamo.reset()
    compiling._told.clear()
    yield
    assert not compiling._told, compiling._told
    torch._dynamo.reset()


def test_tensors_of_the_host_that_are_moved_are_planned(monkeypatch):
    """As lengths of a static cache are in transformers' first call."""

    def f(x, n, unit):
        length = n.to(D)
        return x + length, (x * 2).sum() + unit.to(D), length

    def direct(self, args, kwargs):
        assert self.name != "graph", "the graph runs as it is written"
        return self.call(*args, **kwargs)

    compiled = torch.compile(f, fullgraph=True)
    x = torch.arange(6.0)
    monkeypatch.setattr(Operator, "direct", direct)
    for i in range(3):
        n, unit = torch.tensor(3 + i), torch.tensor(0.25 + i)
        found = compiled(x.to(D), n, unit)
        assert n.device.type == "cpu"
        expected = (x + n, (x * 2).sum() + unit, n)
        assert all(a.device.type == D and torch.equal(a.cpu(), b) for a, b in zip(found, expected))
