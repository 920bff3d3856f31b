"""torch.compile over time: what the next process finds again, tensors of the host, and caches that grow."""

import copy
import json
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters

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


class Growing(nn.Module):
    """A layer of attention over keys and values that grow by one with every token."""

    def __init__(self):
        super().__init__()
        self.inside, self.outside = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x, keys, values):
        query, key, value = self.inside(x).view(1, -1, 12, 8).transpose(1, 2).chunk(3, 1)
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        found = F.scaled_dot_product_attention(query, keys, values)
        return self.outside(found.transpose(1, 2).flatten(2)) + x, keys, values


@pytest.mark.parametrize("how", ["second size", "dynamic", "marked"])
def test_a_growing_cache_is_compiled_once_or_twice(how):
    torch.manual_seed(0)
    model = Growing().eval()
    tokens = torch.randn(20, 1, 1, 32)
    counters.clear()
    compiled = torch.compile(copy.deepcopy(model).to(D), dynamic=True if how == "dynamic" else None)
    keys = values = torch.randn(1, 4, 3, 8)
    ours = [keys.to(D), values.to(D)]
    with torch.no_grad():
        for x in tokens:
            y, keys, values = model(x, keys, values)
            if how == "marked":
                for t in ours:
                    torch._dynamo.mark_dynamic(t, 2)
            found, *ours = compiled(x.to(D), *ours)
            for a, b in zip((found, *ours), (y, keys, values)):
                torch.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=1e-5)
    assert ours[0].shape[2] == 23
    assert counters["stats"]["unique_graphs"] == (2 if how == "second size" else 1)


PROCESS = """
import json, sys, torch, webgpu_backend
import torch.nn.functional as F
from torch._dynamo.utils import counters

what, path = sys.argv[1:]
if what == "load":
    with open(path, "rb") as file:
        assert torch.compiler.load_cache_artifacts(file.read()) is not None
torch.manual_seed(0)
weight = torch.randn(32, 32).to("webgpu").requires_grad_()
x, length = torch.randn(2, 4, 8, 32).to("webgpu"), torch.tensor(3)

@torch.compile(fullgraph=True)
def f(x, length):
    y = F.rms_norm(x @ weight, (32,)) + length.to("webgpu")
    return F.scaled_dot_product_attention(y, y, x).square().mean()

f(x, length).backward()
with torch.no_grad():
    f(x, length)
if what == "save":
    found, _ = torch.compiler.save_cache_artifacts()
    with open(path, "wb") as file:
        file.write(found)
counts = {k: v for kind in ("aot_autograd", "inductor") for k, v in counters[kind].items() if "cache" in k}
print(json.dumps([counts, weight.grad.flatten()[:8].tolist()]))
"""


def test_the_next_process_finds_graphs_again(tmp_path):
    """From the files that Inductor and AOTAutograd keep, here brought to another folder as artifacts."""
    found = []
    for what in ("save", "load"):
        env = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / what), "WEBGPU_COMPILE": "inductor"}
        command = [sys.executable, "-c", PROCESS, what, str(tmp_path / "artifacts")]
        done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    (first, expected), (second, gradient) = found
    assert first["autograd_cache_miss"] == first["autograd_cache_saved"] == 2
    assert second["autograd_cache_hit"] == 2
    assert not any("miss" in name or "bypass" in name for name in second), second
    assert gradient == expected
