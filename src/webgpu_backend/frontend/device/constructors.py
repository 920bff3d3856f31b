"""Classes that torch makes in C++ for its own devices only: the public name becomes a class that picks by device."""

from collections.abc import Callable

import torch

from ... import tensor as T


def is_ours(device) -> bool:
    """A device argument, in any of its spellings, that names ours."""
    if isinstance(device, (str, torch.device)):
        return torch.device(device).type == T.NAME
    return False


def by_device(base: type, make: Callable):
    """A stand-in for `base`: `make(*args, **kwargs)` answers with an object of ours, or NotImplemented for torch's own.

    Every instance of `base` is an instance of the stand-in, and classes may derive from it.
    """

    class ByDevice(type(base)):
        def __instancecheck__(cls, instance):
            return isinstance(instance, base) if cls is stand_in else super().__instancecheck__(instance)

        def __subclasscheck__(cls, subclass):
            return issubclass(subclass, base) if cls is stand_in else super().__subclasscheck__(subclass)

        def __call__(cls, *args, **kwargs):
            if cls is not stand_in:
                return super().__call__(*args, **kwargs)
            result = make(*args, **kwargs)
            return base(*args, **kwargs) if result is NotImplemented else result

    names = {"__doc__": base.__doc__, "__module__": "torch"}
    stand_in = ByDevice(base.__name__, (base,), names)
    return stand_in
