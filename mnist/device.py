"""Which device the demo runs on, and what it can say about it."""

import torch


def select(name: str) -> torch.device:
    """The device by name. `import torch` loads the backend where it is installed; from a bare checkout this does."""
    if name.startswith("webgpu"):
        import webgpu_backend  # noqa: F401

    return torch.device(name)


def describe(device: torch.device) -> str:
    """The adapter's own name, or how many threads stand in for one."""
    if device.type == "webgpu":
        return torch.webgpu.get_device_name(device)
    return f"{device.type}, {torch.get_num_threads()} threads"


def fallbacks(device: torch.device) -> dict[str, int]:
    """Operators that left the device so far, by aten name."""
    if device.type != "webgpu":
        return {}
    import webgpu_backend

    return webgpu_backend.fallbacks()
