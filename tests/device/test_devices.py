"""Several devices in one process, in processes of their own: two of this machine's one adapter, by WEBGPU_DEVICES."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*arguments: str, **environment: str) -> str:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=600,
                          env={**inherited, "WEBGPU_DEVICES": "2", **environment})  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


def test_two_devices():
    assert " passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/device/_two_devices.py")


# Which device is opened first, and is alone for a while, must not matter.
FIRST = """
import torch, webgpu_backend
{first}
x = torch.arange(4.0, device="webgpu")
assert x.device.index == {index}, x.device
y = torch.tensor([1.0], device="webgpu") + torch.ones(1).to("webgpu")
assert y.device.index == torch.webgpu.current_device() == {index}
assert (x * 2 + y).tolist() == [2.0, 4.0, 6.0, 8.0] and torch.rand(3, device="webgpu").device.index == {index}
for other in (0, 1):
    z = torch.arange(4.0, device=f"webgpu:{{other}}")
    assert z.device.index == other and (z * 2).tolist() == [0.0, 2.0, 4.0, 6.0]
assert (x * 2 + y).tolist() == [2.0, 4.0, 6.0, 8.0] and (x + 1).device.index == {index}
"""


@pytest.mark.parametrize(
    "first, index, rank",
    [("torch.webgpu.set_device(1)", 1, ""), ("", 1, "1"), ("torch.webgpu.set_device(0)", 0, "1"),
     ("torch.ones(1, device='webgpu:1')", 0, ""), ("torch.webgpu.set_device(3)", 1, "3")],
)  # fmt: skip
def test_the_first_device(first, index, rank):
    run("-c", FIRST.format(first=first, index=index), LOCAL_RANK=rank)


# Threads are in the middle of calls when the second device is opened, and switch as often as they can.
OPENED_LATER = """
import sys, threading, time, torch, webgpu_backend
sys.setswitchinterval(1e-5)
base = torch.randn(16, 16)

def steps(b):
    a = b.clone()
    for k in range(12):
        a = torch.softmax(a @ b * 0.5 + k, -1)
    return torch.cat([a, torch.zeros(1, 16, device=b.device)]).add_(1)

expected, counts, stop = steps(base), [0, 0, 0], False

def work(i, device):
    b = base.to(device)
    while not stop:
        assert torch.allclose(steps(b).cpu(), expected, atol=1e-5)
        counts[i] += 1

threads = [threading.Thread(target=work, args=(i, "webgpu:0")) for i in range(2)]
for t in threads:
    t.start()
while not all(counts[:2]) and all(t.is_alive() for t in threads):
    time.sleep(0.1)
threads.append(threading.Thread(target=work, args=(2, "webgpu:1")))
threads[2].start()
before, start = counts[0], time.time()
while counts[2] < 20 and time.time() < start + 120:
    time.sleep(0.1)
stop = True
for t in threads:
    t.join()
assert counts[2] >= 20 and counts[0] > before, counts
"""


def test_a_device_that_is_opened_while_threads_use_another():
    assert "Exception" not in run("-c", "import sys; sys.stderr = sys.stdout\n" + OPENED_LATER)


# A plan that another thread makes while the second device is being opened, just after all had been told of it.
PLANNED_MEANWHILE = """
import threading, torch, webgpu_backend
from webgpu_backend.runtime import gpu
x = torch.randn(3, 5, device="webgpu:0")

def meanwhile():
    thread = threading.Thread(target=lambda: torch.cat([x * 2, x.flip(0)]).cumsum(1))
    thread.start()
    thread.join()

gpu.on_several.append(meanwhile)
y = torch.arange(6.0).to("webgpu:1")
assert torch.equal((y * 2 + 1).cpu(), torch.arange(6.0) * 2 + 1)
assert torch.equal((x + 1).cpu(), x.cpu() + 1)
"""


def test_a_plan_that_is_made_while_a_device_is_opened():
    run("-c", PLANNED_MEANWHILE)
