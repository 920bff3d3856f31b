"""Every replacement in other people's code, and every private name of theirs, is a row of `frontend/patches.py`.

The source is read for what it assigns to and for what it names; a process is looked at before and after everything is
installed, for what has really changed; and each row is compared with the releases that are installed.
"""

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import webgpu_backend
from tests import needs
from webgpu_backend.frontend import patches
from webgpu_backend.frontend.patches import MOMENTS, ROWS, Row, find

ROOT = Path(webgpu_backend.__file__).parent
PACKAGES = {"torch", "wgpu", "cffi", "functorch", "transformers", "accelerate", "lightning", "pytorch_lightning",
            "lightning_fabric", "safetensors", "torchao", "signal", "_signal", "_thread"}  # fmt: skip
FILES = sorted(p for p in ROOT.rglob("*.py") if "__pycache__" not in p.parts)
TABLE = ROOT / "frontend" / "patches.py"


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


# -- reading the source


class Names(ast.NodeVisitor):
    """What the names of a file stand for, as far as its imports and plain assignments tell."""

    def __init__(self, tree: ast.Module):
        self.foreign: dict[str, str] = {}  # by local name, the dotted one
        self.ours: set[str] = set()
        self.visit(tree)

    def visit_Import(self, node):
        for a in node.names:
            name = a.name if a.asname else a.name.split(".")[0]
            if name.split(".")[0] in PACKAGES:
                self.foreign[a.asname or name] = name

    def visit_ImportFrom(self, node):
        for a in node.names:
            if node.level:
                self.ours.add(a.asname or a.name)
            elif (node.module or "").split(".")[0] in PACKAGES:
                self.foreign[a.asname or a.name] = f"{node.module}.{a.name}"

    def visit_Assign(self, node):
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts))
            for name, value in pairs:
                found = self.dotted(value)
                if found and isinstance(name, ast.Name):
                    self.foreign.setdefault(name.id, found)
        self.generic_visit(node)

    def dotted(self, node: ast.AST) -> str | None:
        """`torch.autograd.graph` for an expression that is just that, by whatever local names."""
        if isinstance(node, ast.Name):
            return self.foreign.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return base and f"{base}.{node.attr}"
        return None


def assignments(source: str) -> Iterator[str]:
    """Attributes of other people's modules and classes that are assigned, deleted or set by `setattr`."""
    tree = ast.parse(source)
    names = Names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            if found := names.dotted(node.value):
                yield f"{found}.{node.attr}"
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
            if found := names.dotted(node.value):
                yield f"{found}[...]"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
            yield f"{node.func.id}({ast.unparse(node.args[0])}, ...)"


def members(trees: list[ast.Module]) -> set[str]:
    """Private attributes of our own classes: methods, slots, what methods assign to `self`."""
    found = set()
    for tree in trees:
        for of_class in (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)):
            for node in ast.walk(of_class):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    found.add(node.name)
                elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
                    found.add(node.attr)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.add(node.value)
    return {name for name in found if private(name)}


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def privates(source: str, own: set[str] = frozenset()) -> set[str]:
    """Private names of other people's that a source uses: dotted where they can be followed, else `.name`.

    Not operators: `torch.ops.aten._softmax`, `torch._softmax` and `tensor._softmax` are names of the dispatcher's.
    """
    tree = ast.parse(source)
    names = Names(tree)
    of_classes = {id(n) for c in ast.walk(tree) if isinstance(c, ast.ClassDef) for n in ast.walk(c)}
    inner = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] in PACKAGES:
            found |= {f"{node.module}.{a.name}" for a in node.names}
        if not isinstance(node, ast.Attribute):
            continue
        if dotted := names.dotted(node):
            if id(node) not in inner:
                found.add(dotted)
        elif private(node.attr):
            # `self` inside of a class is ours; inside of a function that becomes a method of theirs it is not.
            ours = _is_self(node.value) and id(node) in of_classes
            ours |= isinstance(node.value, ast.Name) and node.value.id in names.ours
            if not ours and node.attr not in own:
                found.add(f".{node.attr}")
    return {name for name in found if _counts(name)}


_NAMED_TUPLE = {"._replace", "._asdict", "._fields"}


