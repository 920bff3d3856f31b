"""Running an elementwise entry over lists of tensors, several of them to a dispatch."""

import torch

from .. import tensor as T
from ..kernels import lists as kernel
from ..kernels.lists import Operand
from ..kernels.numbers import PACKERS
from ..kernels.pointwise import Spec
from ..launch import caps
from ..runtime.gpu import gpu

_FLOATS = frozenset((torch.float32, torch.float16, torch.bfloat16))
_NUMBERS = frozenset((int, float, bool))
_LISTS = frozenset((list, tuple))
_OFFSET = (1 << 40) - 1  # the part of a data pointer below the slot
_MAX_PLANS = 1024
_MAX_HELD = 64
_pack = PACKERS["f32"]
_data_ptr = torch.Tensor.data_ptr


class _Held:
    """What was found out about some tensors. It holds for as long as they are where they were, as they were (which
    `guards` compares at once), and the pool has put no other block there."""

    __slots__ = ("parts", "metas", "uneven", "listed", "common", "bounds", "guards", "generation")

    def __init__(self, plan, listed, common):
        self.parts, self.metas, uneven = plan
        self.uneven = [(listed[i][k], nbytes) for i, k, nbytes in uneven]
        self.listed = listed
        self.common = common
        self.bounds = None

    def hold(self, tensors: list) -> None:
        self.guards = T.Guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        self.generation = gpu().pool.generation

    def still(self, tensors: list) -> bool:
        return self.generation == gpu().pool.generation and self.guards.check(*tensors)


