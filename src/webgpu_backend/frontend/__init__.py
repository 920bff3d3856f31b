"""Where torch and the device meet: registration, views, fallback, the `torch.webgpu` module."""

import importlib
import pkgutil


def install() -> None:
    """Registers the device and the operator table. Touches no adapter: that waits for the first tensor."""
    from .. import ops
    from . import device, dispatch, distributed, doubles, optimizers, packages, views

    for module in pkgutil.iter_modules(ops.__path__):
        importlib.import_module(f"{ops.__name__}.{module.name}")
    device.register()
    views.patch_storage()
    views.patch_dlpack()
    doubles.patch()
    optimizers.patch()
    packages.patch()
    dispatch.register()
    distributed.register()
