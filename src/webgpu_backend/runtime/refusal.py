"""A batch that the adapter refuses is done again, a command at a time.

One command that is not valid voids all that were recorded with it. So the queue keeps a log of the open batch:

    (step, buffers, parameters)          a dispatch
    ("copy", (source, target), range)    and likewise "clear" and "upload", whose names are methods of the queue
    a Block                              it was given to a new owner here: what it held before is nobody's any more

What is innocent is computed from it. What the guilty should have written, and whatever was to be computed from that, is
lost: its blocks say so at every later use, until they are given back.
"""

from typing import Any

from ..program import Step, Window
from .blocks import Block
from .errors import DeviceError, DeviceLost


def blocks_of(buffers: tuple) -> list[Block]:
    return [b.block if type(b) is Window else b for b in buffers]


def _touched(what, buffers: tuple) -> tuple[list[Block], list[Block]]:
    """What a command looks at, and what it may write."""
    blocks = blocks_of(buffers)
    if isinstance(what, Step):
        return blocks, [b for b, access in zip(blocks, what.program.access) if access == "w"]
    return blocks, blocks[-1:]


def name_of(what) -> str:
    return what.program.name if isinstance(what, Step) else what


def repeat(queue: Any, log: list) -> DeviceError | None:
    """Does the commands of a refused batch one by one, and marks what is lost. Returns what the adapter says of the
    first that it refuses alone."""
    lost: dict[Block, str] = {}
    first, refused, count = None, [], 0
    for entry in log:
        if entry.__class__ is Block:
            lost.pop(entry, None)
            continue
        what, buffers, detail = entry
        count += 1
        touched, written = _touched(what, buffers)
        before = next((lost[b] for b in touched if b in lost), None)
        if before is None:
            try:
                queue.do(what, buffers, detail)
                continue
            except DeviceLost:
                raise
            except DeviceError as error:
                first = first or error
                refused.append(before := name_of(what))
        lost.update(dict.fromkeys(written, before))
    for block, name in lost.items():
        queue.pool.lose(block, f"this tensor is lost: the adapter refused the kernel {name} that should have made it")
    queue.forget(list(lost))
    if first is None or count == 1:
        return first
    return type(first)(
        f"the adapter refused {len(refused)} of {count} commands ({', '.join(dict.fromkeys(refused))}), the others are "
        f"done; what it should have written is lost, and every use of it raises. WEBGPU_BLOCKING=1 raises at the call "
        f"itself. The adapter says: {first}"
    )
