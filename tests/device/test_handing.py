"""Batches that another thread ends and submits: in order, nothing lost, and errors where somebody waits."""

import os
import signal
import subprocess
import sys
import textwrap
from threading import Thread

import pytest
import torch

from tests import needs
from webgpu_backend.program import Program, Step
from webgpu_backend.runtime import handing as module
from webgpu_backend.runtime.errors import DeviceError
from webgpu_backend.runtime.gpu import gpu

D = "webgpu"
FILL = """
    @group(0) @binding(0) var<storage, read_write> o: array<f32>;
    @compute @workgroup_size(1)
    fn main() { o[0] = 1.0; }
"""


@pytest.fixture(autouse=True)
def handing(monkeypatch):
    """Every four dispatches are a batch of their own, which is handed over; those with a ring are not."""
    needs.limit("immediate_bytes", 128)
    torch.webgpu.synchronize()
    queue = gpu().queue
    monkeypatch.setattr(queue, "hands_over", True)
    monkeypatch.setattr(queue, "grow", lambda: None)
    queue.limit = 4
    yield queue
    torch.webgpu.synchronize()
    assert not queue._hand.waiting


def short_batches():
    gpu().queue.limit = 4


def spoil(tensor) -> None:
    """Records what no adapter accepts: more workgroups than a dimension holds."""
    from webgpu_backend.plan import launch

    launch(Step(Program("too_many", FILL, "w", 0), b"", (gpu().caps.max_groups + 1, 1, 1)), tensor)


def test_they_are_submitted_in_order(handing):
    x = torch.zeros(100, device=D)
    before = handing.submits
    for i in range(400):
        x.mul_(0.5).add_(i % 7)
    host = torch.zeros(100)
    for i in range(400):
        host.mul_(0.5).add_(i % 7)
    assert handing.submits - before >= 199
    assert torch.equal(x.cpu(), host)


def test_uploads_and_reads_come_in_between():
    x, host = torch.zeros(300, device=D), torch.zeros(300)
    for i in range(30):
        short_batches()
        for _ in range(9):
            x.add_(1)
            host.add_(1)
        values = torch.full((100,), float(i))
        x[100:200].copy_(values)
        host[100:200].copy_(values)
        if i % 3 == 0:
            assert torch.equal(x.cpu(), host)
    assert torch.equal(x.cpu(), host)


def test_what_is_refused_takes_nothing_with_it():
    t, w = torch.arange(5.0).to(D), torch.ones(5, device=D)
    spoiled, later = torch.zeros(5, device=D), torch.zeros(5, device=D)
    torch.webgpu.synchronize()
    short_batches()
    u = t + 41
    spoil(spoiled)
    for _ in range(50):  # batches that are recorded behind it
        w.add_(1)
        later.add_(u)
    with pytest.raises(DeviceError, match="too_many"):
        torch.webgpu.synchronize()
    torch.webgpu.synchronize()
    assert u.tolist() == [41, 42, 43, 44, 45] and w.tolist() == [51] * 5
    assert later.tolist() == [50 * v for v in u.tolist()]
    with pytest.raises(DeviceError, match="lost"):
        spoiled.tolist()


def test_several_are_refused():
    x = torch.zeros(5, device=D)
    torch.webgpu.synchronize()
    short_batches()
    for _ in range(5):
        spoil(torch.zeros(5, device=D))
        for _ in range(10):
            x.add_(1)
    with pytest.raises(DeviceError, match="too_many"):
        torch.webgpu.synchronize()
    torch.webgpu.synchronize()
    assert x.tolist() == [50] * 5


def test_more_batches_than_may_wait(handing):
    x = torch.zeros(5, device=D)
    for _ in range(40 * module.MOST_WAITING):
        x.add_(1)
        assert len(handing._hand.waiting) <= module.MOST_WAITING
    assert x.tolist() == [40.0 * module.MOST_WAITING] * 5


def test_threads_record_while_batches_wait():
    found = []

    def work(k):
        x = torch.full((50,), float(k), device=D)
        for _ in range(100):
            x = x + 1
        found.append((k, x.tolist()))

    threads = [Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(found) == [(k, [k + 100.0] * 50) for k in range(4)]


def test_interrupts_lose_no_batch():
    x = torch.zeros(5, device=D)
    count = gpu().queue.dispatches

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for turn in range(100):
            try:
                short_batches()
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + turn * 2e-5)
                for _ in range(100):
                    x.add_(1)
                torch.webgpu.synchronize()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except TimeoutError:
                pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    count = gpu().queue.dispatches - count
    assert x.tolist() == [count] * 5 and count > 100


def test_a_process_ends_and_forks_with_batches_waiting():
    if not hasattr(os, "fork"):
        needs.missing("this system has no fork")
    script = """
        import os, warnings
        import torch, webgpu_backend
        from webgpu_backend.runtime.gpu import gpu
        warnings.simplefilter("ignore")
        x = torch.zeros(5, device="webgpu")
        gpu().queue.hands_over = True
        for _ in range(200):
            x.add_(1)
        pid = os.fork()
        if not pid:
            try:
                x.tolist()
            except Exception as error:
                print("child:", type(error).__name__, flush=True)
            os._exit(0)  # as multiprocessing ends them: some drivers' exit handlers do not expect a child
        print("status", os.waitpid(pid, 0)[1], x.tolist(), flush=True)
        for _ in range(200):
            x.add_(1)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "child:" in done.stdout and "status 0 [200.0, 200.0, 200.0, 200.0, 200.0]" in done.stdout
