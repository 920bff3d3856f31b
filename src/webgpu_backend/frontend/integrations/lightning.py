"""Lightning's `Trainer(accelerator="webgpu")`: an accelerator in its registry, and its single-device strategy.

Called with Lightning's own modules as they are imported (`packages`), under either of its names.
"""

import torch

from ... import tensor as T
from ..device import module as ours


def register(module) -> None:
    """Into the registry that `lightning.pytorch.accelerators` makes."""

    class WebGPUAccelerator(module.Accelerator):
        def setup_device(self, device):
            if device.type != T.NAME:
                raise ValueError(f"Device should be {T.NAME}, got {device} instead.")

        def teardown(self):
            ours.empty_cache()

        def get_device_stats(self, device):
            return ours.memory_stats(device)

        @staticmethod
        def parse_devices(devices):
            if devices in (1, "1", "auto", -1, "-1", [0], "0,"):
                return [0]
            raise ValueError(f"webgpu: devices={devices!r}: there is one device, webgpu:0")

        @staticmethod
        def get_parallel_devices(devices):
            return [torch.device(T.NAME, i) for i in devices]

        @staticmethod
        def auto_device_count():
            return 1

        @staticmethod
        def is_available():
            return ours.is_available()

        @staticmethod
        def name():
            return T.NAME

    module.WebGPUAccelerator = WebGPUAccelerator
    module.AcceleratorRegistry.register(T.NAME, WebGPUAccelerator, description="WebGPU, through webgpu_backend")


def connect(module, chosen) -> None:
    """What the Trainer decides for accelerators it does not know is the CPU, and CUDA's autocast.

    `chosen()` tells whether the device is to be taken where the script leaves the choice.
    """
    connector = module._AcceleratorConnector
    strategy, precision, auto = (
        connector._choose_strategy,
        connector._check_and_init_precision,
        connector._choose_auto_accelerator,
    )

    def is_it(self):
        return getattr(self.accelerator, "name", lambda: None)() == T.NAME

    def choose_strategy(self):
        if is_it(self) and self._num_nodes_flag == 1:
            return module.SingleDeviceStrategy(device=self._parallel_devices[0])
        return strategy(self)

    def check_and_init_precision(self):
        mixed = self._precision_flag in ("16-mixed", "bf16-mixed") and self._precision_plugin_flag is None
        if mixed and is_it(self):
            return module.MixedPrecision(self._precision_flag, T.NAME)
        return precision(self)

    def choose_auto_accelerator():
        found = auto()
        return T.NAME if found == "cpu" and chosen() else found

    connector._choose_strategy = choose_strategy
    connector._check_and_init_precision = check_and_init_precision
    connector._choose_auto_accelerator = staticmethod(choose_auto_accelerator)
