"""From tensors to steps: how an operator's function asks for its kernels."""

import torch

from .. import tensor as T
from ..program import Caps, Plan, Step, Window
from ..runtime.blocks import size_class
from ..runtime.errors import BindingTooLarge
from ..runtime.gpu import gpu
from . import run
from .draws import Draw


def launch(work: Plan | Step, *tensors, draw: Draw | None = None) -> None:
    """Records a step, or the steps of a kernel's plan, over tensors in binding order. A tensor may be given as its
    block or a window of it, or as None where nothing reads it; buffers in between are made and given back. `draw` fills
    in the place that a step leaves for one."""
    blocks = [T.block_of(t) if isinstance(t, torch.Tensor) else t for t in tensors]
    for tensor, block in zip(tensors, blocks):
        if block is None and tensor is not None and tensor.device.type != T.NAME:
            raise T.two_devices(_name(work), tensor.device)
    if work.__class__ is Step:
        _record(work, tuple(blocks), draw)
        return
    if len(work.steps) > 1:  # before any of them is recorded
        limit = caps().max_binding
        for block in blocks:
            if block is not None and block.size > limit:
                raise BindingTooLarge(f"{work.steps[0].program.name}: a tensor of {block.size} bytes")
    leases = [T.space(size_class(nbytes)) for nbytes in work.scratch]
    blocks += [lease.block for lease in leases]
    for step in work.steps:
        _record(step, tuple([blocks[i] for i in step.bindings]), draw)


def _name(work: Plan | Step) -> str:
    return (work if work.__class__ is Step else work.steps[0]).program.name


def _record(step: Step, buffers: tuple, draw: Draw | None) -> None:
    if step.draw is None:
        run.record(step, buffers, run.params_of(step))
    else:
        draw.record(step, buffers)


def windows(tensor: torch.Tensor):
    """Parts of a block too large for one binding: (window, its first element, the one past its last)."""
    block, item, limit = T.block_of(tensor), tensor.element_size(), caps().max_binding & ~255
    for start in range(0, block.size, limit):
        size = min(limit, block.size - start)
        yield Window(block, start, size), start // item, (start + size) // item


def launch_ranges(tensors: tuple, n: int, step) -> None:
    """As launch, for a kernel that takes its `n` elements in order, where a block is too large for one binding: a
    dispatch for each range of elements. `step(first, count, offsets)` gives one, with its draw or None; the offsets are
    the elements before the range in each window. The tensors are dense, and start at multiples of four elements.
    """
    most = (caps().max_binding // max(t.element_size() for t in tensors) - 512) & ~255
    for first in range(0, n, most):
        count, bound, offsets = min(most, n - first), [], []
        for t in tensors:
            block, item = T.block_of(t), t.element_size()
            at = (t.storage_offset() + first) * item
            start = at & ~255
            bound.append(Window(block, start, min((at - start + count * item + 255) & ~255, block.size - start)))
            offsets.append((at - start) // item)
        found, draw = step(first, count, offsets)
        launch(found, *bound, draw=draw)


def caps() -> Caps:
    return gpu().caps
