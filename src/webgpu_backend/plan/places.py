"""Several devices: a call goes to the device that its tensors are on.

Nothing here is met while a process uses one device. Once a second one is open, short forms are written anew, with a
look at where their first tensor is, and whatever else torch calls asks `elsewhere` first.
"""

import torch

from .. import tensor as T
from ..runtime import gpu as runtime
from . import run

# These take tensors of different devices: copies, and what compares or exchanges metadata alone.
CROSSING = frozenset(
    ("_copy_from", "_copy_from_and_resize", "_to_copy", "_has_compatible_shallow_copy_type", "is_set_to",
     "record_stream", "set_.source_Tensor", "set_.source_Storage", "set_.source_Storage_storage_offset")
)  # fmt: skip


on = runtime.on


def several() -> bool:
    """Whether more than one device has been opened."""
    return runtime.several


def crosses(name: str) -> bool:
    """Whether an operator takes tensors of different devices. Those over lists take them one by one."""
    return name in CROSSING or name.startswith("_foreach_")


def elsewhere(args, kwargs, name: str = "") -> int | None:
    """The device that a call is for, where that is not the current one: the one it names, else its tensors'. Tensors of
    two devices are an error."""
    wanted, found = _asked((*args, *kwargs.values()), name)
    if wanted is None:
        wanted = found
    return None if wanted == runtime.current() else wanted


def owner(uid: int) -> int | None:
    """The device that has a block of this number."""
    for device in runtime.opened():
        if device.pool.blocks[uid] is not None:
            return device.index
    return None


def _asked(values, name: str) -> tuple[int | None, int | None]:
    """The device that is named among the arguments of a call, and that of its tensors."""
    named = found = None
    for value in values:
        for x in value if value.__class__ in (list, tuple) else (value,):
            if isinstance(x, torch.Tensor):
                device = x.device
                if device.type != T.NAME:
                    continue
                if found is not None and device.index != found and not crosses(name):
                    raise T.two_devices(f"aten::{name}", device, torch.device(T.NAME, found))
                found = device.index if found is None else found
            elif x.__class__ is torch.device and x.type == T.NAME:
                named = runtime.current() if x.index is None else x.index
    return named, found


def leaving() -> BaseException:
    """What is raised where a plan in the making, or a region that is captured, leaves its device."""
    planning = run.planning_here()
    return planning.left() if planning is not None else T.Unplannable("another device")


def moved(call, index: int, args, kwargs):
    """The call, with that device as the current one."""
    if run.planning is not None and run.planning_here() is not None:
        raise leaving()
    before = runtime.exchange(index)
    try:
        return call(*args, **kwargs)
    finally:
        runtime.exchange(before)


def placed(call, name: str):
    """A function that torch calls, on the device that its arguments are for."""

    def kernel(*args, **kwargs):
        if runtime.several:
            index = elsewhere(args, kwargs, name)
            if index is not None:
                return moved(call, index, args, kwargs)
        return call(*args, **kwargs)

    return kernel


def _separate() -> None:
    """A second device is about to be there. No plan is in the making meanwhile."""
    from . import capture, forms, outline

    if run.planning_here() is not None:
        raise leaving()
    with capture.lock, outline.lock:
        T.separate()
        run.separate()
        forms.separate()


runtime.on_several.append(_separate)
