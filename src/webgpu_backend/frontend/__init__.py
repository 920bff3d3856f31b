"""Where torch and the device meet: registration, views, fallback, the `torch.webgpu` module."""

import importlib

_FAMILIES = ("pointwise", "copy")


def install() -> None:
    """Registers the device and the operator table. Touches no adapter: that waits for the first tensor."""
    from . import device, dispatch, views

    for family in _FAMILIES:
        importlib.import_module(f"..ops.{family}", __package__)
    device.register()
    views.patch_storage()
    dispatch.register()
