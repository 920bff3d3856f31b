"""`mode="max-autotune"`: tiles of matrix products are measured, once, and for compiled graphs alone."""

import json

import pytest
import torch
from torch import nn

from webgpu_backend import env
from webgpu_backend.frontend.graphs.inductor import compiling, tuning
from webgpu_backend.kernels.matmul.matmul import choices
from webgpu_backend.plan import caps
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """Nothing compiled, nothing measured, and a cache folder of its own."""
    monkeypatch.setattr(env, "COMPILE", "inductor")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuning, "_found", {})
    torch._dynamo.reset()
    compiling._told.clear()
    yield
    assert not compiling._told, compiling._told
    torch._dynamo.reset()


def kernels(f) -> list[str]:
    """Names of the programs that a call runs."""
    queue = gpu().queue
    with queue.lock:
        queue.recording = recorded = []
        try:
            f()
        finally:
            queue.recording = None
    return [dispatch.step.program.name for dispatch in recorded]


def products(f) -> list[str]:
    return [name for name in kernels(f) if name.startswith("matmul_")]


def count(f) -> int:
    """How many products a call measures."""
    before = tuning.timed
    f()
    return tuning.timed - before


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(36, 64), nn.Linear(64, 40, bias=False)

    def forward(self, x):
        y = self.second(self.first(x).relu())
        return y, torch.bmm(y.view(4, 12, 40), y.view(4, 40, 12))


def test_products_are_measured_once_and_results_are_equal():
    torch.manual_seed(0)
    model, x = Model(), torch.randn(48, 36)
    with torch.no_grad():
        expected = model(x)
    compiled = torch.compile(model.to(D), mode="max-autotune")

    def check():
        with torch.no_grad():
            for a, b in zip(compiled(x.to(D)), expected):
                torch.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=1e-5)

    assert count(check) == 3
    assert count(check) == 0
    assert count(check) == 0


def test_products_with_what_follows_them():
    torch.manual_seed(0)
    x, y, w, b = torch.randn(48, 36), torch.randn(48, 40), torch.randn(40, 36), torch.randn(40)

    def f(x, y, w, b):
        return torch.tanh(nn.functional.linear(x, w, b)) * y + 1

    compiled = torch.compile(f, mode="max-autotune")
    moved = [t.to(D) for t in (x, y, w, b)]
    with torch.no_grad():
        expected = f(x, y, w, b)
        assert count(lambda: compiled(*moved)) == 1
        torch.testing.assert_close(compiled(*moved).cpu(), expected, rtol=1e-4, atol=1e-4)
    assert len(kernels(lambda: compiled(*moved))) == 1


def test_gradients_are_measured_too():
    torch.manual_seed(0)
    model, x = nn.Linear(36, 24), torch.randn(20, 36)
    model(x).square().sum().backward()
    expected = model.weight.grad
    model = nn.Linear(36, 24).requires_grad_().to(D)
    torch.manual_seed(0)
    model.load_state_dict(nn.Linear(36, 24).state_dict())
    compiled = torch.compile(model, mode="max-autotune")
    for _ in range(2):
        model.zero_grad()
        compiled(x.to(D)).square().sum().backward()
    torch.testing.assert_close(model.weight.grad.cpu(), expected, rtol=1e-4, atol=1e-4)


def test_other_modes_measure_nothing():
    x = torch.randn(48, 36).to(D)
    for mode in (None, "reduce-overhead"):
        torch._dynamo.reset()
        compiled = torch.compile(lambda a: a @ a.t(), mode=mode)
        assert count(lambda: (compiled(x), compiled(x))) == 0


def test_the_option_for_products_alone():
    x = torch.randn(48, 36).to(D)
    compiled = torch.compile(lambda a: a @ a.t(), options={"max_autotune_gemm": True})
    assert count(lambda: compiled(x)) == 1


def test_the_next_process_finds_what_was_measured(monkeypatch):
    x = torch.randn(48, 36).to(D)

    def f(a):
        return a @ a.t()

    best, seen = tuning._best, []

    def noted(product):
        found = best(product)
        seen.append((found, choices(product, caps())))
        return found

    monkeypatch.setattr(tuning, "_best", noted)
    compiled = torch.compile(f, mode="max-autotune")
    assert count(lambda: compiled(x)) == 1
    [(found, among)] = seen
    assert found in among
    monkeypatch.setattr(tuning, "_found", {})
    torch._dynamo.reset()
    compiled = torch.compile(f, mode="max-autotune")
    assert count(lambda: torch.testing.assert_close(compiled(x), f(x), rtol=1e-5, atol=1e-5)) == 0
    assert list(tuning._known().values()) == [found]


def test_a_damaged_file_is_measured_again(monkeypatch):
    x = torch.randn(48, 36).to(D)
    torch.compile(lambda a: a @ a.t(), mode="max-autotune")(x)
    path = tuning._file()
    assert json.loads(path.read_text())
    path.write_text("{")
    monkeypatch.setattr(tuning, "_found", {})
    torch._dynamo.reset()
    assert count(lambda: torch.compile(lambda a: a @ a.t(), mode="max-autotune")(x)) == 1
    assert json.loads(path.read_text())


def test_eager_calls_keep_their_tiles(monkeypatch):
    """The measured kernel is the graph's: here the one that estimates like least."""
    monkeypatch.setattr(tuning, "_best", lambda product: choices(product, caps())[-1])
    x = torch.randn(48, 36).to(D)

    def f(a):
        return a @ a.t()

    eager = products(lambda: f(x))
    compiled = torch.compile(f, mode="max-autotune")
    compiled(x)
    chosen = products(lambda: compiled(x))
    torch.testing.assert_close(compiled(x), f(x), rtol=1e-5, atol=1e-5)
    assert chosen != eager and products(lambda: f(x)) == eager
    torch._dynamo.reset()
    assert products(lambda: torch.compile(f)(x)) == eager


def test_time_is_bounded(monkeypatch):
    monkeypatch.setattr(tuning, "SECONDS", 0.0)
    asked = []
    seconds = tuning._seconds
    monkeypatch.setattr(tuning, "_seconds", lambda work, operands: asked.append(work) or seconds(work, operands))
    x = torch.randn(48, 36).to(D)
    assert count(lambda: torch.compile(lambda a: a @ a.t(), mode="max-autotune")(x)) == 1
    assert len(asked) == 1


def test_sizes_that_change_are_measured_once():
    compiled = torch.compile(lambda a: a @ a.t(), mode="max-autotune", dynamic=True)

    def check(rows):
        x = torch.randn(rows, 36)
        torch.testing.assert_close(compiled(x.to(D)).cpu(), x @ x.t(), rtol=1e-5, atol=1e-5)

    assert count(lambda: check(48)) == 1
    assert count(lambda: [check(rows) for rows in (40, 52, 64, 40)]) == 0


def test_a_captured_region_measures_nothing():
    x = torch.randn(48, 36).to(D)
    compiled = torch.compile(lambda a: a @ a.t(), mode="max-autotune")
    compiled(x)
    graph = torch.webgpu.WebGPUGraph()
    with torch.webgpu.graph(graph):
        out = compiled(x)
    graph.replay()
    torch.testing.assert_close(out, x @ x.t(), rtol=1e-5, atol=1e-5)
