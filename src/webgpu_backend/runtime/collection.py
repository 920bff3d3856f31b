"""Garbage collection, put off."""

import gc
from contextlib import contextmanager


@contextmanager
def put_off():
    """Inside, thousands of objects are made that stay: looking for garbage among them and all of torch's meanwhile
    takes half as long again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
