"""The random stream behind each generator."""

import os
from weakref import WeakValueDictionary

import torch

from ... import tensor as T
from ...plan import Philox
from ...plan.draws import DEFAULT_SEED

_defaults: dict[int, Philox] = {}  # by device
_seed = DEFAULT_SEED  # of devices that nobody has drawn from yet


def default(index: int | None = None) -> Philox:
    """The stream of a device, the current one where none is named."""
    index = T.here().index if index is None else index
    found = _defaults.get(index)
    return _defaults.setdefault(index, Philox(_seed)) if found is None else found


def restart_all(seed: int) -> None:
    """Begins the streams of all devices with a seed."""
    global _seed
    _seed = seed
    for philox in list(_defaults.values()):
        philox.restart(seed)


# Kernels get a fresh wrapper around the C++ generator, so ours are found by its address.
STREAMS: WeakValueDictionary[int, Philox] = WeakValueDictionary()


class _Passing(Philox):
    """A stream made for one call."""

    lasting = False


def stream(generator) -> Philox:
    """The stream behind a generator; one of the CPU's seeds a stream of its own at each call."""
    if generator is None:
        return default()
    found = STREAMS.get(generator._cdata)
    if found is None:
        found = _Passing(torch.empty((), dtype=torch.int64, device="cpu").random_(generator=generator).item())
    return found


def fresh_seed() -> int:
    return int.from_bytes(os.urandom(8), "little") >> 1
