"""What torch must know of the device's operators to derive graphs without running them."""

from functools import wraps

from ... import tensor as T
from ...ops.shape.copy import image_format


def conv_format(original):
    """The strides of a convolution; torch knows those of its own backends."""

    @wraps(original)
    def memory_format(input, weight, backend):
        if input.device.type == T.NAME:
            return image_format(input, weight)
        return original(input, weight, backend)

    return memory_format
