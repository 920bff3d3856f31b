"""Tensors of the device as text."""

from functools import wraps

from ... import tensor as T
from ...plan import run


def formatter(original):
    """The formatter looks at elements one by one, and at float64: both belong on the host."""

    @wraps(original)
    def __init__(self, tensor):
        original(self, tensor.cpu() if tensor.device.type == T.NAME else tensor)

    return __init__


def contents(original):
    """What is being planned has no values yet. It is printed all the same: where torch tries an operator's overloads it
    prints the arguments of those that do not fit, in C++, and an exception there leaves transforms turned off."""

    @wraps(original)
    def _tensor_str(self, indent):
        return "..." if run.planning_here() is not None else original(self, indent)

    return _tensor_str
