"""Views, storages and sizes: metadata only, no kernel runs here."""

import torch

from ... import tensor as T
from ...kernels.layout import contiguous_strides
from ...ops.shape.creation import check_layout
from ...ops.table import custom
from ...plan.run import planning_here
from ..device.storage import resize_storage

aten = torch.ops.aten
_CPU = torch._C.DispatchKey.CPU


def _dtype(dtype):
    return torch.get_default_dtype() if dtype is None else dtype


def strides_for(sizes, memory_format) -> tuple[int, ...]:
    if memory_format in (None, torch.contiguous_format, torch.preserve_format):
        return contiguous_strides(sizes)
    return torch.empty(sizes, device="meta", memory_format=memory_format).stride()


def _known(tensor: torch.Tensor) -> torch.Tensor:
    """What nobody has written, as torch wants it with deterministic algorithms: NaN, or the largest integer."""
    if not (torch.are_deterministic_algorithms_enabled() and torch.utils.deterministic.fill_uninitialized_memory):
        return tensor
    dtype = tensor.dtype
    if dtype.is_floating_point or dtype.is_complex:
        return tensor.fill_(torch.nan)
    return tensor.fill_(True if dtype is torch.bool else torch.iinfo(dtype).max)


@custom("empty.memory_format")
def empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    check_layout(layout)
    return _known(T.empty(size, _dtype(dtype), strides_for(size, memory_format)))


@custom("empty_strided")
def empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    check_layout(layout)
    return _known(T.empty(size, _dtype(dtype), stride))


@custom("_efficientzerotensor")
def efficient_zero_tensor(size, dtype=None, layout=None, device=None, pin_memory=None):
    """torch's stand-in for a gradient of zeros has no memory; forward-mode differentiation takes real zeros as well."""
    return T.empty(size, _dtype(dtype)).zero_()


custom("as_strided", refuses=False)(T.as_strided)


def _cpu_kernel(overload):
    """torch's own CPU kernel: it touches sizes and strides only."""
    call = overload._op_dk
    return lambda *args, **kwargs: call(_CPU, *args, **kwargs)


for _name in ("_reshape_alias", "unfold", "is_set_to", "view_as_real", "view_as_complex"):
    custom(_name, planned=False)(_cpu_kernel(getattr(aten, _name).default))
for _name in ("source_Storage", "source_Storage_storage_offset", "source_Tensor"):
    custom(f"set_.{_name}", planned=False)(_cpu_kernel(getattr(aten.set_, _name)))


@custom("set_", planned=False)
def set_(self):
    return aten.set_.source_Storage(self, T.empty((0,), self.dtype).untyped_storage())


@custom("_has_compatible_shallow_copy_type", planned=False)
def has_compatible_shallow_copy_type(self, other):
    """Whether `self.data = other` may be. torch lists the backends it knows; without this, `Module.to` would make new
    parameters, which unties shared weights and loses an optimizer made before the move."""
    return all(x.layout is torch.strided and x.device.type in ("cpu", T.NAME) for x in (self, other))


@custom("resize_", planned=False)
def resize_(self, size, memory_format=None):
    if memory_format is None and self.shape == tuple(size):
        return self  # as it lies: a view stays the view it is
    if planning_here() is not None:
        raise T.Unplannable("another size for a tensor")
    strides = strides_for(size, memory_format)
    storage = self.untyped_storage()
    if 0 not in size:
        last = self.storage_offset() + 1 + sum((s - 1) * st for s, st in zip(size, strides))
        need, had = last * self.element_size(), storage.nbytes()
        if had < need:
            resize_storage(storage, need)
            if torch.are_deterministic_algorithms_enabled():
                whole = T.empty((0,), self.dtype).set_(storage)
                _known(whole[had // self.element_size() :])
    return aten.set_.source_Storage_storage_offset._op_dk(_CPU, self, storage, self.storage_offset(), size, strides)


@custom("record_stream", planned=False)
def record_stream(self, s):
    """One queue, in order: memory is never reused too early."""