def _counts(name: str) -> bool:
    parts = name.split(".")
    if name in _NAMED_TUPLE or parts[0] in ("_signal", "_thread"):
        return False
    if parts[:2] == ["torch", "ops"]:
        return any(private(p) for p in parts[4:])
    if len(parts) == 2 and parts[0] in ("", "torch") and hasattr(torch.ops.aten, parts[1]):
        return False
    return any(private(p) for p in parts)


def covered(name: str) -> bool:
    """Whether a row is about this name, or about what it is a part of."""
    if name.startswith("."):
        return name[1:] in ATTRIBUTES
    if name.startswith("torch.ops."):
        return all(p in ATTRIBUTES for p in name.split(".")[4:] if private(p))
    return any(name == t or name.startswith(f"{t}.") or f"{name}." in f"{t}." for t in TARGETS) or any(
        name in (f"{row.target}.{word}" for word in row.expects.split()[1:]) for row in ROWS
    )


TARGETS = {target for row in ROWS for target in (row.target, *row.also)}
ATTRIBUTES = {part for row in ROWS for part in row.target.split(".") if private(part)} | {
    word for row in ROWS if row.expects.startswith(("has ", "uses ")) for word in row.expects.split()[1:]
}
# Attributes that we put on objects of torch's ourselves.
OUR_MARKS = {
    "._lease": "on a storage: the block under it",
    "._webgpu_mask": "on a cache of transformers: how a token's mask is made",
    "._webgpu_watch": "on a DistributedDataParallel: its parameters that had a gradient",
}
OWN = members([ast.parse(p.read_text(encoding="utf-8")) for p in FILES])


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_nobody_else_replaces(path):
    if path != TABLE:
        found = list(assignments(path.read_text(encoding="utf-8")))
        assert not found, f"{path.relative_to(ROOT)} assigns {found}: replacements are rows of frontend/patches.py"


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_private_names_are_in_the_table(path):
    found = {n for n in privates(path.read_text(encoding="utf-8"), OWN) - OUR_MARKS.keys() if not covered(n)}
    assert not found, f"{path.relative_to(ROOT)} uses {sorted(found)}, which no row of frontend/patches.py names"


def test_text_that_is_compiled_is_read_too():
    """Short forms are written as text: see plan/forms.py."""
    text = (ROOT / "plan" / "forms.py").read_text(encoding="utf-8")
    for name in re.findall(r"forward_ad\.(_\w+)", text):
        assert covered(f"torch.autograd.forward_ad.{name}")


def test_the_reader_of_assignments():
    source = """
import torch
from torch.autograd import forward_ad
from ..x import ours
accelerator, other = torch.accelerator, 1
torch.a = 1
accelerator.b = accelerator.c = 2
forward_ad.d, self.e = 3, 4
ours.f = 5
setattr(torch._C, name, 6)
del torch.g
torch.h["x"] = 7
x: int = 8
"""
    assert set(assignments(source)) == {
        "torch.a", "torch.accelerator.b", "torch.accelerator.c", "torch.autograd.forward_ad.d",
        "setattr(torch._C, ...)", "torch.g", "torch.h[...]",
    }  # fmt: skip


def test_the_reader_of_private_names():
    source = """
import torch
from torch._a import b
from ..x import ours
aten = torch.ops.aten
class Ours:
    def f(self):
        self._fine
def becomes_a_method(self):
    self._theirs
torch._C._d(1), torch.nn.e, ours._fine, x._g, x._own, x._softmax, aten._softmax.default._h, torch._softmax, x._asdict()
x.__class__
"""
    assert privates(source, {"_own"}) == {
        "torch._a.b", "torch._C._d", "._theirs", "._g", "torch.ops.aten._softmax.default._h"
    }  # fmt: skip


# -- the rows themselves


def test_rows_say_what_they_are():
    targets = [row.target for row in ROWS if not row.needed]
    assert len(targets) == len(set(targets))
    for row in ROWS:
        assert row.why and row.seen and re.search(r"\d", row.seen), row
        assert row.when in MOMENTS or not row.replacement or row.target.startswith(row.when), row
        assert not (row.needed and row.replacement), row
        for name in filter(None, (row.replacement, row.expects if ":" in row.expects else "")):
            assert callable(patches._load(name)), row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.target)
