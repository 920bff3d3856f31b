"""Exported models under Node: Dawn, the WebGPU of Chromium, on its software driver or on Mesa's."""

import json
import os
import subprocess
from pathlib import Path

import torch

from tests import needs


def calls(site: Path, *wanted: dict, kind: str = "cpu") -> list[dict[str, torch.Tensor]]:
    """The outputs of calls: {"function": name, "inputs": {name: tensor}, "repeat": times}, as flat tensors."""
    return tensors(answer(site, *wanted, kind=kind))


def tensors(found: dict) -> list[dict[str, torch.Tensor]]:
    assert "error" not in found, found
    return [{name: torch.tensor([float(x) for x in data]) for name, data in one.items()} for one in found["outputs"]]


def answer(site: Path, *wanted: dict, kind: str = "cpu", driver: str | None = None) -> dict:
    """What the model says: outputs, features, timing and memory, or an error and its code."""
    dawn = needs.node() if driver else needs.dawn()
    given = [{**call, "inputs": {k: _numbers(v) for k, v in call["inputs"].items()}} for call in wanted]
    file = site / "calls.json"
    file.write_text(json.dumps(given))
    script = Path(__file__).with_name("node_run.mjs")
    environment = {
        **os.environ, "VK_ICD_FILENAMES": driver or dawn["driver"], "XDG_RUNTIME_DIR": os.fspath(site),
        "WEB_CLASS": kind,
    }  # fmt: skip
    done = subprocess.run(
        [dawn["node"], script, dawn["package"], site, file], capture_output=True, text=True, env=environment,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def _numbers(value) -> list:
    return value.detach().cpu().flatten().tolist() if isinstance(value, torch.Tensor) else value
