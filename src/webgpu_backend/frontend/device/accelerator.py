"""Functions of `torch.accelerator`, which asks C++ hooks that a backend in Python cannot supply."""

from functools import wraps

from . import module, streams


def _answered(answer):
    """In the place of a function that takes a device or nothing."""

    def replacement(original):
        @wraps(original)
        def function(device=None, /):
            return answer(device)

        return function

    return replacement


def _given(answer):
    """In the place of a function that takes nothing, or a number."""

    def replacement(original):
        @wraps(original)
        def function(*args):
            return answer(*args)

        return function

    return replacement


def _exchange(index: int) -> int:
    """Selects a device; a negative number selects none. Returns the one before."""
    before = module.current_device()
    if index >= 0:
        module.set_device(index)
    return before


exchange_device = _given(_exchange)
current_device_index = _given(module.current_device)
synchronize = _answered(module.synchronize)
get_device_capability = _answered(module.get_device_capability)
set_device_index = _answered(module.set_device)
current_stream = _answered(streams.current_stream)
memory_stats = _answered(module.memory_stats)
memory_allocated = _answered(module.memory_allocated)
max_memory_allocated = _answered(module.max_memory_allocated)
memory_reserved = _answered(module.memory_reserved)
max_memory_reserved = _answered(module.max_memory_reserved)
reset_peak_memory_stats = _answered(module.reset_peak_memory_stats)
reset_accumulated_memory_stats = _answered(module.reset_accumulated_memory_stats)
get_memory_info = _answered(module.mem_get_info)
empty_cache = _answered(lambda device: module.empty_cache())
empty_host_cache = _answered(lambda device: None)  # there is no pinned memory to keep
