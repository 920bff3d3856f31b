"""What a Vulkan driver says of an adapter and WebGPU does not: its memory and its matrix units. ctypes only."""

import ctypes
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_HEAPS = 264  # VkPhysicalDeviceMemoryProperties: a count and 32 types of 8 bytes, then the count of heaps and the heaps
_DEVICE_LOCAL = 1
_VERSION_1_1 = 1 << 22 | 1 << 12
_FLOAT16, _FLOAT32 = 0, 1  # VkComponentTypeKHR
_SUBGROUP = 3  # VkScopeKHR


@contextmanager
def _physical_device(vendor: int, device: int) -> Iterator[tuple]:
    """The loader, an instance, and the adapter's handle in it: None where Vulkan does not know the adapter."""
    try:
        vulkan = ctypes.CDLL("vulkan-1.dll" if sys.platform == "win32" else "libvulkan.so.1")
        create, destroy = vulkan.vkCreateInstance, vulkan.vkDestroyInstance
        enumerate_, properties = vulkan.vkEnumeratePhysicalDevices, vulkan.vkGetPhysicalDeviceProperties
    except (OSError, AttributeError):
        yield None, None, None
        return
    instance = ctypes.c_void_p()
    application = ctypes.create_string_buffer(struct.pack("<I4xQQI4xQII", 0, 0, 0, 0, 0, 0, _VERSION_1_1))
    about = ctypes.addressof(application)
    info = ctypes.create_string_buffer(struct.pack("<I4xQI4xQI4xQI4xQ", 1, 0, 0, about, 0, 0, 0, 0))
    if create(info, None, ctypes.byref(instance)):
        yield None, None, None
        return
    try:
        count = ctypes.c_uint32(64)
        handles = (ctypes.c_void_p * count.value)()
        found = None
        if enumerate_(instance, ctypes.byref(count), handles) in (0, 5):  # success, or more than there is room for
            data = ctypes.create_string_buffer(4096)
            for handle in handles[: count.value]:
                properties(ctypes.c_void_p(handle), data)
                if struct.unpack_from("<II", data, 8) == (vendor, device):
                    found = ctypes.c_void_p(handle)
                    break
        yield vulkan, instance, found
    finally:
        destroy(instance, None)


def device_memory(vendor: int, device: int) -> int | None:
    """Bytes of the largest heap of the adapter's own; None where Vulkan does not know the adapter."""
    with _physical_device(vendor, device) as (vulkan, _, handle):
        if handle is None:
            return None
        data = ctypes.create_string_buffer(4096)
        vulkan.vkGetPhysicalDeviceMemoryProperties(handle, data)
        (heaps,) = struct.unpack_from("<I", data, _HEAPS - 4)
        sizes = [struct.unpack_from("<QI", data, _HEAPS + 16 * k) for k in range(min(heaps, 16))]
        return max((size for size, flags in sizes if flags & _DEVICE_LOCAL), default=None)


def matrix_sizes(vendor: int, device: int) -> set[int]:
    """The n for which a subgroup of the adapter multiplies n by n matrices of float16 and adds up in float32."""
    with _physical_device(vendor, device) as (vulkan, instance, handle):
        if handle is None:
            return set()
        vulkan.vkGetInstanceProcAddr.restype = ctypes.c_void_p
        found = vulkan.vkGetInstanceProcAddr(instance, b"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")
        if not found:
            return set()
        ask = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(found)
        count = ctypes.c_uint32()
        if ask(handle, ctypes.byref(count), None) or not count.value:
            return set()
        # VkCooperativeMatrixPropertiesKHR: its type, a chain, then m, n, k, the types of a, b, c, result, and two more.
        entry = struct.Struct("<I4xQ9I4x")
        data = ctypes.create_string_buffer(entry.pack(1000506001, *[0] * 10) * count.value)
        if ask(handle, ctypes.byref(count), data) not in (0, 5):
            return set()
        wanted = (_FLOAT16, _FLOAT16, _FLOAT32, _FLOAT32)
        rows = [entry.unpack_from(data, entry.size * i)[2:] for i in range(count.value)]
        return {m for m, n, k, *types, _, scope in rows if m == n == k and (*types, scope) == (*wanted, _SUBGROUP)}


def subgroup_width(vendor: int, device: int) -> int:
    """Lanes of each subgroup of the adapter; 0 where they vary or nobody says."""
    with _physical_device(vendor, device) as (vulkan, _, handle):
        if handle is None or not hasattr(vulkan, "vkGetPhysicalDeviceProperties2"):
            return 0
        # VkPhysicalDeviceSubgroupSizeControlProperties behind VkPhysicalDeviceProperties2: least and largest size.
        sizes = ctypes.create_string_buffer(struct.pack("<I4xQ4I", 1000225000, 0, 0, 0, 0, 0))
        data = ctypes.create_string_buffer(struct.pack("<I4xQ", 1000059001, ctypes.addressof(sizes)), 4096)
        vulkan.vkGetPhysicalDeviceProperties2(handle, data)
        least, most = struct.unpack_from("<II", sizes, 16)
        return least if least == most else 0
