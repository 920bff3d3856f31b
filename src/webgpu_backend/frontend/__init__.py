"""Where torch and the device meet: registration, views, fallback, the `torch.webgpu` module.

`install` is what `import torch` waits for: the device's name, its module and one function for all operators. The first
operator that needs more has `first_use` import the operators and register every one of them.
"""

from ..runtime import collection


@collection.put_off()
def install() -> None:
    """Registers the device. Touches no adapter and imports no operator: both wait for the first tensor."""
    import torch  # noqa: F401  which all of these look into

    from webgpu_backend_autoload import accelerator

    from ..env import tell
    from . import first_use, importing, patches

    patches.require()  # before the modules that take what it names

    from .device import module
    from .dispatch import entrance

    module.register()
    patches.apply(patches.IMPORT)
    entrance.register()
    importing.watch(patches.modules(), patches.apply)
    importing.watch(first_use.LIBRARIES.values(), first_use.loaded)
    if accelerator():
        from .device.guard import beside

        tell(beside())
