"""Lightning's `Trainer(accelerator="webgpu")` and `Fabric(accelerator="webgpu")`: an accelerator in their registries,
and their single-device strategies.

Called as Lightning's own modules are imported, under either of its names.
"""

import sys
from functools import wraps

import torch

from ... import tensor as T
from ..device import module as webgpu
from . import packages


def register(module):
    """Into the registry that `lightning.pytorch.accelerators` or `lightning.fabric.accelerators` makes."""

    class WebGPUAccelerator(module.Accelerator):
        def setup_device(self, device):
            if device.type != T.NAME:
                raise ValueError(f"Device should be {T.NAME}, got {device} instead.")

        def teardown(self):
            webgpu.empty_cache()

        def get_device_stats(self, device):
            return webgpu.memory_stats(device)

        @staticmethod
        def parse_devices(devices):
            one = [webgpu.current_device()]
            if devices in (1, "1", "auto", -1, "-1"):
                return one
            named = [devices] if isinstance(devices, str) else devices
            if isinstance(named, list) and len(named) == 1 and str(named[0]).strip(",").isdigit():
                return [webgpu._index(int(str(named[0]).strip(",")))]
            raise ValueError(
                f"webgpu: devices={devices!r}: a process trains on one device, devices=[0] or another number in a "
                "list; for several take a process for each, by torchrun"
            )

        @staticmethod
        def get_parallel_devices(devices):
            return [torch.device(T.NAME, i) for i in devices]

        @staticmethod
        def auto_device_count():
            return 1

        @staticmethod
        def is_available():
            return webgpu.is_available()

        @staticmethod
        def name():
            return T.NAME

    registry = getattr(module, "AcceleratorRegistry", None) or module.ACCELERATOR_REGISTRY
    registry.register(T.NAME, WebGPUAccelerator, description="WebGPU, through webgpu_backend")
    return module


# -- what the Trainer decides for accelerators it does not know: the CPU, and CUDA's autocast


def _is_it(connector) -> bool:
    return getattr(connector.accelerator, "name", lambda: None)() == T.NAME


def choose_strategy(original):
    @wraps(original)
    def _choose_strategy(self):
        if _is_it(self) and self._num_nodes_flag == 1:
            return sys.modules[original.__module__].SingleDeviceStrategy(device=self._parallel_devices[0])
        return original(self)

    return _choose_strategy


def init_precision(original):
    @wraps(original)
    def _check_and_init_precision(self):
        mixed = self._precision_flag in ("16-mixed", "bf16-mixed") and self._precision_plugin_flag is None
        if mixed and _is_it(self):
            return sys.modules[original.__module__].MixedPrecision(self._precision_flag, T.NAME)
        return original(self)

    return _check_and_init_precision


def init_fabric_precision(original):
    @wraps(original)
    def _check_and_init_precision(self):
        mixed = self._precision_input in ("16-mixed", "bf16-mixed") and self._precision_instance is None
        if mixed and _is_it(self):
            return sys.modules[original.__module__].MixedPrecision(self._precision_input, T.NAME)
        return original(self)

    return _check_and_init_precision


def choose_accelerator(original):
    """The device is taken where the script leaves the choice, and it is a GPU."""

    @wraps(original)
    def _choose_auto_accelerator():
        found = original()
        return T.NAME if found == "cpu" and packages._chosen() else found

    return _choose_auto_accelerator
