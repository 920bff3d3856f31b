"""Where torch and the device meet: registration, views, fallback, the `torch.webgpu` module."""

import importlib
import pkgutil


def install() -> None:
    """Registers the device and the operator table. Touches no adapter: that waits for the first tensor."""
    from .. import ops
    from .device import module, storage
    from .dispatch import registration
    from .integrations import distributed, float64, optimizers, packages

    for found in pkgutil.walk_packages(ops.__path__, f"{ops.__name__}."):
        importlib.import_module(found.name)
    module.register()
    storage.patch_storage()
    storage.patch_dlpack()
    float64.patch()
    optimizers.patch()
    packages.patch()
    registration.register()
    distributed.register()
