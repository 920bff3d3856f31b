"""A command that the adapter refuses takes nothing innocent with it, and what it should have made is known as lost."""

import gc

import pytest
import torch

from webgpu_backend.plan import launch
from webgpu_backend.program import Program, Step
from webgpu_backend.runtime.errors import DeviceError
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"
TEXT = """
    @group(0) @binding(0) var<storage, read> a: array<f32>;
    @group(0) @binding(1) var<storage, read_write> o: array<f32>;
    @compute @workgroup_size(1)
    fn main() { o[0] = a[0]; }
"""
FILL = """
    @group(0) @binding(0) var<storage, read_write> o: array<f32>;
    @compute @workgroup_size(1)
    fn main() { o[0] = 1.0; }
"""


def spoil(tensor) -> None:
    """Records what no adapter accepts: more workgroups than a dimension holds."""
    launch(Step(Program("too_many", FILL, "w", 0), b"", (gpu().caps.max_groups + 1, 1, 1)), tensor)


@pytest.fixture(autouse=True)
def long_batches(monkeypatch):
    """So that everything of a test is in one batch."""
    torch.webgpu.synchronize()
    monkeypatch.setattr(gpu().queue, "first_large", 1 << 62)
    monkeypatch.setattr(gpu().queue, "first_span", 1e9)
    gpu().queue._wait()
    gpu().queue.limit = 256


def raised_once():
    with pytest.raises(DeviceError, match="refused 1 of .* commands .too_many., the others are done"):
        torch.webgpu.synchronize()
    torch.webgpu.synchronize()
    gpu().queue.limit = 256


def test_the_others_are_computed():
    t, w = torch.arange(5.0).to(D), torch.ones(5, device=D)
    spoiled = torch.zeros(5, device=D)
    u = t + 41
    w.add_(1)
    v = torch.arange(5.0, device=D) * 3
    spoil(spoiled)
    w.mul_(5)
    after = v + u
    raised_once()
    assert u.tolist() == [41, 42, 43, 44, 45] and w.tolist() == [10] * 5 and v.tolist() == [0, 3, 6, 9, 12]
    assert after.tolist() == [41, 45, 49, 53, 57]


def test_a_read_of_something_else_raises_once():
    spoiled, u = torch.zeros(5, device=D), torch.arange(3.0).to(D) + 1
    spoil(spoiled)
    with pytest.raises(DeviceError, match="too_many"):
        u.tolist()
    assert u.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.cpu(), lambda x: x[1:].tolist(), lambda x: x + 1, lambda x: x.add_(1), lambda x: x.view(5, 1).sum(),
        lambda x: x.clone(), lambda x: x.copy_(torch.ones(5)), lambda x: x.zero_(), lambda x: x.resize_(100_000),
        lambda x: torch.cat([torch.ones(2, device=D), x]), lambda x: torch._foreach_add([x], 1.0),
        lambda x: torch.zeros(5, device=D).copy_(x), lambda x: torch.exp(x, out=torch.empty(5, device=D)),
    ],
)  # fmt: skip
def test_every_use_of_what_is_lost_raises(use):
    spoiled = torch.zeros(5, device=D)
    later = torch.empty_like(spoiled)
    spoil(spoiled)
    later.copy_(spoiled)  # made of what is lost
    raised_once()
    for tensor in (spoiled, later):
        for _ in range(2):
            with pytest.raises(DeviceError, match="is lost: the adapter refused the kernel too_many"):
                use(tensor)
    torch.webgpu.synchronize()


def test_memory_that_was_lost_serves_again():
    gc.collect()
    torch.webgpu.synchronize()
    torch.webgpu.empty_cache()
    before = torch.webgpu.memory_allocated()
    lost = [torch.zeros(1000 + k, device=D) for k in range(20)]
    for x in lost:
        spoil(x)
    with pytest.raises(DeviceError, match="refused 20 of"):
        torch.webgpu.synchronize()
    reserved = torch.webgpu.memory_reserved()
    del lost, x
    gc.collect()
    assert torch.webgpu.memory_allocated() == before
    for _ in range(3):
        found = [torch.full((1000 + k,), float(k), device=D) for k in range(20)]
        assert all(x.eq(k).all() for k, x in enumerate(found))
        del found
    assert torch.webgpu.memory_reserved() <= reserved + 8192


def test_blocks_that_changed_hands_in_the_batch():
    """The same memory first belongs to what is refused, then to others."""
    results = []
    for k in range(12):
        spoil(torch.empty(64, device=D))  # freed at once: what follows gets its block
        results.append(torch.full((64,), float(k), device=D) * 2)
    with pytest.raises(DeviceError, match="refused 12 of"):
        torch.webgpu.synchronize()
    for k, x in enumerate(results):
        assert x.eq(2 * k).all()


