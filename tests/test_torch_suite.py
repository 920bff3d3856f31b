"""A sample of PyTorch's own tests, where its files are at hand: WEBGPU_TORCH_TESTS names the folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs, torch_gaps, torch_ledger

ROOT = Path(__file__).parents[1]
# file -> one test in so many, so that each takes some seconds
SAMPLE = {
    "test_view_ops.py": 9,
    "test_shape_ops.py": 5,
    "test_reductions.py": 200,
    "test_sort_and_select.py": 7,
    "test_type_promotion.py": 20,
    "test_binary_ufuncs.py": 700,
    "test_unary_ufuncs.py": 1200,
    "nn/test_pooling.py": 12,
    "test_spectral_ops.py": 25,
    "test_transformers.py": 25,
    "test_sparse.py": 200,
    "test_tensor_creation_ops.py": 60,
    "test_ops.py": 2500,
}


@pytest.mark.parametrize("file", SAMPLE)
def test_a_sample_of(file, tmp_path):
    folder = needs.torch_tests()
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "tests.torch_suite", str(folder), file, "--every", str(SAMPLE[file])]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*command, "--seconds", "120", "--json", str(out)], cwd=ROOT, capture_output=True, text=True, timeout=400,
        env={**os.environ, "WEBGPU_FALLBACK": "silent", "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(out.read_text())
    assert not found["unknown"], found["unknown"]
    assert found["kinds"]["passed"] >= 3


def test_a_reason_is_found_by_name_and_message():
    assert "sparse" in torch_gaps.reason(
        "TestX.test_y", "NotImplementedError: webgpu: sparse tensors are not supported"
    )
    assert torch_gaps.reason("TestX.test_y", "Tensor-likes are not close!") is None
    assert all(len(why) > 10 for table in torch_gaps.TABLES.values() for why in table.values())


def test_the_ledger_knows_what_has_not_run(tmp_path):
    path = tmp_path / "runs.json"
    first, second = (next(n for n in map(str, range(999)) if torch_ledger.part_of(n) == part) for part in (10, 2))
    torch_ledger.record(path, "2.13.0", "test_a.py", 10, {"passed": 5, "slow": 1}, [first])
    torch_ledger.record(path, "2.13.0", "test_a.py", 2, {"passed": 3, "slow": 1}, [second])
    torch_ledger.record(path, "2.13.0", "test_a.py", 2, {"passed": 4, "words": 1}, [])  # in the first one's place
    assert torch_ledger.left(path, "2.13.0", "test_a.py") == [n for n in range(16) if n not in (2, 10)]
    assert torch_ledger.left(path, "2.13.0", "test_b.py") == torch_ledger.left(path, "2.14.0", "test_a.py")
    told = torch_ledger.summary(torch_ledger.read(path), ["test_a.py", "test_b.py"])
    assert told[0].startswith("test_a.py: 11 tests, 9 passed, 1 words, 1 slow; not run: 0, 1, 3, 4")
    assert told[1:] == ["test_b.py: 0 tests; not run", "all: 11 tests, 9 passed, 1 words, 1 slow"]
    assert torch_ledger.read(path)[torch_ledger.SLOW + "test_a.py"] == [first]
    torch_ledger.record_again(path, "test_a.py", {first: "passed"})
    assert torch_ledger.read(path)["test_a.py"]["10"] == [6, 0, 0, 0, 0, 0, 0]
    assert torch_ledger.SLOW + "test_a.py" not in torch_ledger.read(path)
    torch_ledger.record(path, "2.14.0", "test_b.py", 0, {}, [])
    assert sorted(torch_ledger.read(path)) == ["test_b.py", "torch"]


def test_parts_are_named_by_numbers_and_ranges():
    assert torch_ledger.parts("0,3-5") == [0, 3, 4, 5]
