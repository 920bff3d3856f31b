"""Which buffers in between share their space: those whose times do not meet."""

from collections.abc import Iterable

from ..program import Window
from ..runtime.blocks import Block
from .recording import Recording, block_of

ALIGNED = 256  # bytes, as blocks have: kernels write whole groups of four, and browsers would move what lies outside


def aligned(nbytes: int) -> int:
    return max(-(-nbytes // ALIGNED) * ALIGNED, ALIGNED)


def extents(recordings: Iterable[Recording]) -> dict[Block, int]:
    """Bytes that each buffer of these calls must have."""
    found: dict[Block, int] = {}
    for recording in recordings:
        for value in (*recording.inputs, *recording.outputs):
            if value.block is not None:
                _grow(found, value.block, value.block.nbytes)
        for _, buffers in recording.steps:
            for buffer in buffers:
                end = buffer.offset + buffer.size if type(buffer) is Window else buffer.nbytes
                _grow(found, block_of(buffer), end)
    return found


def _grow(found: dict[Block, int], block: Block, nbytes: int) -> None:
    found[block] = max(found.get(block, 0), aligned(nbytes))


def spaces(recording: Recording, sizes: dict[Block, int], apart: set[Block]) -> tuple[dict[Block, int], list[int]]:
    """A space for every buffer that is not `apart` (weights have their own), and the bytes of each space.

    The largest come first, each into the first space in which nothing lives at the same time. WebGPU forbids one buffer
    to be read and written in a dispatch, even in different parts, so spaces are buffers of their own.
    """
    lives = _lives(recording, apart)
    homes: dict[Block, int] = {}
    bytes_of: list[int] = []
    tenants: list[list[tuple[int, int]]] = []
    for block in sorted(lives, key=lambda b: (-sizes[b], lives[b])):
        first, last = lives[block]
        fitting = [k for k, others in enumerate(tenants) if all(last < a or b < first for a, b in others)]
        if not fitting:
            fitting = [len(tenants)]
            tenants.append([])
            bytes_of.append(sizes[block])
        k = fitting[0]
        tenants[k].append((first, last))
        homes[block] = k
    return homes, bytes_of


def _lives(recording: Recording, apart: set[Block]) -> dict[Block, tuple[int, int]]:
    """The first and the last step of each buffer: inputs are there before, results afterwards."""
    end = len(recording.steps)
    lives: dict[Block, tuple[int, int]] = {}

    def meets(block: Block | None, at: int) -> None:
        if block is not None and block not in apart:
            first, last = lives.get(block, (at, at))
            lives[block] = (min(first, at), max(last, at))

    for value in recording.inputs:
        meets(value.block, -1)
    for i, (_, buffers) in enumerate(recording.steps):
        for buffer in buffers:
            meets(block_of(buffer), i)
    for value in recording.outputs:
        meets(value.block, end)
    return lives
