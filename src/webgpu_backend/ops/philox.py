"""Streams of random words: one per generator, and the place in each."""

import os
import threading
from struct import pack, unpack
from weakref import WeakValueDictionary

import torch

MASK = (1 << 64) - 1
_DEFAULT_SEED = 67280421310721  # torch's own, for a process that sets none


class Drawn(bytes):
    """Parameters that have a stream's place in them, from byte `at` on: the `draw`-th of a call that is planned."""

    def __new__(cls, data: bytes, at: int, draw: int):
        self = super().__new__(cls, data)
        self.at, self.draw = at, draw
        return self

    def __add__(self, rest: bytes) -> "Drawn":
        return Drawn(bytes.__add__(self, rest), self.at, self.draw)

    def __radd__(self, first: bytes) -> "Drawn":
        return Drawn(first + bytes(self), self.at + len(first), self.draw)


class Philox:
    """A stream of random words: a key, and how many counters have been used."""

    draws: list | None = None  # what is taken from any stream while a call is planned: stream and elements

    def __init__(self, seed: int = _DEFAULT_SEED):
        self.lock = threading.Lock()
        self.restart(seed)

    def restart(self, seed: int) -> None:
        self.seed = int(seed) & MASK
        self.offset = 0

    def take(self, elements: int) -> bytes:
        """Key and first counter for so many elements, packed as kernels read them."""
        with self.lock:
            offset = self.offset
            self.offset = (offset + -(-elements // 4)) & MASK
        taken = pack("<QQ", self.seed, offset)
        if Philox.draws is not None:
            Philox.draws.append((self, elements))
            return Drawn(taken, 0, len(Philox.draws) - 1)
        return taken


def skipped(taken: bytes, elements: int) -> bytes:
    """What take gave, for the elements from there on."""
    seed, offset = unpack("<QQ", taken)
    return pack("<QQ", seed, (offset + elements // 4) & MASK)


DEFAULT = Philox()
# Kernels get a fresh wrapper around the C++ generator, so ours are found by its address.
STREAMS: WeakValueDictionary[int, Philox] = WeakValueDictionary()


def stream(generator) -> Philox:
    """The stream behind a generator; one of the CPU's seeds a stream of its own at each call."""
    if generator is None:
        return DEFAULT
    found = STREAMS.get(generator._cdata)
    if found is None:
        found = Philox(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
    return found


def fresh_seed() -> int:
    return int.from_bytes(os.urandom(8), "little") >> 1
