"""Where torch's Python code takes a float64 for granted: printing, and the gradient scaler."""

import torch
from torch import _tensor_str

from ... import tensor as T
from ...runtime.gpu import gpu


class _Single(torch.Tensor):
    """A scale that stays float32. Scales are powers of two, whose reciprocal is exact in any precision."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    def double(self):
        return self


def _print_on_the_host() -> None:
    """The formatter looks at elements one by one, and at float64: both belong on the host."""
    original = _tensor_str._Formatter.__init__

    def init(self, tensor):
        original(self, tensor.cpu() if tensor.device.type == T.NAME else tensor)

    _tensor_str._Formatter.__init__ = init


def _unscale_in_single() -> None:
    original = torch.amp.GradScaler.unscale_

    def unscale_(self, optimizer):
        scale = getattr(self, "_scale", None)  # a disabled scaler has none
        if scale is None or scale.device.type != T.NAME or gpu().caps.f64:
            return original(self, optimizer)
        self._scale = scale.as_subclass(_Single)
        try:
            return original(self, optimizer)
        finally:
            self._scale = scale

    torch.amp.GradScaler.unscale_ = unscale_


def patch() -> None:
    _print_on_the_host()
    _unscale_in_single()
