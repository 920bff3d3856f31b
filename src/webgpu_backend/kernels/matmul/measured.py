"""Choices that were measured: where a graph asks for it, a product's kernel is one that was timed, not estimated."""

import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import NamedTuple

from .product import Product
from .tiles import Tile


class Choice(NamedTuple):
    """How a product is computed: by plain tiles, over padded copies of its operands, or with sums in halves."""

    way: str  # tiled, padded or halves
    tile: Tile
    parts: int = 0  # that k is cut into; 0: as many as fill the adapter


class _Here(threading.local):
    ask: Callable[[Product], Choice | None] | None = None


_here = _Here()


@contextmanager
def asking(ask: Callable[[Product], Choice | None]):
    """Inside, on this thread, `ask` is told of every product that has a choice, and may make it."""
    outer, _here.ask = _here.ask, ask
    try:
        yield
    finally:
        _here.ask = outer


def choice(product: Product) -> Choice | None:
    """What was measured for a product; None where estimates decide."""
    return None if _here.ask is None else _here.ask(product)
