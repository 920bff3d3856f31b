"""PyTorch's operator database against the CPU, forward and gradient: float32 and int64, some of it in other dtypes.

    pytest tests/device/test_ops.py -k softmax          # one operator in seconds
    WEBGPU_TEST_SAMPLES=10 pytest tests/device/test_ops.py -n 2     # more of each operator, and all of it in all dtypes

`python -m benchmarks.coverage` runs every dtype there is, each operator in a process that survives. What is not native
or not right yet is in tests/gaps.py, with its reason: each entry is run in the dtypes it names and must still be there.
"""

import os

import pytest
import torch

import webgpu_backend  # isort: skip  registered before torch's test library looks for devices

from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_utils import TestCase

from benchmarks.opcheck import Outcome, check, database, name_of
from tests import gaps, needs
from webgpu_backend.frontend.dispatch import fallback
from webgpu_backend.runtime.gpu import gpu

SAMPLES = int(os.environ.get("WEBGPU_TEST_SAMPLES", "2"))
THOROUGH = SAMPLES >= 10
OTHERS = (torch.float16, torch.bfloat16, torch.complex64)
EVERY = 5  # of so many operators one is run in each of these, unless all are asked for: a minute of one core


def outcome_of(op, dtype, samples: int) -> Outcome:
    with fallback.allow("*"):
        outcome = check(op, dtype, limit=samples)
    webgpu_backend.reset_fallbacks()
    return outcome


def nothing_to_run(outcome: Outcome) -> str:
    return f"the database has no sample for this device: {outcome.detail or 'the CPU refuses each of them'}"


class TestOps(TestCase):
    """Torch's own way to test a device, which draws values of its own for every test."""

    @ops(database(), allowed_dtypes=(torch.float32, torch.int64))
    def test_as_cpu(self, device, dtype, op):
        outcome = outcome_of(op, dtype, SAMPLES)
        if outcome.status == "unmovable":
            self.skipTest(nothing_to_run(outcome))
        self.assertEqual(outcome.status, "right", outcome.detail)
        self.assertEqual(outcome.fallbacks, {}, "ran on the CPU")


instantiate_device_type_tests(TestOps, globals(), only_for=("webgpu",))


def some() -> list:
    """Operators and dtypes without a known gap."""
    found = []
    for first, dtype in enumerate(OTHERS):  # another part of the database for each dtype
        fitting = [op for op in database() if dtype in op.dtypes and not gaps.find(name_of(op), dtype)]
        fitting = fitting if THOROUGH else fitting[first::EVERY]
        found += [pytest.param(op, dtype, id=f"{name_of(op)}-{dtype}") for op in fitting]
    return found


@pytest.mark.parametrize("op, dtype", some())
def test_in_other_dtypes(op, dtype):
    """With the values of the coverage run, for which tests/gaps.py says what is as the CPU's float32 answer only."""
    outcome = outcome_of(op, dtype, SAMPLES)
    if outcome.status == "unmovable":
        needs.missing(nothing_to_run(outcome))
    assert outcome.status == "right", outcome.detail
    assert not outcome.fallbacks, "ran on the CPU"
    if gpu().caps.kind == "cpu":  # GPUs divide within 2.5 units in the last place, and may leave a rounding out
        assert "rounding" not in outcome.readings, outcome.example


# What a gap's outcome is: status, whether a part runs on the CPU, whether it is as the CPU's float32 answer only.
STILL = {"wrong": ("wrong", False, None), "fallback": ("right", True, False), "rounded": ("right", False, True)}


@pytest.mark.parametrize("kind, name, dtype", gaps.entries(), ids=str)
def test_known_gap(kind, name, dtype):
    """Strictly: a gap that closes fails here until its entry goes."""
    variants = [op for op in database() if name_of(op) == name]
    assert variants, f"the database has no {name}: its entry in tests/gaps.py names nothing"
    found = [outcome_of(op, dtype, max(SAMPLES, 10)) for op in variants]
    status, on_cpu, rounded = STILL[kind]
    if name in gaps.BY_AVX512 and torch.backends.cpu.get_cpu_capability() != "AVX512":
        status = "right"
    assert {o.status for o in found} == {status}, f"{name} is not {status} in {dtype} any more: see tests/gaps.py"
    assert any(o.fallbacks for o in found) == on_cpu, f"what {name} runs on the CPU in {dtype} has changed"
    if rounded is not None:
        assert any("rounding" in o.readings for o in found) == rounded, f"how {name} is rounded in {dtype} has changed"
