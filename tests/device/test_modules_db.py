"""PyTorch's module database against the CPU: forward, gradients and buffers, float32.

pytest tests/device/test_modules_db.py -k Conv          # some modules in seconds
WEBGPU_TEST_SAMPLES=100 pytest tests/device/test_modules_db.py
"""

import os

import torch

import webgpu_backend  # isort: skip  registered before torch's test library looks for devices

from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_modules import TrainEvalMode, module_db, modules
from torch.testing._internal.common_utils import TestCase

from benchmarks.modulecheck import check
from webgpu_backend.frontend.dispatch import fallback

SAMPLES = int(os.environ.get("WEBGPU_TEST_SAMPLES", "3"))


class TestModules(TestCase):
    @modules(module_db, allowed_dtypes=(torch.float32,), train_eval_mode=TrainEvalMode.train_only)  # a check does both
    def test_as_cpu(self, device, dtype, module_info, training):
        with fallback.allow("*"):
            outcome = check(module_info, dtype, limit=SAMPLES)
        webgpu_backend.reset_fallbacks()
        if outcome.status == "unmovable":
            self.skipTest(outcome.detail)  # float64 on an adapter without it
        self.assertEqual(outcome.status, "right", outcome.detail)
        self.assertEqual(outcome.fallbacks, {}, "ran on the CPU")


instantiate_device_type_tests(TestModules, globals(), only_for=("webgpu",))
