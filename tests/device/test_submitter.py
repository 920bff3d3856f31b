"""Full batches are submitted by a thread of their own: nothing may show of that but the time."""

import subprocess
import sys
import threading

import pytest
import torch

import webgpu_backend
from webgpu_backend.runtime.gpu import gpu
from webgpu_backend.runtime.queue import LARGEST_BATCH

D = "webgpu"


@pytest.fixture
def queue():
    queue = gpu().queue
    queue.synchronize()
    before, queue.hands_over = queue.hands_over, True
    yield queue
    queue.synchronize()
    queue.hands_over = before


def add(x, count):
    for _ in range(count):
        x = x + 1
    return x


def test_results_and_counts(queue):
    x = torch.zeros(16, device=D)
    queue.synchronize()
    before = webgpu_backend.stats()
    y = add(x, 5 * LARGEST_BATCH)
    after = webgpu_backend.stats()
    assert after["dispatches"] - before["dispatches"] == 5 * LARGEST_BATCH
    assert 4 <= after["submits"] - before["submits"] <= 9
    assert torch.equal(y.cpu(), torch.full((16,), 5.0 * LARGEST_BATCH))


def test_uploads_stay_behind_batches_that_wait(queue):
    """An upload must not overtake a batch that is handed over but not submitted."""
    x = torch.zeros(64, device=D)
    for i in range(6):
        x.copy_(torch.full((64,), float(i)))
        kept = x + 0.5
        add(torch.ones(4, device=D), LARGEST_BATCH + 7)  # fills a batch that holds the addition above
        x.copy_(torch.full((64,), -1.0))
        assert torch.equal(kept.cpu(), torch.full((64,), i + 0.5))


def test_freed_memory_is_reused_in_order(queue):
    total = torch.zeros(1000, device=D)
    for i in range(700):
        total += torch.full((1000,), float(i % 7), device=D)
    assert torch.equal(total.cpu(), torch.full((1000,), float(sum(i % 7 for i in range(700)))))


def test_a_failure_is_raised_at_the_next_wait(queue, monkeypatch):
    if not queue.caps.immediate_bytes:
        pytest.skip("batches with a uniform ring are submitted at once")
    real, failing = queue._submitter._submit, True

    def submit(encoder, batch):
        nonlocal failing
        real(encoder, batch)
        if failing:
            failing = False
            raise RuntimeError("the device refused")

    monkeypatch.setattr(queue._submitter, "_submit", submit)
    with pytest.raises(RuntimeError, match="the device refused"):
        add(torch.zeros(4, device=D), 2 * LARGEST_BATCH)
        queue.synchronize()
    assert add(torch.zeros(4, device=D), 3).sum().item() == 12


def test_many_threads(queue):
    failures = []

    def work(k):
        try:
            x = torch.full((8,), float(k), device=D)
            for i in range(3):
                x = add(x, 150)
                assert torch.equal(x.cpu(), torch.full((8,), k + 150.0 * (i + 1)))
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=60)
        assert not t.is_alive(), "a thread hangs"
    assert not failures, failures


def test_a_process_may_end_while_batches_wait():
    code = (
        "import torch, webgpu_backend; from webgpu_backend.runtime.gpu import gpu\n"
        "x = torch.zeros(4, device='webgpu'); gpu().queue.hands_over = True\n"
        "for _ in range(2000): x = x + 1\n"
        "print('ended')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip().endswith("ended") and "Fatal" not in done.stderr


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork here")
def test_a_forked_child_does_not_wait_for_the_thread():
    code = (
        "import os, torch, webgpu_backend; from webgpu_backend.runtime.gpu import gpu\n"
        "x = torch.zeros(4, device='webgpu'); gpu().queue.hands_over = True\n"
        "for _ in range(600): x = x + 1\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try: x + 1\n"
        "    except RuntimeError as e: os._exit(7 if 'forked' in str(e) else 8)\n"
        "    os._exit(9)\n"
        "assert os.waitpid(pid, 0)[1] >> 8 == 7\n"
        "assert (x + 1).sum().item() == 4 * 601"
    )
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
