"""Lets the safetensors package open files on the device.

Its Rust code knows devices by name, from a list of its own; device number 0, which it hands to torch as it is, is the
process's accelerator. The package may be imported at any time after this one, or never.
"""

import importlib.abc
import importlib.util
import sys

import torch

from .. import tensor as T

_EXTENSION = "safetensors._safetensors_rust"


def _named(device):
    ours = isinstance(device, torch.device) or str(device).partition(":")[0] == T.NAME
    return torch.device(device).index or 0 if ours and torch.device(device).type == T.NAME else device


def _stand_in(base: type) -> type:
    class ByDevice(type):
        def __call__(cls, filename, framework, device="cpu", **rest):
            return base(filename, framework, _named(device), **rest)

        def __instancecheck__(cls, instance):
            return isinstance(instance, base)

    return ByDevice(base.__name__, (), {"__doc__": base.__doc__})


def _patch(extension) -> None:
    original = extension.safe_open
    extension.safe_open = _stand_in(original)
    for name in ("safetensors", "safetensors.torch"):
        module = sys.modules.get(name)
        if getattr(module, "safe_open", None) is original:
            module.safe_open = extension.safe_open


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for the package's extension module, and patches it as soon as it is loaded."""

    def find_spec(self, name, path=None, target=None):
        if name != _EXTENSION or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                _patch(module)

            spec.loader.exec_module = exec_module
        return spec


def patch() -> None:
    if _EXTENSION in sys.modules:
        _patch(sys.modules[_EXTENSION])
    else:
        sys.meta_path.insert(0, _Finder())
