"""The random stream behind each generator."""

import os
from weakref import WeakValueDictionary

import torch

from ...plan import Philox

DEFAULT = Philox()
# Kernels get a fresh wrapper around the C++ generator, so ours are found by its address.
STREAMS: WeakValueDictionary[int, Philox] = WeakValueDictionary()


class _Passing(Philox):
    """A stream made for one call."""

    lasting = False


def stream(generator) -> Philox:
    """The stream behind a generator; one of the CPU's seeds a stream of its own at each call."""
    if generator is None:
        return DEFAULT
    found = STREAMS.get(generator._cdata)
    if found is None:
        found = _Passing(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
    return found


def fresh_seed() -> int:
    return int.from_bytes(os.urandom(8), "little") >> 1