class Lists:
    """A spec over columns: a column is a list (of tensors or numbers) or one value for all rows; the first is a list
    of tensors. Everything is computed in float32. `written` has, for each output, the input that it overwrites, or
    None for a new tensor of the first column's dtype.
    """

    def __init__(self, spec: Spec, written: tuple[int | None, ...]):
        self.spec = spec
        self.written = written
        self.plans: dict[tuple, tuple | None] = {}
        self.held: dict[tuple, _Held | None] = {}  # None: seen once
        self.fits = not spec.types and set(spec.outputs) == {"T"}

    def __call__(self, columns: list, scalars: tuple = ()) -> tuple[list, ...] | None:
        """The lists of new outputs, in order. None where these tensors need a dispatch each: that also finds what is
        wrong with them."""
        if not self.fits:
            return None
        numbers, tensors, shape = [], [], []
        for column in columns:
            each = column.__class__ in _LISTS
            values = column if each else (column,)
            if values[0].__class__ in _NUMBERS:
                if any([v.__class__ not in _NUMBERS for v in values]):
                    return None
                numbers.append(column if each else _pack(column))
                shape.append("n" if each else "s")
            else:
                tensors += values
                shape.append(len(values) if each else "c")
        try:
            pointers = tuple(map(_data_ptr, tensors))
        except TypeError:  # numbers among tensors
            return None
        key = (*shape, *pointers)
        held = self.held.get(key)
        if held is None or not held.still(tensors):
            found = self._look(columns, pointers)
            if found is None:
                return None
            held = self._hold(key, tensors, _Held(*found))
        # A whole group of four is written: nobody else's elements may be in it.
        if any([block.nbytes > nbytes for block, nbytes in held.uneven]):
            return None
        parts, metas = held.parts, held.metas
        made = [[T.make(m) for m in metas] for target in self.written if target is None]
        listed = held.listed + [[block for _, block in outs] for outs in made]
        tail = b"".join([_pack(s) for s in scalars])
        bounds = None if made else held.bounds
        if bounds is None:
            bounds = held.bounds = [
                (*[b[k] for k in range(start, stop) for b in listed], *held.common) for start, stop, _, _, _ in parts
            ]
        record = gpu().queue.record
        for (start, stop, program, params, grid), bound in zip(parts, bounds):
            for value in numbers:
                params += value if value.__class__ is bytes else b"".join([_pack(v) for v in value[start:stop]])
            record(program, bound, params + tail, grid)
        return tuple([[t for t, _ in outs] for outs in made])

    def _hold(self, key: tuple, tensors: list, found: _Held) -> _Held:
        """Keeps what is known of tensors that come a second time: gradients may lie elsewhere at every step."""
        if key in self.held:
            found.hold(tensors)
            self.held[key] = found
        else:
            if len(self.held) >= _MAX_HELD:
                self.held.clear()
            self.held[key] = None
        return found

    def _look(self, columns: list, pointers: tuple) -> tuple | None:
        """The plan for these columns, the blocks under each list and those for all rows; None as for a call."""
        shapes = [t.shape for t in columns[0]]
        # No elements, the middle of a storage, or (no allocation starts at a multiple of 2^40) the CPU's memory.
        if not all(pointers) or any([p & _OFFSET for p in pointers]):
            return None
        blocks, at = T._blocks, 0
        key, listed, common = [], [], []
        for column in columns:
            each = column.__class__ in _LISTS
            values = column if each else (column,)
            first = values[0]
            if first.__class__ in _NUMBERS:
                key.append("n" if each else "s")
                continue
            if not isinstance(first, torch.Tensor) or first.is_cpu:
                return None
            dtype = first.dtype
            if dtype not in _FLOATS or any([t.dtype is not dtype for t in values]):
                return None
            bound = [blocks[p >> 40] for p in pointers[at : at + len(values)]]
            at += len(values)
            if not each:
                if first.numel() != 1:
                    return None
                key.append(("c", dtype))
                common.append(bound[0])
                continue
            if [t.shape for t in values] == shapes:
                if not all([t.is_contiguous() for t in values]):
                    return None
                key.append(("t", dtype))
            elif all([t.numel() == 1 for t in values]):
                key.append(("e", dtype))
            else:
                return None
            listed.append(bound)
        if self._clash(key, listed, common):
            return None
        key = (*key, *shapes)
        try:
            plan = self.plans[key]
        except KeyError:
            plan = self._plan(key, shapes, len(columns))
        return None if plan is None else (plan, listed, common)

    def _clash(self, key, listed, common) -> bool:
        """A buffer that is written in one place and used in another, which no single dispatch may do."""
        tensors = [i for i, k in enumerate(key) if k.__class__ is tuple and k[0] != "c"]
        targets = [t for t in self.written if t is not None]
        written = [b for t in targets for b in listed[tensors.index(t)]]
        if len(set(written)) < len(written):
            return True
        others = {b for i, bound in zip(tensors, listed) if i not in targets for b in bound}
        others.update(common)
        return not others.isdisjoint(written)

    def _plan(self, key, shapes, count: int):
        if len(self.plans) >= _MAX_PLANS:
            self.plans.clear()
        spec, c = self.spec, caps()
        self.plans[key] = None
        kinds = [(k, None) if k.__class__ is str else k for k in key[:count]]
        if None in self.written and any(d is not None and d is not kinds[0][1] for _, d in kinds):
            return None  # promotion
        operands = tuple([Operand(kind, None if d is None else T.DTYPES[d]) for kind, d in kinds])
        outputs = tuple([(operands[target or 0].dtype, target) for target in self.written])
        counts = [s.numel() for s in shapes]
        if 5 * max(counts) > c.max_binding:  # of four bytes, and a block may be an eighth larger
            return None
        limit = kernel.slots_of(operands, self.written.count(None), len(spec.scalars), c)
        if limit < 1:
            return None
        parts, at = [], 0
        while at < len(counts):
            slots = kernel.share(counts[at:], limit, c)
            params, grid = kernel.params(counts[at : at + slots], c)
            parts.append((at, at + slots, kernel.program(spec, operands, outputs, slots, c), params, grid))
            at += slots
        metas = [T.meta(s, None, kinds[0][1]) for s in shapes] if None in self.written else []
        targets = [t for t in self.written if t is not None]
        lists = [i for i, (kind, _) in enumerate(kinds) if kind in ("t", "e")]
        uneven = [(lists.index(t), k, n * kinds[t][1].itemsize) for t in targets for k, n in enumerate(counts) if n % 4]
        plan = self.plans[key] = (parts, metas, uneven)
        return plan
