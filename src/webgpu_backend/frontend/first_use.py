"""The rest of the installation, at the first use of the device: operators, their registration, the other patches."""

import importlib
import os
import pkgutil
import sys
from threading import RLock

from ..runtime import collection
from . import patches

LIBRARIES = {"torchvision": "torchvision.extension"}
"""Namespaces of operators that the table has entries for and torch has not: the module that brings them."""

_lock = RLock()
_running = False
_failed: BaseException | None = None
is_complete = False


def complete() -> None:
    """Makes the installation complete. Threads that come together wait for the first."""
    global is_complete, _running, _failed
    if is_complete:
        return
    with _lock:
        if is_complete or _running:  # an operator that the installation itself calls
            return
        if _failed is not None:
            raise RuntimeError(f"webgpu: the device could not be set up: {_failed}") from _failed
        _running = True
        try:
            _install()
            is_complete = True
        except BaseException as error:
            _failed = error
            raise
        finally:
            _running = False


def _install() -> None:
    patches.apply(patches.SIGNALS)
    from .device.signals import Held

    with Held(), collection.put_off():
        import_operators()
        from .dispatch import forward_mode, registration, world
        from .integrations import distributed

        patches.apply(patches.FIRST_USE)
        world.observe()
        forward_mode.observe()
        distributed.register()
        registration.register()
        for space, module in LIBRARIES.items():
            if module in sys.modules:
                registration.register_library(space)


def loaded(module: str) -> None:
    """A library has brought operators of its own."""
    if is_complete:
        from .dispatch import registration

        for space, brings in LIBRARIES.items():
            if brings == module:
                registration.register_library(space)


def import_operators() -> None:
    """Fills the table: each module enters its operators."""
    from .. import ops
    from .dispatch import metadata  # noqa: F401

    for found in pkgutil.walk_packages(ops.__path__, f"{ops.__name__}."):
        importlib.import_module(found.name)


def _after_fork() -> None:
    global _lock
    _lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
