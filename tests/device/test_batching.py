"""The runtime's promises, counted: dispatches, submits, compilations, bind groups, memory."""

import gc
import time

import pytest
import torch
import torch.nn.functional as F

import webgpu_backend
from webgpu_backend.runtime import loop
from webgpu_backend.runtime import queue as runtime_queue
from webgpu_backend.runtime.gpu import gpu


def counted(f, *keys):
    before = webgpu_backend.stats()
    f()
    after = webgpu_backend.stats()
    return tuple(after[k] - before[k] for k in keys)


def test_add_is_one_dispatch():
    a, b = torch.rand(5, 7, device="cpu").to("webgpu"), torch.rand(5, 7).to("webgpu")
    a + b
    assert counted(lambda: a + b, "dispatches") == (1,)
    assert counted(lambda: a.add_(b), "dispatches") == (1,)
    assert counted(lambda: a + b.t().contiguous().t(), "dispatches") == (2,)
    assert counted(lambda: a[:, 1:4] + b[:, 2:5], "dispatches") == (1,)


def test_views_dispatch_nothing():
    a = torch.rand(4, 6).to("webgpu")
    keys = ("dispatches", "submits", "allocations")
    assert counted(lambda: a.t()[1:3], *keys) == (0, 0, 0)
    assert counted(lambda: a.view(24).view(2, 12).unsqueeze(1).expand(2, 3, 12), *keys) == (0, 0, 0)


def test_operations_run_on_the_device():
    """The prototype's operations make buffers and run shaders."""
    a = torch.rand(6, 6).to("webgpu")
    gc.collect()  # what other tests left must not die between the counts
    for f in (lambda: a + a, lambda: a * a, lambda: a @ a, lambda: a.relu(), lambda: a.argmax(),
              lambda: a.argmax(1, keepdim=True), lambda: a.softmax(-1), lambda: a.log_softmax(0)):  # fmt: skip
        keep = []
        dispatches, live = counted(lambda f=f: keep.append(f()), "dispatches", "buffers_live")
        assert dispatches >= 1 and live == 1
        assert keep[0].device == torch.device("webgpu:0")


def test_chained_adds_are_few_submits():
    a = torch.arange(16.0).to("webgpu")  # sums of it are exact
    torch.webgpu.synchronize()

    def chain():
        x = a
        for _ in range(100):
            x = x + a
        chain.result = x

    chain()
    torch.webgpu.synchronize()
    dispatches, submits = counted(chain, "dispatches", "submits")
    assert dispatches == 100 and submits <= 5
    torch.testing.assert_close(chain.result.cpu(), a.cpu() * 101)


def test_a_large_dispatch_is_submitted_at_once(monkeypatch):
    """So that a GPU does not idle while the next calls are recorded; the batches after it are 4, 8, 12 and so on."""
    a = torch.rand(64).to("webgpu")
    torch.webgpu.synchronize()
    monkeypatch.setattr(gpu().queue, "large", 1)
    monkeypatch.setattr(gpu().queue, "span", 1e9)
    ends = []
    for i in range(1, 45):
        if counted(lambda: a + a, "submits") == (1,):
            ends.append(i)
    assert ends == [1, 5, 13, 25, 41]
    torch.webgpu.synchronize()
    queue = gpu().queue
    assert (queue.large, queue.limit, queue.more) == (queue.first_large, runtime_queue.FIRST_BATCH, 0)


def test_calls_that_take_long_are_not_waited_for(monkeypatch):
    a = torch.rand(64).to("webgpu")
    torch.webgpu.synchronize()
    monkeypatch.setattr(gpu().queue, "span", 0.02)
    assert counted(lambda: a + a, "submits") == (0,)
    time.sleep(0.03)
    assert counted(lambda: a + a, "submits") == (1,)
    torch.webgpu.synchronize()
    assert gpu().queue.span == gpu().queue.first_span


@pytest.mark.parametrize("spin", [0.0, 10.0])
def test_a_wait_asks_before_it_sleeps(monkeypatch, spin):
    asked, poll, is_idle = [], runtime_queue._poll, loop.is_idle

    def counted_poll(device, wait, index):
        asked.append(wait)
        return poll(device, wait, index)

    def counted_question(device, times):
        asked.append(0)
        return is_idle(device, times)

    monkeypatch.setattr(runtime_queue, "_poll", counted_poll)
    monkeypatch.setattr(loop, "is_idle", counted_question)
    monkeypatch.setattr(gpu().queue, "spin", spin)
    a = torch.rand(256, 256)
    x = a.to("webgpu")
    assert abs((x @ x).sum().item() - (a @ a).sum().item()) < 10
    assert torch.equal((x + x).cpu(), a + a)
    assert (1 in asked) <= (spin == 0.0) and 0 in asked


def test_a_new_shape_compiles_nothing():
    def run(n, m):
        x = torch.rand(n, m).to("webgpu")
        return ((x + 1) * x.t().contiguous().t() + x[0]).cpu()

    for n, m in ((12, 8), (12, 9), (13, 8), (13, 9)):  # whole vectors of four along either dimension, or not
        run(n, m)
    for n, m in ((16, 12), (20, 4), (11, 7), (9, 11), (15, 4), (24, 5)):
        assert counted(lambda n=n, m=m: run(n, m), "pipelines_compiled") == (0,)


def training(steps):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to("webgpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.rand(8, 12).to("webgpu"), (torch.arange(8) % 4).to("webgpu")

    def step():
        optimizer.zero_grad()
        loss = F.nll_loss(F.log_softmax(model(x), 1), y)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(steps):
        step()
    return step


def test_a_second_run_makes_nothing_new():
    step = training(5)

    def loop():
        for _ in range(5):
            step()

    assert counted(loop, "pipelines_compiled", "bind_groups_created") == (0, 0)


def test_a_thousand_steps_leave_memory_flat():
    step = training(10)
    torch.webgpu.synchronize()
    gc.collect()
    before = webgpu_backend.stats()
    for _ in range(1000):
        step()
    torch.webgpu.synchronize()
    gc.collect()
    after = webgpu_backend.stats()
    for key in ("bytes_live", "buffers_live", "bytes_pooled"):
        assert after[key] == before[key], key


def test_uploads_keep_order_without_a_flush():
    """An upload into a buffer that recorded work reads must not overtake it."""
    x = torch.zeros(1000).to("webgpu")
    torch.webgpu.synchronize()
    results = []

    def loop():
        for i in range(10):
            x.copy_(torch.full((1000,), float(i)))
            results.append(x + 0.5)

    (submits,) = counted(loop, "submits")
    assert submits <= 2
    for i, r in enumerate(results):
        assert torch.equal(r.cpu(), torch.full((1000,), i + 0.5))


def test_large_uploads_keep_order():
    x = torch.zeros(1 << 20).to("webgpu")
    y = x + 1
    x.copy_(torch.full((1 << 20,), 7.0))
    z = x + 1
    assert y.cpu().max() == 1 and z.cpu().min() == 8


def test_import_touches_no_adapter():
    import subprocess
    import sys

    code = (
        "import torch, webgpu_backend; from webgpu_backend.runtime import gpu; "
        "assert not gpu.is_initialized(); assert webgpu_backend.stats()['dispatches'] == 0; torch.device('webgpu')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
