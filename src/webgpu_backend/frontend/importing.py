"""Modules that are told of as they are imported, now or later or never."""

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Iterable


class _Finder(importlib.abc.MetaPathFinder):
    """Calls a function with a module's name as soon as that is loaded."""

    def __init__(self, names: Iterable[str], tell: Callable[[str], None]):
        self.tell = tell
        self.waiting = set(names)  # nobody has asked for these
        self.loading: set[str] = set()  # these import torch, and us with it

    def look(self) -> None:
        """At what is there already."""
        for name in [*self.waiting, *self.loading]:
            module = sys.modules.get(name)
            if module is None:
                continue
            self.waiting.discard(name)
            if getattr(module.__spec__, "_initializing", False):
                self.loading.add(name)
            else:
                self.loading.discard(name)
                self.tell(name)

    def find_spec(self, name, path=None, target=None):
        if self.loading:
            self.look()
        if name not in self.waiting:
            return None
        self.waiting.remove(name)  # the search below comes here again
        spec = importlib.util.find_spec(name)
        if spec is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                self.tell(name)

            spec.loader.exec_module = exec_module
        return spec


def watch(names: Iterable[str], tell: Callable[[str], None]) -> None:
    """`tell(name)` for each module, once it is imported."""
    finder = _Finder(names, tell)
    finder.look()
    sys.meta_path.insert(0, finder)
