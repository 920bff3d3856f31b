"""Running an elementwise entry over lists of tensors, several of them to a dispatch."""

import torch

from .. import tensor as T
from ..kernels.lists import elementwise
from ..kernels.lists.elementwise import Operand
from ..kernels.pointwise.elementwise import Spec
from ..kernels.text.numbers import PACKERS
from ..program import Plan
from . import run
from .cache import cache
from .launch import caps

_FLOATS = frozenset((torch.float32, torch.float16, torch.bfloat16))
_NUMBERS = frozenset((int, float, bool))
_LISTS = frozenset((list, tuple))
_OFFSET = (1 << T.UID_BITS) - 1  # the part of a data pointer below the block's number
_MAX_HELD = 64
_ROOM = 65504  # all dtypes have it
_pack = PACKERS["f32"]
_data_ptr = torch.Tensor.data_ptr


class _Held:
    """What was found out about some tensors. It holds for as long as they are where they were, as they were (which
    `guards` compares at once), and the pool has put no other block there."""

    __slots__ = ("plan", "bound", "uneven", "bounds", "guards", "generation")

    def __init__(self, plan: Plan, bound: list):
        self.plan = plan
        self.bound = bound
        self.uneven = [(bound[i], nbytes) for i, nbytes in zip(plan.written, plan.ends) if nbytes]
        self.bounds = None

    def hold(self, tensors: list) -> None:
        self.guards = T.Guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        self.generation = T.generation()

    def still(self, tensors: list) -> bool:
        return self.generation == T.generation() and self.guards.check(*tensors)


class Lists:
    """A spec over columns: a column is a list (of tensors or numbers) or one value for all rows; the first is a list
    of tensors. Everything is computed in float32. `written` has, for each output, the input that it overwrites, or
    None for a new tensor of the first column's dtype.

    Plans have a step for as many rows as its bindings allow; their buffers are the lists one after the other, then what
    all rows share, then the outputs.
    """

    def __init__(self, spec: Spec, written: tuple[int | None, ...]):
        self.spec = spec
        self.written = written
        self.plans = cache.table(f"{spec.name} of lists")
        self.apart = cache.marks()  # keys of lists that need a dispatch for each tensor
        self.held: dict[tuple, _Held | None] = cache.notes()  # None: seen once
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
                if self.spec.checked and not all([-_ROOM <= v <= _ROOM for v in values]):
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
        made = [T.make(meta) for meta in held.plan.outputs]
        bounds = None if made else held.bounds
        if bounds is None:
            bound = held.bound + [block for _, block in made]
            bounds = held.bounds = [(step, tuple([bound[i] for i in step.bindings])) for step in held.plan.steps]
        self._record(bounds, numbers, b"".join([_pack(s) for s in scalars]))
        rows = len(columns[0])
        return tuple([[t for t, _ in made[at : at + rows]] for at in range(0, len(made), rows)])

    def _record(self, bounds: list, numbers: list, tail: bytes) -> None:
        """The steps, each with the numbers of its rows."""
        start = 0
        for step, bound in bounds:
            params, stop = step.params, start + step.meaning
            for value in numbers:
                params += value if value.__class__ is bytes else b"".join([_pack(v) for v in value[start:stop]])
            run.record(step, bound, params + tail)
            start = stop

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
        blocks, at = run.blocks, 0
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
            bound = [blocks[p >> T.UID_BITS] for p in pointers[at : at + len(values)]]
            if None in bound:  # another device
                return None
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
        key = (*key, *shapes, run.place())
        plan = self.plans.get(key)
        if plan is None:
            plan = None if key in self.apart else self._plan(key, shapes, len(columns))
        return None if plan is None else (plan, [block for bound in listed for block in bound] + common)

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

    def _plan(self, key, shapes, count: int) -> Plan | None:
        spec, c = self.spec, caps()
        self.apart.add(key)
        kinds = [(k, None) if k.__class__ is str else k for k in key[:count]]
        if None in self.written and any(d is not None and d is not kinds[0][1] for _, d in kinds):
            return None  # promotion
        operands = tuple([Operand(kind, None if d is None else T.DTYPES[d]) for kind, d in kinds])
        outputs = tuple([(operands[target or 0].dtype, target) for target in self.written])
        counts = [s.numel() for s in shapes]
        if 5 * max(counts) > c.max_binding:  # of four bytes, and a block may be an eighth larger
            return None
        limit = elementwise.slots_of(operands, self.written.count(None), len(spec.scalars), c)
        if limit < 1:
            return None
        lists = [i for i, (kind, _) in enumerate(kinds) if kind in ("t", "e")]
        common = [kind for kind, _ in kinds].count("c")
        rows, given = len(counts), len(lists) * len(counts)
        new = self.written.count(None)
        starts = [rows * i for i in range(len(lists))] + [given + common + rows * i for i in range(new)]
        shared = tuple(range(given, given + common))
        steps, at = [], 0
        while at < rows:
            slots = elementwise.share(counts[at:], limit, c)
            bound = tuple([first + k for k in range(at, at + slots) for first in starts])
            some = counts[at : at + slots]
            steps.append(elementwise.plan(spec, operands, outputs, some, (*bound, *shared), c))
            at += slots
        plan = Plan(tuple(steps))
        plan.outputs = tuple([T.meta(s, None, kinds[0][1]) for s in shapes]) * new
        targets = [t for t in self.written if t is not None]
        plan.written = tuple([rows * lists.index(t) + k for t in targets for k in range(rows)])
        plan.ends = tuple([n * kinds[t][1].itemsize if n % 4 else 0 for t in targets for n in counts])
        self.apart.discard(key)
        cache.keep(self.plans, key, plan)
        return plan
