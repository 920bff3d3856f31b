"""What the tests themselves keep to, read from their source."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = sorted(p for p in TESTS.rglob("*.py") if "__pycache__" not in p.parts)

# By what a test would name it: why it should not.
FORBIDDEN = {
    "gc.get_objects": "finds whatever other tests left alive: ask the object's owner, or webgpu_backend.stats()",
    "gc.get_referrers": "finds whatever other tests left alive: ask the object's owner",
    "pytest.skip": "tests/needs.py says what is missing on this machine",
    "pytest.importorskip": "tests/needs.py says what is missing on this machine",
    "unittest.skip": "tests/needs.py says what is missing on this machine",
}
ALLOWED = {"needs.py": {"pytest.skip"}}


def named(text: str) -> set[str]:
    """Attributes of modules that a file names, and names that it imports out of them."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{a.name}" for a in node.names}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(TESTS).as_posix())
def test_nothing_forbidden_is_named(path):
    found = named(path.read_text(encoding="utf-8")) & FORBIDDEN.keys() - ALLOWED.get(path.name, set())
    assert not found, "; ".join(f"{name}: {FORBIDDEN[name]}" for name in sorted(found))


def test_the_reader_of_names():
    text = "import gc, pytest\nfrom pytest import importorskip\n[x for x in gc.get_objects()]\npytest.skip('x')\n"
    assert named(text) >= {"gc.get_objects", "pytest.skip", "pytest.importorskip"}


def test_every_skip_has_a_reason():
    """`@pytest.mark.skipif(condition, reason=...)`, and no `skip` without a condition."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.skipif":
                reasons = [k.value for k in node.keywords if k.arg == "reason"]
                assert len(reasons) == 1 and len(ast.unparse(reasons[0])) > 20, f"{path}:{node.lineno}"
            assert not (isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.skip"), path
