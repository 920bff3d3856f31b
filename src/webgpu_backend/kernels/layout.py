"""Shapes and strides: collapsing dimensions, classes of access, grids. Integers only."""

from typing import NamedTuple

from ..dtypes import DType
from ..program import Caps

# Threads of a workgroup, and groups of four elements that each thread has, unless a kernel says otherwise. A software
# adapter pays per workgroup, a GPU wants many threads.
WORKGROUP = {"gpu": 256, "cpu": 64}
GROUPS = {"gpu": 1, "cpu": 4}


class View(NamedTuple):
    """A tensor as kernels see it; sizes and strides in elements, outermost dimension first."""

    dtype: DType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0


def numel(sizes) -> int:
    n = 1
    for s in sizes:
        n *= s
    return n


def contiguous_strides(sizes) -> tuple[int, ...]:
    strides = []
    step = 1
    for s in reversed(sizes):
        strides.append(step)
        step *= max(s, 1)
    return tuple(reversed(strides))


def broadcast_strides(view: View, shape) -> tuple[int, ...]:
    """Strides of `view` expanded to `shape`: 0 where it is repeated."""
    lead = len(shape) - len(view.sizes)
    own = tuple(0 if s == 1 and t != 1 else st for s, st, t in zip(view.sizes, view.strides, shape[lead:]))
    return (0,) * lead + own


def collapse(sizes, strides_list) -> tuple[list[int], list[list[int]]]:
    """Fewest dimensions that address the same elements in the same order, innermost first.

    `strides_list` has one stride tuple per operand; a dimension is merged when every operand allows it.
    """
    dims: list[int] = []
    strides: list[list[int]] = [[] for _ in strides_list]
    for d in range(len(sizes) - 1, -1, -1):
        if sizes[d] == 1:
            continue
        steps = [st[d] for st in strides_list]
        if dims and all(step == st[-1] * dims[-1] for step, st in zip(steps, strides)):
            dims[-1] *= sizes[d]
            continue
        dims.append(sizes[d])
        for st, step in zip(strides, steps):
            st.append(step)
    if not dims:
        dims = [1]
        strides = [[0] for _ in strides_list]
    return dims, strides


def order_by(sizes, strides) -> list[int]:
    """Dimensions from the largest to the smallest stride, so that walking them walks memory forwards."""
    return sorted(range(len(sizes)), key=lambda d: (-strides[d], d) if sizes[d] > 1 else (0, d))


def iterator_order(sizes, strides_list) -> list[int]:
    """Dimensions of a new tensor, outermost first, as torch's iterators choose them by the strides of what is read: the
    first operand that tells two dimensions apart decides, one with a stride of 0 does not."""
    found = list(reversed(range(len(sizes))))
    for last in range(1, len(found)):
        moving = last
        for d in reversed(range(last)):
            inner, outer = found[d], found[moving]
            pairs = [(st[inner], st[outer]) for st in strides_list if st[inner] and st[outer]]
            told = next((a - b for a, b in pairs if a != b or sizes[inner] > sizes[outer]), None)
            if told is None:
                continue
            if told < 0:
                break
            found[d], found[moving] = outer, inner
            moving = d
    return found[::-1]


def strides_in(sizes, order) -> tuple[int, ...]:
    """Of a dense tensor whose dimensions lie in this order, outermost first."""
    strides = contiguous_strides([sizes[d] for d in order])
    return tuple([strides[order.index(d)] for d in range(len(sizes))])


def grid(threads: int, caps: Caps, workgroup: int = 0) -> tuple[int, int, int]:
    """Workgroups for a linear thread index `gid.x + gid.y * nwg.x * workgroup`; 0: of the usual size."""
    return spread(-(-threads // (workgroup or WORKGROUP[caps.kind])), caps)


def grid_of_fours(elements: int, caps: Caps) -> tuple[int, int, int]:
    """Workgroups for kernels whose threads have the usual number of groups of four elements each."""
    return grid(-(-elements // (4 * GROUPS[caps.kind])), caps)


def spread(groups: int, caps: Caps) -> tuple[int, int, int]:
    """`groups` workgroups in one dimension, or two where one is not enough."""
    if groups <= caps.max_groups:
        return (groups, 1, 1)
    rows = -(-groups // caps.max_groups)
    return (-(-groups // rows), rows, 1)


def span(view_sizes, strides, offset: int = 0) -> tuple[int, int]:
    """First and one-past-last element that a view touches."""
    if any(s == 0 for s in view_sizes):
        return offset, offset
    return offset, offset + 1 + sum((s - 1) * st for s, st in zip(view_sizes, strides))


def halvings(n: int) -> list[int]:
    """n / 2, n / 4 and so on to 1, of a power of two: how far apart are those that add up, step by step."""
    return [n >> i for i in range(1, n.bit_length())]
