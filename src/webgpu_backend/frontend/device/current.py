"""`.to("webgpu")` where the current device is not the first.

Torch's guard for devices in Python says that the current device is number 0, always, and `Tensor.to` and
`torch.tensor` ask it in C++ for the number that a name without one stands for. So from the moment that another device
is selected they are told the number. Operators that make tensors get the name as it is, and take the current device.
"""

from functools import wraps

import torch
import torch.utils._device
from torch.jit._builtins import _find_builtin, _register_builtin
from torch.overrides import handle_torch_function, has_torch_function_unary

from ... import tensor as T
from .. import patches

_observed = False
_OF_VALUES = (torch.tensor, torch.as_tensor)


def observe() -> None:
    """Another device than the first is the current one, or may be."""
    global _observed
    if not _observed:
        _observed = True
        patches.apply(patches.SELECTED)


def _numbered(device):
    """A device argument with its number."""
    if isinstance(device, str):
        return T.here() if device == T.NAME else device
    bare = isinstance(device, torch.device) and device.type == T.NAME and device.index is None
    return T.here() if bare else device


def moved(original):
    """In the place of `Tensor.to`, whose first argument may be a device. Classes that take functions into their own
    hands compare them, and get torch's."""

    @wraps(original)
    def to(self, *args, **kwargs):
        if args:
            args = (_numbered(args[0]), *args[1:])
        if "device" in kwargs:
            kwargs["device"] = _numbered(kwargs["device"])
        if has_torch_function_unary(self):
            return handle_torch_function(original, (self,), self, *args, **kwargs)
        return original(self, *args, **kwargs)

    return to


def new(original):
    """In the place of `Tensor.new_tensor`."""

    @wraps(original)
    def new_tensor(self, *args, **kwargs):
        if "device" in kwargs:
            kwargs["device"] = _numbered(kwargs["device"])
        if has_torch_function_unary(self):
            return handle_torch_function(original, (self,), self, *args, **kwargs)
        return original(self, *args, **kwargs)

    return new_tensor


def made(original):
    """In the place of a function that makes a tensor of values."""

    @wraps(original)
    def make(*args, **kwargs):
        if "device" in kwargs:
            kwargs["device"] = _numbered(kwargs["device"])
        return original(*args, **kwargs)

    _register_builtin(make, _find_builtin(original))  # TorchScript knows functions by what they are
    return make


def default(original):
    """In the place of how a default device is given to functions; two of them cannot take a name without a number."""

    @wraps(original)
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if getattr(func, "__wrapped__", func) in _OF_VALUES and kwargs.get("device") is None:
            kwargs["device"] = _numbered(self.device)
        return original(self, func, types, args, kwargs)

    return __torch_function__
