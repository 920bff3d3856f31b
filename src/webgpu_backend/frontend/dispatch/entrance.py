"""The one function that torch calls for every operator without a kernel of ours: before the first use, all of them."""

import torch

from ...runtime import collection
from ...runtime import gpu as runtime
from .. import first_use

_libraries: list[torch.library.Library] = []  # live as long as their registrations
_has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key


def register() -> None:
    boxed = torch.library.Library("_", "IMPL")
    boxed.fallback(_dense, "PrivateUse1")
    boxed.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for key, kind in (
        ("SparsePrivateUse1", "sparse"),
        ("SparseCsrPrivateUse1", "compressed sparse"),
        ("NestedTensorPrivateUse1", "nested (strided layout)"),
        ("QuantizedPrivateUse1", "quantized"),
    ):
        boxed.fallback(_refusing(key, kind), key)
    # The DataLoader pins what it loads; memory that a driver has pinned is nothing WebGPU offers, a copy is.
    aten = torch.library.Library("aten", "IMPL")
    aten.impl("_pin_memory", lambda self, device=None: self.clone(), "CPU")
    aten.impl("_to_copy", _quantized, "QuantizedPrivateUse1")
    _libraries.extend((boxed, aten))


def _dense(op, *args, **kwargs):
    if first_use.is_complete:
        return _run(op, args, kwargs)
    with collection.put_off():
        first_use.complete()
        from ..device.signals import Held

        with Held():  # the operator opens the device, most likely: an import that is broken off cannot be repeated
            return _run(op, args, kwargs)


def _run(op, args, kwargs):
    from ...plan.places import elsewhere, moved
    from .fallback import boxed, native

    if runtime.several or kwargs.get("device") is not None:
        other = elsewhere(args, kwargs, op.name().removeprefix("aten::"))
        if other is not None:
            return moved(_run, other, (op, args, kwargs), {})
    # A kernel may have been registered since torch looked for one.
    return op(*args, **kwargs) if native(op) else boxed(op, *args, **kwargs)


def _quantized(self, **how):
    first_use.complete()
    from .quantized import from_cpu

    return from_cpu(self, **how)


def _refusing(key: str, kind: str):
    def kernel(op, *args, **kwargs):
        first_use.complete()
        if _has_kernel(op.name(), key):
            return op(*args, **kwargs)
        from .sparse import refusal

        raise refusal(kind, op.name())

    return kernel
