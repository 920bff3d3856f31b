"""From tensors to the queue: the one way an operator runs a kernel."""

import torch

from . import tensor as T
from .program import Caps, Program, Window
from .runtime.gpu import gpu


def launch(program: Program, tensors: tuple, params: bytes, grid: tuple[int, int, int]) -> None:
    """Records one dispatch over the blocks under `tensors`, in binding order. A tensor may be given as a window."""
    blocks = tuple([t if type(t) is Window else T.block_of(t) for t in tensors])
    gpu().queue.record(program, blocks, params, grid)


def launch_guarded(program: Program, tensors: tuple, params: bytes, grid: tuple[int, int, int]) -> None:
    """As launch, for a kernel that reports bad indices: `runtime.faults` is its last binding."""
    blocks = tuple([t if type(t) is Window else T.block_of(t) for t in tensors])
    gpu().queue.record_guarded(program, blocks, params, grid)


def windows(tensor: torch.Tensor):
    """Parts of a block too large for one binding: (window, its first element, the one past its last)."""
    block, item, limit = T.block_of(tensor), tensor.element_size(), gpu().queue.caps.max_binding & ~255
    for start in range(0, block.size, limit):
        size = min(limit, block.size - start)
        yield Window(block, start, size), start // item, (start + size) // item


def launch_ranges(program: Program, tensors: tuple, n: int, params, grid) -> None:
    """As launch, for a kernel that takes its `n` elements in order, where a block is too large for one binding: a
    dispatch for each range of elements. `params(first, count, offsets)` packs one; the offsets are the elements before
    the range in each window. The tensors are dense, and start at multiples of four elements.
    """
    queue = gpu().queue
    step = (queue.caps.max_binding // max(t.element_size() for t in tensors) - 512) & ~255
    for first in range(0, n, step):
        count, bound, offsets = min(step, n - first), [], []
        for t in tensors:
            block, item = T.block_of(t), t.element_size()
            at = (t.storage_offset() + first) * item
            start = at & ~255
            bound.append(Window(block, start, min((at - start + count * item + 255) & ~255, block.size - start)))
            offsets.append((at - start) // item)
        queue.record(program, tuple(bound), params(first, count, offsets), grid(count))


def caps() -> Caps:
    return gpu().caps
