"""Which buffers in between share their space: those whose times do not meet."""

from collections.abc import Iterable

from ..program import Window
from ..runtime.blocks import Block
from .recording import Recording, block_of

ALIGNED = 256  # bytes, as blocks have: kernels write whole groups of four, and browsers would move what lies outside


def aligned(nbytes: int) -> int:
    return max(-(-nbytes // ALIGNED) * ALIGNED, ALIGNED)


def extents(recordings: Iterable[Recording]) -> dict[object, int]:
    """Bytes that each buffer of these calls must have, by its place: the most that any of them needs."""
    found: dict[object, int] = {}
    for recording in recordings:
        places = recording.places()
        for value in (*recording.inputs, *recording.outputs):
            if value.block is not None:
                _grow(found, places[value.block], recording.nbytes[value.block])
        for _, buffers in recording.steps:
            for buffer in buffers:
                end = buffer.offset + buffer.size if type(buffer) is Window else recording.nbytes[buffer]
                _grow(found, places[block_of(buffer)], end)
    return found


def _grow(found: dict[object, int], place: object, nbytes: int) -> None:
    found[place] = max(found.get(place, 0), aligned(nbytes))


def spaces(recording: Recording, sizes: dict[object, int], apart: set) -> tuple[dict[object, int], list[int]]:
    """A space for every buffer that is not `apart` (weights have their own), by its place, and the bytes of each space.

    The largest come first, each into the first space in which nothing lives at the same time. WebGPU forbids one buffer
    to be read and written in a dispatch, even in different parts, so spaces are buffers of their own.
    """
    lives = lifetimes(recording, apart)
    homes: dict[object, int] = {}
    bytes_of: list[int] = []
    tenants: list[list[tuple[int, int]]] = []
    for place in sorted(lives, key=lambda p: (-sizes[p], lives[p])):
        first, last = lives[place]
        fitting = [k for k, others in enumerate(tenants) if all(last < a or b < first for a, b in others)]
        if not fitting:
            fitting = [len(tenants)]
            tenants.append([])
            bytes_of.append(sizes[place])
        tenants[fitting[0]].append((first, last))
        homes[place] = fitting[0]
    return homes, bytes_of


def lifetimes(recording: Recording, apart: set) -> dict[object, tuple[int, int]]:
    """The first and the last step of each buffer, by its place: inputs are there before, results afterwards."""
    end = len(recording.steps)
    places = recording.places()
    lives: dict[object, tuple[int, int]] = {}

    def meets(block: Block | None, at: int) -> None:
        place = places.get(block)
        if block is not None and place not in apart:
            first, last = lives.get(place, (at, at))
            lives[place] = (min(first, at), max(last, at))

    for value in recording.inputs:
        meets(value.block, -1)
    for i, (_, buffers) in enumerate(recording.steps):
        for buffer in buffers:
            meets(block_of(buffer), i)
    for value in recording.outputs:
        meets(value.block, end)
    return lives
