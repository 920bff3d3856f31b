"""The examples of CONTRIBUTING.md, put into a copy of the package and run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import webgpu_backend

PACKAGE = Path(webgpu_backend.__file__).parent
GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"


def examples() -> dict[str, str]:
    """Blocks of code whose first line names a file."""
    blocks = re.findall(r"```(?:python|wgsl)\n(?:#|//) (\S+)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    return dict(blocks)


def test_examples(tmp_path):
    found = examples()
    assert len(found) == 5
    shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in found.items():
        path = tmp_path / (name if name == "example.py" else f"{PACKAGE.name}/{name}")
        assert path.parent.is_dir() and not path.exists()
        path.write_text(text, encoding="utf-8")
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path[1:]]),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, env=env, capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    assert done.returncode == 0 and done.stdout == "examples pass\n", done.stdout + done.stderr
