"""PyTorch's operator database against the CPU, forward and gradient, float32 and int64.

    pytest tests/device/test_ops.py -k softmax          # one operator in seconds
    WEBGPU_TEST_SAMPLES=10 pytest tests/device/test_ops.py -n 2

`python -m benchmarks.coverage` runs all dtypes, each operator in a process that survives. What is not native or not
right yet is in tests/gaps.py, with its reason; a gap that closes fails here until its entry goes.
"""

import os

import torch

import webgpu_backend  # isort: skip  registered before torch's test library looks for devices

from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_utils import TestCase

from benchmarks.opcheck import check, database
from tests import gaps
from webgpu_backend.frontend.dispatch import fallback

SAMPLES = int(os.environ.get("WEBGPU_TEST_SAMPLES", "2"))


class TestOps(TestCase):
    @ops(database(), allowed_dtypes=(torch.float32, torch.int64))
    def test_as_cpu(self, device, dtype, op):
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        gap = gaps.find(name, dtype)
        with fallback.allow("*"):
            outcome = check(op, dtype, limit=SAMPLES)
        webgpu_backend.reset_fallbacks()
        if outcome.status == "unmovable":
            self.skipTest(f"no sample can be moved to a device: {outcome.detail}")
        if gap == "wrong":
            if SAMPLES >= 10:
                self.assertNotEqual(outcome.status, "right", f"{name} is right now: remove it from tests/gaps.py")
            return
        self.assertEqual(outcome.status, "right", outcome.detail)
        if gap == "fallback":
            if SAMPLES >= 10:
                self.assertTrue(outcome.fallbacks, f"{name} is native now: remove it from tests/gaps.py")
            return
        self.assertEqual(outcome.fallbacks, {}, "ran on the CPU")


instantiate_device_type_tests(TestOps, globals(), only_for=("webgpu",))
