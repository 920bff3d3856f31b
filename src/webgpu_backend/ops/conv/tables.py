"""The tables that a convolution's kernel reads its image through."""

from typing import NamedTuple

import torch

from ... import tensor as T
from ...kernels.layout import numel
from ...plan import caps, constant, launch
from ...program import Plan

BITS = 27  # one for each tap of each dimension's window, and three to spare
ALWAYS, NEVER = 1 << 30, 1 << 31  # bits of every tap; of every position, and of taps that are none
_MOST_PLACES = 1 << 22
_MOST_BYTES = 1 << 28  # of all tables kept
_PAD = 64  # taps are read in whole steps of k

_tables: dict[tuple, tuple[torch.Tensor, torch.Tensor]] = {}
_bytes = 0


def floats(dtype: torch.dtype) -> bool:
    """Whether this adapter and dtype have kernels of their own, rather than a general product's."""
    return caps().kind == "gpu" and dtype in (torch.float32, torch.float16, torch.bfloat16)


def bindable(elements: int, *tensors) -> bool:
    """Whether the tensors, and a result of so many elements, can be bound whole: larger ones are products in parts."""
    limit = caps().max_binding
    return 4 * elements <= limit and all(T.block_of(t).size <= limit for t in tensors if t.numel())


def served(dtype: torch.dtype, rows: int | None, window, places: int) -> bool:
    """Whether the table-driven kernels take this: a big GPU, floats, enough rows to share what is gathered."""
    enough = rows is None or rows > 8
    return floats(dtype) and enough and sum(k for k in window if k > 1) <= BITS and 0 < places <= _MOST_PLACES


def convolve(plan: Plan, a, b, bias, out, geometry: tuple, read: tuple = (None, None)) -> None:
    """Runs a plan over the operands, the output, what is `read` at the end and the tables for a geometry: what `tables`
    takes."""
    reads = {place for step in plan.steps for place in step.bindings}
    launch(plan, a, b, bias, out, *read, *(_kept(geometry) if reads & {6, 7} else (None, None)))


def _kept(geometry: tuple) -> tuple[torch.Tensor, torch.Tensor]:
    """The tables for a geometry, made once. Plans hold on to them for as long as they are kept here."""
    global _bytes
    key = (T.here().index, *geometry)
    found = _tables.get(key)
    if found is None:
        made = tables(*geometry)
        found = tuple([constant(lambda t=t: t.to(torch.int32).to(T.here())) for t in made])
        if _bytes > _MOST_BYTES:
            _tables.clear()
            _bytes = 0
        _bytes += 4 * sum(t.numel() for t in found)
        _tables[key] = found
    return found


def tables(moved: bool, channels: int, sizes, strides, positions, window, step, padding, dilation, phase=None):
    """Taps [channels * taps, 2] and places [positions, 4], as words modulo 2^32.

    `sizes` and `strides` (channel first) are the image's. With `moved` the window moves over the positions instead of
    the image (a transposed convolution). With a `phase`, taps are four words and places are scattered.
    """
    first_bit = 0
    taps = torch.arange(channels, device="cpu").view(-1, 1, 1, 1) * strides[0]
    tap_bits = torch.full((1, 1, 1, 1), ALWAYS, device="cpu")
    places = torch.zeros((1, 1, 1), dtype=torch.int64, device="cpu")
    place_bits = torch.full((1, 1, 1), -NEVER, device="cpu")
    for d in range(3):
        shape = [-1 if d == axis else 1 for axis in range(3)]
        place, tap = torch.arange(positions[d], device="cpu"), torch.arange(window[d], device="cpu") * dilation[d]
        if moved:
            reach = (place + padding[d]).view(-1, 1) - tap
            at = reach.div(step[d], rounding_mode="floor")
            outside = (reach < 0) | (reach % step[d] != 0) | (at >= sizes[d])
            offset, tap_offset = (place + padding[d]) // step[d], -(tap // step[d])
        else:
            at = (place * step[d] - padding[d]).view(-1, 1) + tap
            outside = (at < 0) | (at >= sizes[d])
            offset, tap_offset = place * step[d] - padding[d], tap
        taps = taps + tap_offset.view(1, *shape) * strides[1 + d]
        places = places + offset.view(shape) * strides[1 + d]
        if window[d] > 1 or bool(outside.any()):
            bits = 1 << (torch.arange(window[d], device="cpu") + first_bit)
            tap_bits = tap_bits + bits.view(1, *shape)
            place_bits = place_bits + (outside * bits).sum(1).view(shape)
            first_bit += window[d]
    k, count = channels * numel(window), numel(positions)
    tap_table = torch.zeros((-(-k // _PAD) * _PAD, 2 if phase is None else 4), dtype=torch.int64, device="cpu")
    tap_table[k:, 1] = -NEVER
    tap_table[:k, 0] = taps.flatten()
    tap_table[:k, 1] = tap_bits.expand(channels, *window).flatten()
    place_table = torch.zeros((count, 4), dtype=torch.int64, device="cpu")
    place_table[:, 0] = places.expand(*positions).flatten()
    place_table[:, 1] = place_bits.expand(*positions).flatten()
    if phase is not None:
        rows = torch.arange(channels, device="cpu").view(-1, 1, 1, 1) * numel(phase.window) + phase.tap(window)
        tap_table[:k, 2] = rows.flatten()
        place_table[:, 2] = phase.place(positions).flatten()
    return tap_table, place_table


class Phase(NamedTuple):
    """Every stride-th tap of a window and every stride-th place of an output; three numbers per dimension each."""

    first_tap: tuple
    first_place: tuple
    stride: tuple
    window: tuple  # whole
    sizes: tuple  # of the whole output

    def tap(self, counts) -> torch.Tensor:
        return _grid(self.first_tap, self.stride, counts, self.window)

    def place(self, counts) -> torch.Tensor:
        return _grid(self.first_place, self.stride, counts, self.sizes)


def _grid(first, steps, counts, sizes) -> torch.Tensor:
    """Places in a contiguous block of three dimensions."""
    z, y, x = (torch.arange(n, device="cpu") * s + f for f, s, n in zip(first, steps, counts))
    return (z.view(-1, 1, 1) * sizes[1] + y.view(1, -1, 1)) * sizes[2] + x
