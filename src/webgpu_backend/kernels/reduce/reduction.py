"""Reductions: a state stepped over elements, combined across threads, finished once, over any dims and layouts.

The same mechanism serves sums, arg-reductions and moments (one or two passes), and with `map` the operators that
reduce a row and then rewrite it: softmax, the norms and their gradients (one pass over rows, the state in registers).
"""

from ...dtypes import ALL, REAL, DType, Unsupported, carrier
from ...program import Caps, Plan, Step
from ..layout import View, collapse, numel, spread
from ..text import elements
from ..text.numbers import PACKERS, packed
from .text import Pass, Spec, Walk, render, state_types, storage_of

# Threads of a workgroup; workgroups that fill the adapter; units of work a thread should have before a row is split;
# the most iterations of a thread (a software driver stops at 65,535 in all).
THREADS = {"gpu": 256, "cpu": 64}
FILL = {"gpu": 2048, "cpu": 16}
GRAIN = {"gpu": 8, "cpu": 64}
TRIPS = {"gpu": 1 << 30, "cpu": 16000}
# Reduced elements a software adapter takes at a time down strided memory, so that the pages stay in its caches.
BAND = 64


def fused(rows: int, length: int, strided: bool, caps: Caps) -> bool:
    """Whether one workgroup (or thread) a row is a good way to reduce and rewrite it."""
    if caps.kind == "cpu":
        if strided and length >= 2 * BAND and rows >= THREADS["cpu"]:
            return False
        return length <= TRIPS["cpu"] and (rows >= 8 or length <= 4096)
    return length < 16384 or rows >= 512 or (length < 65536 and rows >= 64)


def plan(
    spec: Spec,
    compute: DType,
    inputs: list[View],
    dims: frozenset[int],
    results: list[View],
    maps: list[View],
    scalars: tuple,
    caps: Caps,
) -> Plan:
    """Plans a reduction over `dims`: over the inputs, the results and the maps. Inputs and maps have one shape; results
    have it with 1 in the reduced dims, and may be none where only maps are wanted."""
    first = _First(spec, compute, inputs, dims, results, maps, scalars, caps, None)
    count, made = len(inputs), len(results)
    places = [*range(count), *range(count + made, count + made + len(maps))]
    if first.final:
        first.step.bindings = (*places, *range(count, count + made))
        return Plan((first.step,))
    fields = tuple(range(count + made + len(maps), count + made + len(maps) + len(first.fields)))
    first.step.bindings = (*places, *fields)
    second = first.second(results)
    second.bindings = (*fields, *range(count, count + made))
    return Plan((first.step, second), tuple(m * slots * ALL[name].size for m, slots, name in first.fields))


def plan_part(
    spec: Spec, compute: DType, inputs: list[View], dims: frozenset[int], scalars: tuple, caps: Caps, base: int
) -> tuple[Step, tuple[tuple[int, int, str], ...]]:
    """A part of a larger reduction, whose elements begin at index `base`. It ends with states, which `plan_finish`
    takes: rows, states a row and dtype name of each of their fields, which are bound after the inputs."""
    first = _First(spec, compute, inputs, dims, [], [], scalars, caps, base)
    return first.step, first.fields


