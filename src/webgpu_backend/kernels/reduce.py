"""Reductions: a state stepped over elements, combined across threads, finished once, over any dims and layouts.

The same mechanism serves sums, arg-reductions and moments (one or two passes), and with `map` the operators that
reduce a row and then rewrite it: softmax, the norms and their gradients (one pass over rows, the state in registers).
"""

from dataclasses import dataclass
from struct import pack

from ..dtypes import DType, Unsupported, carrier
from ..program import Caps, Program
from . import elements
from .layout import View, collapse, numel, spread
from .reduce_text import Spec, Walk, render_program, state_types, storage_of

# Threads of a workgroup; workgroups that fill the adapter; units of work a thread should have before a row is split;
# the most iterations of a thread (a software driver stops at 65,535 in all).
THREADS = {"gpu": 256, "cpu": 64}
FILL = {"gpu": 2048, "cpu": 16}
GRAIN = {"gpu": 8, "cpu": 64}
TRIPS = {"gpu": 1 << 30, "cpu": 16000}
# Reduced elements a software adapter takes at a time down strided memory, so that the pages stay in its caches.
BAND = 64


@dataclass(frozen=True)
class Pass:
    """One dispatch; `bindings` are (kind, index): i inputs, p partial states, r results, m mapped outputs."""

    program: Program
    params: bytes
    grid: tuple[int, int, int]
    bindings: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Plan:
    passes: tuple[Pass, ...]
    partials: tuple[tuple[int, int, str], ...]  # rows, states a row and dtype name of each field between the passes
    scalar_carriers: tuple[str, ...]


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
    caps: Caps,
    base: int | None = None,
) -> Plan:
    """Plans a reduction over `dims`. Inputs and maps have one shape; results have it with 1 in the reduced dims.

    `results` may be empty where only maps are wanted. With a `base` this is a part of a larger reduction, whose
    elements begin at that index: it ends with states, which `plan_finish` takes.
    """
    shape = inputs[0].sizes
    if numel(shape) >= 1 << 32:
        raise Unsupported(f"webgpu: {spec.name} of {numel(shape)} elements")
    lead = inputs[0].strides
    kept = [d for d in range(len(shape)) if d not in dims and shape[d] > 1]
    reduced = [d for d in range(len(shape)) if d in dims and shape[d] > 1]
    kept.sort(key=lambda d: -lead[d])
    if not spec.ordered:
        reduced.sort(key=lambda d: -lead[d])
    elementwise = inputs + maps
    operands = elementwise + results
    odims, ostrides = collapse([shape[d] for d in kept], [[v.strides[d] for d in kept] for v in operands])
    rdims, rstrides = collapse([shape[d] for d in reduced], [[v.strides[d] for d in reduced] for v in elementwise])
    m, k = numel(odims), numel(rdims)

    def vector(i: int) -> bool:
        steps = ostrides[i] + rstrides[i][1:]
        return rstrides[i][0] == 1 and elementwise[i].offset % 4 == 0 and all(s % 4 == 0 for s in steps)

    def across(i: int) -> bool:
        """Four neighbouring rows can be read at once."""
        view, steps = operands[i], ostrides[i][1:] + (rstrides[i] if i < len(elementwise) else [])
        return ostrides[i][0] == 1 and view.offset % 4 == 0 and all(s % 4 == 0 for s in steps)

    rows = m == 1 or ostrides[0][0] == 0 or 0 < rstrides[0][0] <= ostrides[0][0]
    four = rows and k >= 4 and vector(0) and (len(rdims) == 1 or rdims[0] % 4 == 0)
    # A GPU has threads for every row of a map before it wants four rows to a thread.
    quad = not rows and odims[0] % 4 == 0 and across(0) and (caps.kind == "cpu" or not spec.map or m >= 32768)
    modes = []
    for i, view in enumerate(elementwise):
        written = i >= len(inputs)
        same = ostrides[i][0] == 0 if quad else four and rstrides[i][0] == 0 and len(rdims) > 1
        if not written and all(s == 0 for s in rstrides[i]) and (same or not quad):
            modes.append("c")  # one value for the row
        elif four and vector(i) and (not written or k % 4 == 0 or m == 1):
            modes.append("v")
        elif quad and across(i):
            modes.append("v")
        elif same and not written:
            modes.append("s")  # one value for the four lanes
        else:
            modes.append(elements.element_mode(view.dtype, caps, written))

    threads = m // 4 if quad else m
    walk = _walk(threads, k, rows, four, quad, bool(spec.map), caps)
    slots = walk.split * (1 if walk.tree else walk.along)
    final = base is None and (slots == 1 or bool(spec.map))
    state = state_types(spec, compute, caps)
    partials = () if final else tuple((m, slots, storage_of(t).name) for _, t in state)

    signature = tuple((v.dtype.name, mode) for v, mode in zip(elementwise, modes))
    stored = tuple((v.dtype.name, elements.element_mode(v.dtype, caps, True)) for v in results)
    program, carriers = render_program(
        spec,
        compute.name,
        signature,
        len(inputs),
        stored if final else (),
        final,
        False,
        len(odims),
        len(rdims),
        walk,
        caps,
    )
    outer = [odims[0] // 4, *odims[1:]] if quad else odims
    words = [threads, k, walk.split, base or 0, *outer[:-1], *rdims[:-1]]
    for i, (view, mode) in enumerate(zip(elementwise, modes)):
        words += [view.offset, *ostrides[i]]
        if mode != "c":
            words += rstrides[i]
    bound = [("i", i) for i in range(len(inputs))] + [("m", i) for i in range(len(maps))]
    if final:
        words += _result_words(results, ostrides[len(elementwise) :])
        bound += [("r", i) for i in range(len(results))]
    else:
        bound += [("p", i) for i in range(len(state))]
    groups = -(-threads // walk.across) * walk.split
    passes = [Pass(program, _pack(words), spread(groups, caps), tuple(bound))]
    if not final and base is None:
        passes.append(_second(spec, compute, m, k, slots, odims, ostrides[len(elementwise) :], results, caps))
    return Plan(tuple(passes), partials, carriers)


def plan_finish(
    spec: Spec, compute: DType, lead: View, dims: frozenset[int], results: list[View], slots: int, caps: Caps
) -> Plan:
    """The last pass of a reduction made in parts; `lead` is the whole first input, `slots` the states of a row."""
    kept = [d for d in range(len(lead.sizes)) if d not in dims and lead.sizes[d] > 1]
    kept.sort(key=lambda d: -lead.strides[d])
    odims, ostrides = collapse([lead.sizes[d] for d in kept], [[v.strides[d] for d in kept] for v in results])
    m = numel(odims)
    step = _second(spec, compute, m, numel(lead.sizes) // m, slots, odims, ostrides, results, caps)
    own = carrier(compute, caps)
    return Plan((step,), (), tuple("f32" if own == "c64" else own for _ in spec.scalars))


def _second(spec, compute, m, k, slots, odims, ostrides, results, caps) -> Pass:
    """Combines each row's states and finishes them."""
    walk = _walk(m, slots, True, False, False, True, caps)
    stored = tuple((v.dtype.name, elements.element_mode(v.dtype, caps, True)) for v in results)
    program, _ = render_program(spec, compute.name, (), 0, stored, True, True, len(odims), 1, walk, caps)
    words = [m, slots, walk.split, 0, *odims[:-1], k, *_result_words(results, ostrides)]
    bound = [("p", i) for i in range(len(spec.state))] + [("r", i) for i in range(len(results))]
    return Pass(program, _pack(words), spread(-(-m // walk.across), caps), tuple(bound))


def _pack(words) -> bytes:
    return pack(f"<{len(words)}I", *words)


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
