"""Where torch's Python code takes a float64 for granted: the gradient scaler."""

from functools import wraps

import torch

from ... import tensor as T
from ...runtime.gpu import gpu


class _Single(torch.Tensor):
    """A scale that stays float32. Scales are powers of two, whose reciprocal is exact in any precision."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    def double(self):
        return self


def unscale(original):
    @wraps(original)
    def unscale_(self, optimizer):
        scale = getattr(self, "_scale", None)  # a disabled scaler has none
        if scale is None or scale.device.type != T.NAME or gpu(scale.device.index).caps.f64:
            return original(self, optimizer)
        self._scale = scale.as_subclass(_Single)
        try:
            return original(self, optimizer)
        finally:
            self._scale = scale

    return unscale_
