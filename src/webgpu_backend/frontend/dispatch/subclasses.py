"""Tensors whose class, or whose mode, takes operators into its own hands: they see torch's composites, not ours.

Some operators that torch composes of others have kernels here, and torch would hand such an operator to a subclass
whole, where every other device hands it the parts. Tensors with a `__torch_dispatch__`, and all tensors while a mode is
on, carry a dispatch key above autograd, PythonTLSSnapshot. A kernel at that key sees them alone, so tensors without it
pay nothing. Where autograd is what comes next on this device, the parts are called. Everything else goes on as if there
were no such kernel: other devices, mixed precision and transforms, which come back to it, and what is below autograd.
"""

import threading
from collections.abc import Callable

import torch

from ...dtypes import Unsupported
from ...ops.table import APART, TRACED, overload_named
from ..graphs import backend

_Key = torch._C.DispatchKey
_AFTER = torch._C._dispatch_keyset_full_after(_Key.PythonTLSSnapshot)
_has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
_registered = torch._C._dispatch_get_registrations_for_dispatch_key
_NAMESPACE = "webgpu_onward"
# Where an operator that goes on may be taken up: torch's own fallback for the key hands it to the next one.
_NEXT = ("CompositeImplicitAutograd", "Python", "Functionalize", "FuncTorchBatched", "FuncTorchGradWrapper")


def _untraced(*args, **kwargs):
    raise Unsupported("webgpu: a graph is made of what torch knows")


_libraries: list[torch.library.Library] = []  # live as long as their registrations


class _Here(threading.local):
    keys: list | None = None


_here = _Here()


def replaced() -> list[str]:
    """Operators that torch composes of others, on the CPU too, and that have a kernel of ours."""
    ours = {name for key in ("PrivateUse1", "AutogradPrivateUse1") for name in _registered(key)}
    composed = (name for name in ours if name.startswith("aten::") and _has_kernel(name, "CompositeImplicitAutograd"))
    return sorted(name for name in composed if not _has_kernel(name, "CPU"))


def register(implement: Callable) -> None:
    """Kernels for the operators that are replaced."""
    onward = torch.library.Library(_NAMESPACE, "DEF")
    _libraries.append(onward)
    for name in replaced():
        _register(implement, onward, overload_named(name.removeprefix("aten::")))


def _register(implement: Callable, onward: torch.library.Library, overload) -> None:
    name = overload.name().removeprefix("aten::")
    schema = str(overload._schema).removeprefix("aten::")
    own = name.replace(".", "_")
    onward.define(own + schema[schema.index("(") :])
    go_on = getattr(getattr(torch.ops, _NAMESPACE), own).default

    def again(*args, **kwargs):
        return overload.redispatch(_here.keys.pop(), *args, **kwargs)

    for key in _NEXT:
        onward.impl(own, again, key)
    traced, apart = TRACED.get(name, _untraced), APART.get(name, _untraced)
    whole = not _has_kernel(overload.name(), "AutogradPrivateUse1")  # torch has a gradient for it: it stays in graphs

    def kernel(keys, *args, **kwargs):
        keys = keys & _AFTER
        dispatcher = keys.has(_Key.PythonDispatcher)
        following = (keys.remove(_Key.PythonDispatcher) if dispatcher else keys).highestPriorityTypeId()
        if following == _Key.AutogradPrivateUse1 and not (backend.tracing and whole):
            for stand_in in (traced, apart) if backend.tracing else (apart,):
                try:
                    return stand_in(*args, **kwargs)
                except Unsupported:
                    pass  # what the entry leaves to torch
            if dispatcher:  # perhaps with a composite in Python, for sizes that are symbols
                return overload.decompose(*args, **kwargs)
            return overload._op_dk(_Key.CompositeImplicitAutograd, *args, **kwargs)
        if _here.keys is None:
            _here.keys = []
        # Through torch's fallback for the key, which notes the state that a `__torch_dispatch__` is called with.
        _here.keys.append(keys)
        return go_on(*args, **kwargs)

    implement(overload, kernel, "PythonTLSSnapshot", with_keyset=True)
