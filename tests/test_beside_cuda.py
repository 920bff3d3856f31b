"""CUDA and the device in one process, on machines that have both."""

import os
import subprocess
import sys
import textwrap

from tests import needs
from tests.conftest import VISIBLE

COUNT = "import torch; print(torch.cuda.device_count())"
BOTH = """
    import torch, webgpu_backend

    a = torch.randn(5, 7)
    cuda, ours = a.to("cuda"), a.to("webgpu")
    assert torch.equal((cuda * 2).to("webgpu").cpu(), (ours * 2).cpu())
    assert torch.equal((ours + 1).to("cuda").cpu(), a + 1)
    x = ours.clone().requires_grad_()
    (x * x).sum().backward()
    assert torch.equal(x.grad.cpu(), 2 * a)
    y = cuda.clone().requires_grad_()
    try:
        (y * y).sum().backward()
        print("differentiated")
    except RuntimeError as error:
        assert "webgpu: torch takes a device" in str(error), error
        print("told")
    x.grad = None
    (x * 3).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.full_like(a, 3))
"""


def run(code: str) -> subprocess.CompletedProcess:
    env = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    env |= {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"} | ({} if VISIBLE is None else {"CUDA_VISIBLE_DEVICES": VISIBLE})
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300,
                          env=env)  # fmt: skip


def test_both():
    if run(COUNT).stdout.strip() in ("", "0"):
        needs.missing("torch sees no CUDA device here: run on a machine with an NVIDIA GPU and torch's CUDA build")
    done = run(BOTH)
    assert done.returncode == 0 and done.stdout.strip() in ("told", "differentiated"), done.stdout + done.stderr
    assert "take a process for each" in done.stderr
