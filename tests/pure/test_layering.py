"""Who may import whom, read from the source: the layers of docs/architecture.md."""

import ast
from pathlib import Path

import pytest

import webgpu_backend

ROOT = Path(webgpu_backend.__file__).parent
PACKAGE = "webgpu_backend"

# layer -> what it must not import: outside packages by name, our own layers with a leading dot.
RULES = {
    "program": {"torch", "wgpu", ".runtime", ".kernels", ".ops", ".frontend", ".tensor", ".plan"},
    "dtypes": {"torch", "wgpu", ".runtime", ".kernels", ".ops", ".frontend", ".tensor", ".plan"},
    "env": {"torch", "wgpu", ".runtime", ".kernels", ".ops", ".frontend", ".tensor", ".plan"},
    "runtime": {"torch", ".kernels", ".ops", ".frontend", ".tensor", ".plan"},
    "kernels": {"torch", "wgpu", ".runtime", ".ops", ".frontend", ".tensor", ".plan"},
    "tensor": {"wgpu", ".ops", ".frontend", ".plan"},
    "plan": {"wgpu", ".ops", ".frontend"},
    "ops": {"wgpu", ".frontend"},
    "frontend": {"wgpu"},
}
# wgpu is reached through runtime/ only.
FILES = sorted(p for p in ROOT.rglob("*.py") if "__pycache__" not in p.parts)


def layer_of(path: Path) -> str:
    part = path.relative_to(ROOT).parts[0]
    return part.removesuffix(".py")


def imported(path: Path, root: Path = ROOT) -> set[str]:
    """Names of what a file imports, wherever in it: `torch`, `.ops`."""
    package = (PACKAGE, *path.relative_to(root).parts[:-1])
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {_name(tuple(a.name.split("."))) for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module or "").split(".")) if node.module else base
            if len(module) == 1 and module[0] == PACKAGE:
                found |= {_name((PACKAGE, a.name)) for a in node.names}
            else:
                found.add(_name(module))
    return found


def _name(parts: tuple[str, ...]) -> str:
    if parts[0] == PACKAGE:
        return "." + parts[1] if len(parts) > 1 else PACKAGE
    return parts[0]


def test_every_layer_has_a_rule():
    assert {layer_of(p) for p in FILES} <= RULES.keys() | {"__init__", "__main__"}
    assert len(FILES) > 20


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports(path):
    forbidden = imported(path) & RULES.get(layer_of(path), set())
    assert not forbidden, f"{path.relative_to(ROOT)} must not import {sorted(forbidden)}"


def test_the_reader_sees_through_every_form(tmp_path):
    (tmp_path / "kernels").mkdir()
    path = tmp_path / "kernels" / "x.py"
    path.write_text(
        "import torch.nn\nfrom wgpu.backends import x\nfrom .. import tensor\nfrom ..ops.table import y\n"
        "from . import layout\ndef f():\n    from ..frontend import z\n"
    )
    assert imported(path, tmp_path) == {"torch", "wgpu", ".tensor", ".ops", ".kernels", ".frontend"}


def test_names_and_sizes():
    for path in FILES:
        assert path.stem not in {"utils", "util", "helpers", "helper", "manager", "misc", "common"}, path
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines <= 600, f"{path.relative_to(ROOT)} has {lines} lines: split it by family"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert ast.get_docstring(tree), f"{path.relative_to(ROOT)} does not say what it is for"


def test_importing_makes_no_device():
    """Device creation waits for the first tensor: it costs most of a second."""
    import subprocess
    import sys

    code = "import webgpu_backend\nfrom webgpu_backend.runtime import gpu\nassert not gpu.is_initialized()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, env=_environment())


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT.parent), os.environ.get("PYTHONPATH", "")])}
