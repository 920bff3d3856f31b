"""WGSL as browsers compile it. What the device tests render is collected by `./dev test` (tests/web/texts.py)."""

from pathlib import Path

from . import texts

GOLDEN = Path(__file__).parents[1] / "pure" / "golden"


def test_golden_texts():
    found = {}
    for path in sorted(GOLDEN.glob("*.wgsl")):
        text = path.read_text(encoding="utf-8")
        if texts.portable(text):
            found[path.name] = text.replace("\nstruct P", "\n@group(1) @binding(0) var<uniform> p: P;\nstruct P", 1)
    assert len(found) >= 5
    assert texts.refused(found) == {}


def test_dawn_refuses_what_is_wrong():
    found = texts.refused({"bad": "@compute @workgroup_size(64) fn main() { let x: f32 = 1u; }", "good": "fn f() {}"})
    assert list(found) == ["bad"] and "1:" in found["bad"]
