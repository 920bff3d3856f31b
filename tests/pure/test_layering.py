"""Who may import whom and who may name what, read from the source: the layers of docs/architecture.md.

What is not yet so stands in a list beside the rule, with its reason. A list is strict: an entry that is no longer
needed fails too, so that it only ever gets shorter.
"""

import ast
import re
from collections.abc import Iterator
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
    "web": {"wgpu"},
    "export": {"wgpu"},
}
# wgpu is reached through runtime/ only.
FILES = sorted(p for p in ROOT.rglob("*.py") if "__pycache__" not in p.parts)


def layer_of(path: Path) -> str:
    part = path.relative_to(ROOT).parts[0]
    return part.removesuffix(".py")


def files_of(*layers: str) -> list[Path]:
    return [p for p in FILES if layer_of(p) in layers]


def _id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


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


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_imports(path):
    forbidden = imported(path) & RULES.get(layer_of(path), set())
    assert not forbidden, f"{path.relative_to(ROOT)} must not import {sorted(forbidden)}"


def imported_modules(path: Path) -> set[str]:
    """Our own modules that a file imports, in full: `runtime.gpu`, or `runtime.gpu.gpu` for a name out of it."""
    package = path.relative_to(ROOT).parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            found |= {".".join((*base, *(node.module or "").split("."), a.name)).strip(".") for a in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            found |= {f"{node.module}.{a.name}".removeprefix(PACKAGE + ".") for a in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix(PACKAGE + ".") for a in node.names if a.name.startswith(PACKAGE + ".")}
    return {name.replace("..", ".") for name in found}


def test_the_reader_sees_through_every_form(tmp_path):
    (tmp_path / "kernels").mkdir()
    path = tmp_path / "kernels" / "x.py"
    path.write_text(
        "import torch.nn\nfrom wgpu.backends import x\nfrom .. import tensor\nfrom ..ops.table import y\n"
        "from . import layout\ndef f():\n    from ..frontend import z\n"
    )
    assert imported(path, tmp_path) == {"torch", "wgpu", ".tensor", ".ops", ".kernels", ".frontend"}


# -- devices: a program's default device must not be where our own work on the host lands

FACTORIES = {
    "arange", "empty", "empty_strided", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "randperm",
    "scalar_tensor", "tensor", "zeros",
}  # fmt: skip


def without_device(text: str) -> set[int]:
    """Lines of calls that make a tensor and leave it to torch where."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {f"torch.{name}" for name in FACTORIES}:
            if not {keyword.arg for keyword in node.keywords} & {"device", None, "out"}:
                found.add(node.lineno)
    return found


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_tensors_are_made_on_a_named_device(path):
    assert not without_device(path.read_text(encoding="utf-8")), path.relative_to(ROOT)


def test_the_reader_of_devices():
    text = "torch.ones(2)\ntorch.ones(2, device='cpu')\ntorch.zeros(\n    3, dtype=d)\ntorch.full(2, 1, **options)\n"
    assert without_device(text) == {1, 3}


# -- blocks and recording: where a tensor's memory lies, and how a dispatch gets to the queue

# file -> names that should be in plan/, tensor.py or runtime/ alone, and why they are still there
BELOW_PLAN_YET: dict[str, tuple[set[str], str]] = {}


def names_below_plan(path: Path) -> set[str]:
    """Data pointers, block numbers and recording, as the code (not a comment) names them."""
    return set(_below_plan(ast.parse(path.read_text(encoding="utf-8"))))


def _below_plan(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if node.attr == "data_ptr":
                yield "data_ptr()"
            elif node.attr in ("_blocks", "UID_BITS"):
                yield node.attr
            elif node.attr == "record" and (owner := ast.unparse(node.value).split(".")[-1]) in ("run", "queue"):
                yield f"{owner}.record"
        elif isinstance(node, ast.ImportFrom):
            yield from (a.name for a in node.names if a.name in ("_blocks", "UID_BITS"))
            if (node.module or "").split(".")[-1] in ("run", "queue"):
                yield from (f"{node.module.split('.')[-1]}.record" for a in node.names if a.name == "record")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.RShift):
            if isinstance(node.right, ast.Constant) and node.right.value == 40:
                yield ">> 40"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # text that is compiled
            yield from (name for name in ("data_ptr()", ">> 40") if name in node.value)


@pytest.mark.parametrize("path", files_of("kernels", "ops", "frontend"), ids=_id)
def test_blocks_and_recording_are_below_the_operators(path):
    name = path.relative_to(ROOT).as_posix()
    expected, _ = BELOW_PLAN_YET.get(name, (set(), ""))
    found = names_below_plan(path)
    assert not found - expected, f"{name} names {sorted(found - expected)}: only plan/, tensor.py and runtime/ do"
    assert not expected - found, f"{name} no longer names {sorted(expected - found)}: take it out of BELOW_PLAN_YET"


def test_the_reader_of_names_sees_every_form(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(
        "from ..tensor import UID_BITS\nfrom ..plan.run import record\nT._blocks[t.data_ptr() >> 40]\n"
        "gpu().queue.record(1)\n# run.record\ndef _blocks(): ...\n_blocks()\n"
    )
    assert names_below_plan(path) == {"UID_BITS", "run.record", "_blocks", "data_ptr()", ">> 40", "queue.record"}


# -- what a layer may take of the one below

# file -> modules of runtime/ beside `errors` that an operator still imports, and why
OPS_ON_RUNTIME_YET: dict[str, tuple[set[str], str]] = {}


@pytest.mark.parametrize("path", files_of("ops"), ids=_id)
def test_operators_know_the_errors_of_the_runtime_alone(path):
    name = path.relative_to(ROOT).as_posix()
    expected, _ = OPS_ON_RUNTIME_YET.get(name, (set(), ""))
    found = {m for m in imported_modules(path) if m.split(".")[0] == "runtime" and m.split(".")[1:2] != ["errors"]}
    assert not found - expected, f"{name} imports {sorted(found - expected)}: an operator asks plan/ for it"
    assert not expected - found, f"{name} no longer imports {sorted(expected - found)}: take it out of the list"


def test_the_reader_of_modules():
    found = imported_modules(ROOT / "plan" / "run.py")
    assert {"program.Plan", "runtime.errors.BindingTooLarge", "runtime.gpu.gpu", "tensor"} <= found


# Words of torch's error messages, and operators by name: the runtime says what happened in its own words.
TORCHS_WORDS = re.compile(r"Expected all tensors|same device, but|aten::|\btorch\.")


@pytest.mark.parametrize("path", files_of("runtime"), ids=_id)
def test_the_runtime_speaks_for_itself(path):
    strings = [
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert not [s for s in strings if TORCHS_WORDS.search(s)]


def test_families_have_one_name_in_operators_and_kernels():
    def families(layer: str) -> set[str]:
        return {p.name for p in (ROOT / layer).iterdir() if p.is_dir() and any(p.glob("*.*"))}

    assert families("kernels") - families("ops") == {"text", "lib", "compiled"}
    assert families("ops") <= families("kernels")


# file -> tables of plans that an operator keeps for itself, and why; plan/cache.py is where plans are kept
PLANS_APART_YET: dict[str, tuple[set[str], str]] = {}


def tables_at_module_level(path: Path) -> set[str]:
    """Names of dictionaries that a module makes when it is imported."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if _has_value(node) else []
        value = getattr(node, "value", None)
        made = isinstance(value, (ast.Dict, ast.DictComp))
        made |= isinstance(value, ast.Call) and re.search(r"[dD]ict|Cache|table", ast.unparse(value.func)) is not None
        if made:
            found |= {t.id for t in targets if isinstance(t, ast.Name)}
    return found


def _has_value(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and node.value is not None


@pytest.mark.parametrize("path", files_of("ops"), ids=_id)
def test_operators_keep_no_plans(path):
    name = path.relative_to(ROOT).as_posix()
    expected, _ = PLANS_APART_YET.get(name, (set(), ""))
    found = {table for table in tables_at_module_level(path) if "plan" in table.lower()}
    assert found == expected, f"{name}: plans are kept in plan/cache.py"


def test_the_reader_of_tables(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(
        "_plans: dict = {}\nPLANS = dict()\nplan_of = {k: 1 for k in ()}\nplans = WeakValueDictionary()\n"
        "most_plans = 3\ndef f():\n    plans_in_f = {}\n"
    )
    assert tables_at_module_level(path) == {"_plans", "PLANS", "plan_of", "plans"}


# -- names and sizes

LONGEST = 60  # lines of a function, unless its first line says why it is `in one piece`
# functions that are longer, without such a line, and what is to become of them
LONG_YET: dict[str, str] = {}


def long_functions(text: str) -> set[str]:
    """Functions of more than so many lines whose first line of the body, comment or docstring, gives no reason."""
    lines, found = text.splitlines(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno - node.lineno >= LONGEST:
            first = node.body[0].lineno - 1
            while lines[first - 1].strip().startswith("#"):
                first -= 1
            if "in one piece" not in lines[first]:
                found.add(node.name)
    return found


def test_functions_are_short():
    found = set()
    for path in FILES:
        name = path.relative_to(ROOT).as_posix()
        found |= {f"{name}: {function}" for function in long_functions(path.read_text(encoding="utf-8"))}
    new, gone = found - LONG_YET.keys(), LONG_YET.keys() - found
    assert not new, f"over {LONGEST} lines, and the line after `def` does not say why it is in one piece: {sorted(new)}"
    assert not gone, f"no longer too long, so take them out of LONG_YET: {sorted(gone)}"


def test_the_reader_of_lengths():
    body = "    x = 1\n" * LONGEST
    assert long_functions(f"def f():\n{body}") == {"f"}
    assert long_functions("def f():\n" + "    x = 1\n" * (LONGEST - 1)) == set()
    for reason in ("    # in one piece: its names are shared\n", '    """One text, in one piece: ..."""\n'):
        assert long_functions(f"def f():\n{reason}{body}") == set()
    assert long_functions(f'def f():\n    """Does it."""\n    # in one piece, too late\n{body}') == {"f"}


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
