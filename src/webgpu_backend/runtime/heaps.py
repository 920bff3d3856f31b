"""How much memory a Vulkan adapter has. WebGPU tells no one; its driver, asked directly, does. ctypes only."""

import ctypes
import struct
import sys

_HEAPS = 264  # VkPhysicalDeviceMemoryProperties: a count and 32 types of 8 bytes, then the count of heaps and the heaps
_DEVICE_LOCAL = 1


def device_memory(vendor: int, device: int) -> int | None:
    """Bytes of the largest heap of the adapter's own; None where Vulkan does not know the adapter."""
    try:
        vulkan = ctypes.CDLL("vulkan-1.dll" if sys.platform == "win32" else "libvulkan.so.1")
        create, destroy = vulkan.vkCreateInstance, vulkan.vkDestroyInstance
        enumerate_, properties = vulkan.vkEnumeratePhysicalDevices, vulkan.vkGetPhysicalDeviceProperties
        memory = vulkan.vkGetPhysicalDeviceMemoryProperties
    except (OSError, AttributeError):
        return None
    instance = ctypes.c_void_p()
    info = ctypes.create_string_buffer(struct.pack("<I4xQI4xQI4xQI4xQ", 1, 0, 0, 0, 0, 0, 0, 0))  # nothing but its type
    if create(info, None, ctypes.byref(instance)):
        return None
    try:
        count = ctypes.c_uint32(64)
        found = (ctypes.c_void_p * count.value)()
        if enumerate_(instance, ctypes.byref(count), found) not in (0, 5):  # success, or more than there is room for
            return None
        for handle in found[: count.value]:
            data = ctypes.create_string_buffer(4096)
            properties(ctypes.c_void_p(handle), data)
            if struct.unpack_from("<II", data, 8) != (vendor, device):
                continue
            memory(ctypes.c_void_p(handle), data)
            (heaps,) = struct.unpack_from("<I", data, _HEAPS - 4)
            sizes = [struct.unpack_from("<QI", data, _HEAPS + 16 * k) for k in range(min(heaps, 16))]
            return max((size for size, flags in sizes if flags & _DEVICE_LOCAL), default=None)
    finally:
        destroy(instance, None)
    return None
