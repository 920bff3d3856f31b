"""What a user gets: the entry point, the README's own words, the demo."""

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(code: str, folder: Path = ROOT) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=folder)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.skipif(
    not any(e.name == "webgpu" for e in entry_points(group="torch.backends")),
    reason="the package is on the path, not installed: there is no entry point to load",
)
def test_import_torch_alone_makes_the_device_available():
    assert run("import torch; print((torch.ones(2, device='webgpu') + 1).cpu().tolist())").strip() == "[2.0, 2.0]"


def test_readme_examples_run(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert len(blocks) >= 2
    output = run(blocks[0], tmp_path)
    assert output.splitlines() == ["webgpu:0", "torch.Size([10, 10, 10])"]
    for block in blocks[1:]:
        run("import torch, webgpu_backend\n" + block, tmp_path)


def test_mnist_demo_reaches_its_accuracy():
    result = subprocess.run([sys.executable, "-m", "mnist.run"], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    accuracy = re.search(r"(\d+(?:\.\d+)?)\s*%", result.stdout)
    assert accuracy and float(accuracy.group(1)) >= 95.0, result.stdout
