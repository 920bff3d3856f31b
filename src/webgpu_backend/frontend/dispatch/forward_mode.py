"""While tangents are carried along, linear is torch's composite: its own formula has none."""

from functools import wraps

import torch
from torch.autograd import forward_ad

_registered: list[torch.library.Library] = []


def observe() -> None:
    """Registers the composite, or takes it back, as the level is."""
    if forward_ad._current_level >= 0 and not _registered:
        _registered.append(torch.library.Library("aten", "IMPL"))
        _registered[0].impl("linear", torch.ops.aten.linear.default.decompose, "AutogradPrivateUse1")
    elif forward_ad._current_level < 0 and _registered:
        _registered.pop()._destroy()


def observed(original):
    """In the place of the functions that change the level."""

    @wraps(original)
    def change_level(*args, **kwargs):
        level = original(*args, **kwargs)
        observe()
        return level

    return change_level