def test_uploads_copies_and_clears_of_a_refused_batch():
    x = torch.arange(8.0).to(D)
    y = x + 1
    x.copy_(torch.full((8,), 7.0))  # staged in the batch: the line above reads the block
    z = x.clone()
    z[2:4].zero_()
    spoil(torch.zeros(3, device=D))
    x.copy_(torch.full((8,), 9.0))
    total = (x + z).sum()
    raised_once()
    assert y.tolist() == [1, 2, 3, 4, 5, 6, 7, 8] and x.tolist() == [9] * 8
    assert z.tolist() == [7, 7, 0, 0, 7, 7, 7, 7] and total.item() == 72 + 42


def test_random_numbers_of_a_refused_batch_are_those_of_the_seed():
    torch.webgpu.manual_seed(3)
    want = torch.rand(10, device=D).cpu()
    torch.webgpu.manual_seed(3)
    got = torch.rand(10, device=D)
    spoil(torch.zeros(3, device=D))
    raised_once()
    assert torch.equal(got.cpu(), want)


def test_a_training_step_with_something_refused_in_the_middle():
    torch.manual_seed(0)
    host = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
    ours = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
    ours.load_state_dict(host.state_dict())
    ours.to(D)
    x = torch.randn(7, 6)
    for model, data in ((host, x), (ours, x.to(D))):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            if model is ours:
                spoil(torch.zeros(4, device=D))
            optimizer.step()
    with pytest.raises(DeviceError, match="the others are done"):
        torch.webgpu.synchronize()
    for a, b in zip(host.parameters(), ours.parameters()):
        torch.testing.assert_close(b.detach().cpu(), a.detach(), rtol=1e-4, atol=1e-5)


def test_large_copies_after_something_refused():
    large = torch.arange(3 << 20, dtype=torch.float32)
    x = large.to(D)
    y = x + 1
    spoil(torch.zeros(3, device=D))
    with pytest.raises(DeviceError, match="too_many"):
        y.cpu()
    assert torch.equal(y.cpu(), large + 1)
    spoil(torch.zeros(3, device=D))
    z = large.to(D)
    raised_once()
    assert torch.equal(z.cpu(), large)


def test_one_buffer_read_and_written_is_refused_at_the_call():
    u, w = torch.arange(5.0).to(D) + 41, torch.zeros(5, device=D)
    with pytest.raises(DeviceError, match="read_both: one tensor would be read and written by two bindings"):
        launch(Step(Program("read_both", TEXT, "rw", 0), b"", (1, 1, 1)), w, w)
    torch.webgpu.synchronize()
    assert u.tolist() == [41, 42, 43, 44, 45] and w.tolist() == [0] * 5


def test_user_kernels_are_checked_before_they_are_recorded():
    kernel = torch.webgpu.compile_shader(TEXT).main
    u = torch.arange(5.0).to(D) + 41
    with pytest.raises(ValueError, match=r"a is read and o is written, but both lie in the same storage; pass a.clone"):
        kernel(u, u)
    with pytest.raises(ValueError, match="same storage"):
        kernel(u.view(5, 1), u)
    kernel(u[1:], u)  # a copy is read
    assert u.tolist() == [42, 42, 43, 44, 45]
    kernel(u.clone(), u)
    torch.webgpu.synchronize()


def test_user_kernels_that_want_larger_tensors():
    kernel = torch.webgpu.compile_shader(TEXT.replace("array<f32>", "array<vec4<f32>>")).main
    u, y = torch.arange(5.0).to(D) + 41, torch.ones(4, device=D)
    for _ in range(2):
        with pytest.raises(DeviceError, match=r"user_main[\s\S]*bound with size 4 where the shader expects 16"):
            kernel(u[:1].clone(), y)
    assert y.tolist() == [1] * 4 and u.tolist() == [41, 42, 43, 44, 45]
    kernel(u, y)
    submits = gpu().queue.submits
    kernel(u, y)  # as large as what was accepted: recorded with the rest
    assert gpu().queue.submits == submits
    assert y.tolist() == [41, 42, 43, 44]


def test_the_log_stays_short_where_nothing_is_recorded(monkeypatch):
    pool, log = gpu().pool, gpu().queue.log
    torch.webgpu.synchronize()
    monkeypatch.setattr("webgpu_backend.runtime.buffers.MOST_MARKS", 100)
    monkeypatch.setattr(pool, "tidy_at", pool.allocations + 100)
    for recorded in (False, True):
        kept = torch.arange(3.0, device=D) + 1 if recorded else None
        for _ in range(450):
            torch.empty(3, device=D)
        assert len(log) <= 110
    assert kept.tolist() == [1, 2, 3]
