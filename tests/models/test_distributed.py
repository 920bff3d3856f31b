"""torch.distributed over gloo with device tensors, in two and in four processes under torchrun."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
    reason="this torch is built without gloo",
)


def test_processes():
    """One launch for all of it: most of the time goes into starting processes and compiling their kernels."""
    path = os.pathsep.join(p for p in (str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH")) if p)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"]
    result = subprocess.run(
        [*command, "-m", "tests.models._ranks"],
        capture_output=True,
        text=True,
        timeout=400,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "WEBGPU_FALLBACK": "error", "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stderr[-6000:]
    assert result.stdout.count("rank done") == 4


def test_one_process_group_in_this_process(tmp_path):
    """A group of one: what is returned and where, without a second process."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        t = torch.arange(4.0, device="webgpu").requires_grad_()
        with torch.no_grad():
            work = torch.distributed.all_reduce(t, async_op=True)
        work.wait()
        assert work.is_completed() and t.cpu().tolist() == [0, 1, 2, 3]
        (result,) = work.get_future().value()
        assert result.device.type == "webgpu" and result.data_ptr() == t.data_ptr()
    finally:
        torch.distributed.destroy_process_group()