class _First:
    """The first pass over the inputs: its step, and the fields of the states that it leaves unless it is `final`."""

    def __init__(self, spec, compute, inputs, dims, results, maps, scalars, caps, base):
        self.spec, self.compute, self.scalars, self.caps = spec, compute, scalars, caps
        self._lay(inputs, dims, results, maps)
        self._plan(inputs, results, base)

    def _lay(self, inputs, dims, results, maps) -> None:
        """Which dimensions are walked, in which order."""
        spec, shape = self.spec, inputs[0].sizes
        if numel(shape) >= 1 << 32:
            raise Unsupported(f"webgpu: {spec.name} of {numel(shape)} elements")
        lead = inputs[0].strides
        kept = [d for d in range(len(shape)) if d not in dims and shape[d] > 1]
        reduced = [d for d in range(len(shape)) if d in dims and shape[d] > 1]
        kept.sort(key=lambda d: -lead[d])
        if not spec.ordered:
            reduced.sort(key=lambda d: -lead[d])
        self.elementwise = inputs + maps
        self.operands = self.elementwise + results
        self.odims, self.ostrides = collapse(
            [shape[d] for d in kept], [[v.strides[d] for d in kept] for v in self.operands]
        )
        self.rdims, self.rstrides = collapse(
            [shape[d] for d in reduced], [[v.strides[d] for d in reduced] for v in self.elementwise]
        )
        self.m, self.k = numel(self.odims), numel(self.rdims)

    def _vector(self, i: int) -> bool:
        steps = self.ostrides[i] + self.rstrides[i][1:]
        return self.rstrides[i][0] == 1 and self.operands[i].offset % 4 == 0 and all(s % 4 == 0 for s in steps)

    def _across(self, i: int) -> bool:
        """Four neighbouring rows can be read at once."""
        steps = self.ostrides[i][1:] + (self.rstrides[i] if i < len(self.elementwise) else [])
        return self.ostrides[i][0] == 1 and self.operands[i].offset % 4 == 0 and all(s % 4 == 0 for s in steps)

    def _modes(self, count: int, four: bool, quad: bool) -> list[str]:
        """How each operand is read or written; the first `count` are inputs."""
        modes = []
        for i, view in enumerate(self.elementwise):
            written, rstrides = i >= count, self.rstrides[i]
            same = self.ostrides[i][0] == 0 if quad else four and rstrides[0] == 0 and len(self.rdims) > 1
            if not written and all(s == 0 for s in rstrides) and (same or not quad):
                modes.append("c")  # one value for the row
            elif four and self._vector(i) and (not written or self.k % 4 == 0 or self.m == 1):
                modes.append("v")
            elif quad and self._across(i):
                modes.append("v")
            elif same and not written:
                modes.append("s")  # one value for the four lanes
            else:
                modes.append(elements.element_mode(view.dtype, self.caps, written))
        return modes

    def _plan(self, inputs, results, base) -> None:
        spec, caps, m, k = self.spec, self.caps, self.m, self.k
        odims, rdims, ostrides, rstrides = self.odims, self.rdims, self.ostrides, self.rstrides
        rows = m == 1 or ostrides[0][0] == 0 or 0 < rstrides[0][0] <= ostrides[0][0]
        four = rows and k >= 4 and self._vector(0) and (len(rdims) == 1 or rdims[0] % 4 == 0)
        # A GPU has threads for every row of a map before it wants four rows to a thread.
        quad = not rows and odims[0] % 4 == 0 and self._across(0) and (caps.kind == "cpu" or not spec.map or m >= 32768)
        modes = self._modes(len(inputs), four, quad)
        threads = m // 4 if quad else m
        walk = _walk(threads, k, rows, four, quad, bool(spec.map), caps)
        self.slots = walk.split * (1 if walk.tree else walk.along)
        self.final = base is None and (self.slots == 1 or bool(spec.map))
        state = state_types(spec, self.compute, caps)
        self.fields = () if self.final else tuple((m, self.slots, storage_of(t).name) for _, t in state)
        accesses = tuple([(v.dtype, mode) for v, mode in zip(self.elementwise, modes)])
        reads, maps = accesses[: len(inputs)], accesses[len(inputs) :]
        stored = _stored(results, caps) if self.final else ()
        own = Pass(reads, maps, stored, self.final, False, len(odims), len(rdims), walk)
        program, self.carriers = render(spec, self.compute, own, caps)
        outer = [odims[0] // 4, *odims[1:]] if quad else odims
        words = [threads, k, walk.split, base or 0, *outer[:-1], *rdims[:-1]]
        for i, (view, mode) in enumerate(zip(self.elementwise, modes)):
            words += [view.offset, *ostrides[i]]
            if mode != "c":
                words += rstrides[i]
        if self.final:
            words += _result_words(results, ostrides[len(self.elementwise) :])
        groups = -(-threads // walk.across) * walk.split
        self.step = Step(program, packed(words) + _numbers(self.carriers, self.scalars), spread(groups, caps))

    def second(self, results) -> Step:
        """Combines each row's states and finishes them."""
        ostrides = self.ostrides[len(self.elementwise) :]
        return _second(
            self.spec, self.compute, self.m, self.k, self.slots, self.odims, ostrides, results,
            _numbers(self.carriers, self.scalars), self.caps,
        )  # fmt: skip


def plan_finish(
    spec: Spec, compute: DType, lead: View, dims: frozenset[int], results: list[View], slots: int, scalars, caps: Caps
) -> Step:
    """The last pass of a reduction made in parts; `lead` is the whole first input, `slots` the states of a row. Binds
    the fields of the states, then the results."""
    kept = [d for d in range(len(lead.sizes)) if d not in dims and lead.sizes[d] > 1]
    kept.sort(key=lambda d: -lead.strides[d])
    odims, ostrides = collapse([lead.sizes[d] for d in kept], [[v.strides[d] for d in kept] for v in results])
    m, own = numel(odims), carrier(compute, caps)
    numbers = _numbers((REAL.get(own, own),) * len(spec.scalars), scalars)
    return _second(spec, compute, m, numel(lead.sizes) // m, slots, odims, ostrides, results, numbers, caps)


def _second(spec, compute, m, k, slots, odims, ostrides, results, numbers: bytes, caps) -> Step:
    walk = _walk(m, slots, True, False, False, True, caps)
    program, _ = render(spec, compute, Pass((), (), _stored(results, caps), True, True, len(odims), 1, walk), caps)
    words = [m, slots, walk.split, 0, *odims[:-1], k, *_result_words(results, ostrides)]
    return Step(program, packed(words) + numbers, spread(-(-m // walk.across), caps))


def _numbers(carriers: tuple[str, ...], scalars: tuple) -> bytes:
    return b"".join([PACKERS[c](value) for c, value in zip(carriers, scalars)])


def _stored(results: list[View], caps: Caps) -> tuple:
    return tuple([(v.dtype, elements.element_mode(v.dtype, caps, written=True)) for v in results])


def _result_words(results, strides) -> list[int]:
    words = []
    for view, st in zip(results, strides):
        words += [view.offset, *st]
    return words


def _power(n: int) -> int:
    """The smallest power of two not below n."""
    return 1 << max(n - 1, 0).bit_length()


def _walk(m: int, k: int, rows: bool, four: bool, quad: bool, whole: bool, caps: Caps) -> Walk:
    """`whole`: a row must not be split (its map needs the finished state, or it is the second pass)."""
    units = -(-k // 4) if four else k
    threads = THREADS[caps.kind]
    if caps.kind == "cpu":
        if not rows and not whole and k >= 2 * BAND and m >= threads:
            return Walk(rows, four, quad, threads, 1, max(-(-k // 4096), min(-(-k // BAND), 512)), False)
        few = m < 4 * threads and units >= threads * FILL["cpu"]
        if whole or not few:
            split = 1 if whole else -(-units // TRIPS["cpu"])
            return Walk(rows, four, quad, min(threads, max(8, _power(m))), 1, split, False)
        along = threads if rows else threads // min(threads, _power(m))
        across = threads // along
        slots = max(-(-units // TRIPS["cpu"]), min(threads * FILL["cpu"] // m, units // GRAIN["cpu"]))
        return Walk(rows, four, quad, across, along, max(1, slots // along), False)
    if rows:
        # Four units to a thread, or fewer where the rows are too few to fill the adapter.
        along = min(threads, _power(-(-units // 4)))
        while along < min(threads, units) and m * along < 128 * threads:
            along *= 2
    else:
        along = 1 if k < 16 else threads // min(32, _power(m))
    across = threads // along
    split = 1
    if not whole:
        groups = -(-m // across)
        split = max(1, min(-(-FILL["gpu"] // groups), units // (along * GRAIN["gpu"]), 1024))
    return Walk(rows, four, quad, across, along, split, along > 1)
