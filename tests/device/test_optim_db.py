"""PyTorch's optimizer database against the CPU: every input of every optimizer, as a loop, foreach and fused."""

import torch

import webgpu_backend  # isort: skip  registered before torch's test library looks for devices

from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_optimizers import optim_db, optims
from torch.testing._internal.common_utils import TestCase

from benchmarks.optimcheck import check
from webgpu_backend.frontend.dispatch import fallback


class TestOptimizers(TestCase):
    @optims(optim_db, dtypes=(torch.float32,))
    def test_as_cpu(self, device, dtype, optim_info):
        with fallback.allow("*"):
            outcome = check(optim_info, dtype)
        webgpu_backend.reset_fallbacks()
        if outcome.status == "unmovable":
            self.skipTest(outcome.detail)
        self.assertEqual(outcome.status, "right", outcome.detail)
        self.assertEqual(outcome.fallbacks, {}, "ran on the CPU")


instantiate_device_type_tests(TestOptimizers, globals(), only_for=("webgpu",))