def test_rows_fit_the_installed_releases(row):
    """Through the replacements, which show what they wrap."""
    if row.when not in MOMENTS:
        package = row.when.split(".")[0]
        if find_spec(package) is None:
            needs.missing(f"{package} is not installed")
        importlib.import_module(row.when)
    assert patches.misfit(row) is None


@pytest.mark.parametrize(
    "expects, problem",
    [
        ("(a, b=, /, c=, *, d, e=, **f)", None),
        ("takes a e", None),
        ("(a, b)", "it is (a, b=, /, c=, *, d, e=, **f), not (a, b)"),
        ("takes a g", "it does not take g"),
        ("builtin", "it is (a, b=, /, c=, *, d, e=, **f), not builtin"),
        ("has __code__ _nothing", "it has no _nothing"),
        ("", None),
    ],
)
def test_misfits(monkeypatch, expects, problem):
    def function(a, b=1, /, c=2, *, d, e=3, **f): ...

    monkeypatch.setattr(sys.modules[__name__], "given", function, raising=False)
    assert patches.misfit(Row(f"{__name__}.given", expects, "", "", "")) == problem
    assert patches.misfit(Row(f"{__name__}.given.x", expects, "", "", "")) == f"{__name__}.given.x is not there"
    newer = Row(f"{__name__}.given.x", expects, "device.accelerator:empty_cache", "", "", newer=True)
    assert patches.misfit(newer) is None and patches._replace(newer) is None


def test_parameters():
    assert patches.parameters(lambda *a, b: a) == "(*a, b)"
    assert patches.parameters(lambda: 0) == "()"
    assert patches.parameters(len) == "builtin"
    assert patches.parameters(int) == "class"


# -- what really changes

CHANGES = """
import importlib, json, os, sys, warnings
warnings.filterwarnings("error", "webgpu_backend")
for name in {names}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        pass

def contents():
    found = {{}}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in {packages}:
            for key, value in list(vars(module).items()):
                found[name, key] = value
                if isinstance(value, type) and value.__module__.split(".")[0] in {packages}:
                    found.update(((value.__module__ + "." + value.__qualname__, k), v) for k, v in vars(value).items())
    return found

def ours(value):
    for part in (value, getattr(value, "fget", None), getattr(value, "func", None), getattr(value, "__func__", None)):
        code = getattr(part, "__code__", None)
        if code is not None and os.sep + "webgpu_backend" + os.sep in code.co_filename:
            return True
    modules = type(value).__module__, getattr(value, "__module__", None)
    return any(str(module).startswith("webgpu_backend") for module in modules)

before = contents()
import webgpu_backend
from webgpu_backend.frontend import first_use
first_use.complete()
from webgpu_backend.frontend.device import current
current.observe()
import wgpu.backends.wgpu_native
after = contents()
changed = [k for k, v in after.items() if before.get(k) is not v and ours(v) and k[0] != "torch.webgpu"]
print(json.dumps([".".join(k) for k in changed]))
"""


def test_what_changes_is_what_the_rows_say():
    """In a process that has imported every package before the backend, which replaces all it will."""
    names = sorted({row.when for row in ROWS if not row.when.startswith(("wgpu", *MOMENTS))})
    code = CHANGES.format(names=["torch", *names], packages=sorted(PACKAGES))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600,
                          env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    changed = set(json.loads(done.stdout.splitlines()[-1]))
    everywhere = tuple(row.target.rpartition(".")[2] for row in ROWS if row.everywhere)
    unknown = {name for name in changed - TARGETS if not name.endswith(everywhere)}
    assert not unknown, f"{sorted(unknown)} were replaced, and no row says so"
    functions = {row.target for row in ROWS if row.replacement and _is_function(row)}
    installed = {t for t in functions if find_spec(t.split(".")[0]) is not None}
    assert not installed - changed, f"{sorted(installed - changed)} should have been replaced"


def _is_function(row: Row) -> bool:
    """What shows that it is ours: no dictionary, no module that was told of the device, no attribute of an object."""
    if row.newer:
        try:
            find(row.target)
        except LookupError:
            return False
    return not row.expects.startswith("has ") and not row.target.startswith("wgpu.")
