"""From tensors to the queue: the one way an operator runs a kernel."""

import torch

from . import tensor as T
from .program import Caps, Program, Window
from .runtime.gpu import gpu


def launch(program: Program, tensors: tuple, params: bytes, grid: tuple[int, int, int]) -> None:
    """Records one dispatch over the blocks under `tensors`, in binding order."""
    gpu().queue.record(program, tuple([T.block_of(t) for t in tensors]), params, grid)


def launch_guarded(program: Program, tensors: tuple, params: bytes, grid: tuple[int, int, int]) -> None:
    """As launch, for a kernel that reports bad indices: `runtime.faults` is its last binding. A tensor may be given
    as a window of its block."""
    blocks = tuple([t if type(t) is Window else T.block_of(t) for t in tensors])
    gpu().queue.record_guarded(program, blocks, params, grid)


def windows(tensor: torch.Tensor):
    """Parts of a block too large for one binding: (window, its first element, the one past its last)."""
    block, item, limit = T.block_of(tensor), tensor.element_size(), gpu().queue.caps.max_binding & ~255
    for start in range(0, block.size, limit):
        size = min(limit, block.size - start)
        yield Window(block, start, size), start // item, (start + size) // item


def caps() -> Caps:
    return gpu().caps
