"""Reductions: a state stepped over elements, combined across threads, finished once, over any dims and layouts.

The same mechanism serves sums, arg-reductions and moments (one or two passes), and with `map` the operators that
reduce a row and then rewrite it: softmax, the norms and their gradients (one pass over rows, the state in registers).
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from struct import pack

from ..dtypes import ALL, DType, Unsupported, carrier
from ..program import Caps, Program
from . import elements
from .expression import Emitter, convert, literal, wgsl_type
from .layout import View, collapse, numel, spread
from .pointwise import _scalar_fields, _scalar_text
from .render import render

# Threads of a workgroup; workgroups that fill the adapter; units of work a thread should have before a row is split;
# the most iterations of a thread (a software driver stops at 65,535 in all).
THREADS = {"gpu": 256, "cpu": 64}
FILL = {"gpu": 2048, "cpu": 16}
GRAIN = {"gpu": 8, "cpu": 64}
TRIPS = {"gpu": 1 << 30, "cpu": 16000}
UNROLL = {"gpu": 4, "cpu": 1}
RUN = 256
# Reduced elements a software adapter takes at a time down strided memory, so that the pages stay in its caches.
BAND = 64


@dataclass(frozen=True)
class Spec:
    """A reduction in Python-syntax expressions.

    `state` is (name, carrier) pairs, "T" for the compute dtype; `init` one constant each. `step` sees the inputs, the
    state and the index `i` among the reduced elements; `combine` sees the state and the other one's fields as
    `o_<name>`; a single field's new value is the last expression, several are assigned to `<name>1`. `finish` gives
    `results` from the state and the count `n`. `map` gives the rewritten elements (`maps`) from inputs and results.
    """

    name: str
    step: str
    combine: str
    init: tuple = (0,)
    state: tuple[tuple[str, str], ...] = (("acc", "T"),)
    finish: str = "acc"
    results: tuple[tuple[str, str], ...] = (("out", "T"),)
    inputs: tuple[str, ...] = ("a",)
    scalars: tuple[str, ...] = ()
    map: str = ""
    maps: tuple[tuple[str, str], ...] = ()
    ordered: bool = False  # the index matters: reduced dimensions keep their order


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


@dataclass(frozen=True)
class _Walk:
    """How threads cover rows (kept elements) and units (reduced elements, or groups of four)."""

    rows: bool  # neighbouring threads are neighbours along the reduction
    four: bool  # a unit is four elements of one row
    quad: bool  # a thread reduces four neighbouring rows at once
    across: int
    along: int
    split: int
    tree: bool


def fused(rows: int, length: int, strided: bool, caps: Caps) -> bool:
    """Whether one workgroup (or thread) a row is a good way to reduce and rewrite it."""
    if caps.kind == "cpu":
        if strided and length >= 2 * BAND and rows >= THREADS["cpu"]:
            return False
        return length <= TRIPS["cpu"] and (rows >= 8 or length <= 4096)
    return length < 16384 or rows >= 256 or (length < 65536 and rows >= 64)


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
    state = _state(spec, compute, caps)
    partials = () if final else tuple((m, slots, _stored(t).name) for _, t in state)

    signature = tuple((v.dtype.name, mode) for v, mode in zip(elementwise, modes))
    stored = tuple((v.dtype.name, elements.element_mode(v.dtype, caps, True)) for v in results)
    program, carriers = _program(
        spec, compute.name, signature, len(inputs), stored if final else (), final, False, len(odims), len(rdims), walk, caps
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
    program, _ = _program(spec, compute.name, (), 0, stored, True, True, len(odims), 1, walk, caps)
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


def _walk(m: int, k: int, rows: bool, four: bool, quad: bool, whole: bool, caps: Caps) -> _Walk:
    """`whole`: a row must not be split (its map needs the finished state, or it is the second pass)."""
    units = -(-k // 4) if four else k
    threads = THREADS[caps.kind]
    if caps.kind == "cpu":
        if not rows and not whole and k >= 2 * BAND and m >= threads:
            return _Walk(rows, four, quad, threads, 1, max(-(-k // 4096), min(-(-k // BAND), 512)), False)
        few = m < 4 * threads and units >= threads * FILL["cpu"]
        if whole or not few:
            split = 1 if whole else -(-units // TRIPS["cpu"])
            return _Walk(rows, four, quad, min(threads, max(8, _power(m))), 1, split, False)
        along = threads if rows else threads // min(threads, _power(m))
        across = threads // along
        slots = max(-(-units // TRIPS["cpu"]), min(threads * FILL["cpu"] // m, units // GRAIN["cpu"]))
        return _Walk(rows, four, quad, across, along, max(1, slots // along), False)
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
    return _Walk(rows, four, quad, across, along, split, along > 1)


def _state(spec: Spec, compute: DType, caps: Caps) -> list[tuple[str, str]]:
    own = carrier(compute, caps)
    return [(n, _typed(t, own, caps)) for n, t in spec.state]


def _typed(name: str, own: str, caps: Caps) -> str:
    """The carrier that a spec's type stands for: "T" the compute dtype's own, "real" that of its absolute value."""
    real = "f32" if own == "c64" else own
    return {"T": own, "real": real, "i64": "n64" if caps.i64 else "i64"}.get(name, name)


def _stored(carrier_: str) -> DType:
    """The dtype that holds a carrier between passes."""
    names = {
        "f32": "float32", "i32": "int32", "u32": "uint32", "bool": "uint32", "f64": "float64", "c64": "complex64",
        "n64": "int64", "i64": "int64", "nu64": "uint64", "u64": "uint64",
    }  # fmt: skip
    return ALL[names[carrier_]]


@lru_cache(maxsize=None)
def _program(spec, compute_name, signature, n_in, stored, final, from_state, orank, rrank, walk, caps):
    """`stored` is (dtype, mode) per result written; without `final` the state is written instead."""
    own = carrier(ALL[compute_name], caps)
    state = _state(spec, ALL[compute_name], caps)
    types = dict(state)
    results = [(n, _typed(t, own, caps)) for n, t in spec.results]
    maps = [(n, _typed(t, own, caps)) for n, t in spec.maps]
    names = ([] if from_state else list(spec.inputs)) + [n for n, _ in maps]
    dtypes = [ALL[d] for d, _ in signature]
    modes = [mode for _, mode in signature]
    out_names = [n for n, _ in results][: len(stored)]
    four, quad = walk.four, walk.quad
    totals = 4 if quad else 1

    fields = ["m: u32", "k: u32", "split: u32", "base: u32"]
    fields += [f"d{i}: u32" for i in range(orank - 1)] + [f"e{i}: u32" for i in range(rrank - 1)]
    if from_state:
        fields.append("count: u32")
    for name, mode in zip(names, modes):
        fields += [f"{name}_o: u32"] + [f"{name}_s{i}: u32" for i in range(orank)]
        if mode != "c":
            fields += [f"{name}_r{i}: u32" for i in range(rrank)]
    for name in out_names:
        fields += [f"{name}_o: u32"] + [f"{name}_s{i}: u32" for i in range(orank)]
    scalar_types = {n: "f32" if own == "c64" else own for n in spec.scalars}
    for name in spec.scalars:
        fields += _scalar_fields(name, scalar_types[name])

    bindings = []
    for j, name in enumerate(names):
        mode = modes[j]
        kind = elements.array_type(dtypes[j], mode if mode in "va" else "e", caps)
        bindings.append((f"memory_{name}", "read" if j < n_in else "read_write", kind))
    if from_state or not final:
        access = "read" if from_state else "read_write"
        bindings += [(f"memory_{n}", access, elements.array_type(_stored(t), "e", caps)) for n, t in state]
    for name, (dtype, mode) in zip(out_names, stored):
        bindings.append((f"memory_{name}", "read_write", elements.array_type(ALL[dtype], mode, caps)))

    scalars = {n: _scalar_text(n, t) for n, t in scalar_types.items()}
    inputs = {n: own for n in spec.inputs}
    many = len(state) > 1

    def source(text: str, outs: list[tuple[str, str]], known: dict, shown: dict) -> tuple[list[str], str]:
        emitter = Emitter(known | scalar_types | {"i": "u32"} | dict(outs), shown | scalars, caps.i64)
        lines = emitter.program(text, outs)
        return lines, ", ".join(n for n, _ in outs)

    after = [(f"{n}1" if many else n, t) for n, t in state]
    shown = {n: f"s.{n}" for n in types}
    if many:
        step, stepped = source(spec.step, after, types | inputs, shown)
    else:
        step, stepped = source(spec.step, [("next", state[0][1])], types | inputs, shown)
    others = {f"o_{n}": t for n, t in state}
    shown_others = {f"o_{n}": f"o.{n}" for n in types}
    outs = after if many else [("next", state[0][1])]
    combine, combined = source(spec.combine, outs, types | others, shown | shown_others)
    count = {"n": "p.count" if from_state else "p.k"}
    finish, finished = source(spec.finish, results, types | {"n": "u32"}, shown | count) if final else ([], "")
    emit, mapped = [], ""
    if spec.map:
        known = inputs | dict(results) | {"n": "u32"}
        emit, mapped = source(spec.map, maps, known, {n: f"r.{n}" for n, _ in results} | count)
    init = ", ".join(literal(v, t) for v, (_, t) in zip(spec.init, state))

    # Row coordinates, each operand's start, and what is constant along the row.
    outer = []
    if orank > 1:
        outer.append("var rest = o;")
    for i in range(orank - 1):
        outer += [f"let c{i} = rest % p.d{i};", f"rest = rest / p.d{i};"]
    outer.append(f"let c{orank - 1} = {'rest' if orank > 1 else 'o'};")
    if quad:
        outer = [re.sub(r"^let c0 = (.*);$", r"let c0 = (\1) * 4u;", line) for line in outer]
    for name in [*names, *out_names]:
        terms = [f"p.{name}_o"] + [f"c{i} * p.{name}_s{i}" for i in range(orank)]
        outer.append(f"let {name}_b = {' + '.join(terms)};")
    for j in range(n_in):
        if modes[j] == "c":
            value = elements.read(dtypes[j], f"memory_{names[j]}", f"{names[j]}_b", caps)
            outer.append(f"let {names[j]}_c = {value};")

    def at(name: str, lane: int, tail: bool) -> str:
        """Element index of a lane of the unit `g`."""
        low = f"k0 + {lane}u" if lane and four else "k0"
        if tail and lane:
            low = f"min({low}, p.k - 1u)"
        terms = [f"{name}_b"] + ([f"{lane}u * p.{name}_s0"] if quad and lane else [])
        terms += [f"({low}) * p.{name}_r0"] + [f"k{i} * p.{name}_r{i}" for i in range(1, rrank)]
        return " + ".join(terms)

    def group_at(name: str) -> str:
        """The group of four elements that the unit `g` is (or, of four rows, holds)."""
        terms = [f"{name}_b", "k0" if four else f"k0 * p.{name}_r0"]
        return f"({' + '.join(terms + [f'k{i} * p.{name}_r{i}' for i in range(1, rrank)])}) / 4u"

    stepping = [n for n in spec.inputs if re.search(rf"\b{n}\b", spec.step)]

    def loads(tail: bool, wanted) -> tuple[list[str], list[str]]:
        """Statements that read unit `g` of the inputs wanted, and each lane's arguments."""
        lines = [f"var q = g{' * 4u' if four else ''};"] if rrank > 1 else []
        for i in range(rrank - 1):
            lines += [f"let k{i} = q % p.e{i};", f"q = q / p.e{i};"]
        lines.append(f"let k{rrank - 1} = {'q' if rrank > 1 else 'g * 4u' if four else 'g'};")
        lanes: list[list[str]] = [[] for _ in range(4 if four or quad else 1)]
        for j in range(n_in):
            name, mode, dtype = names[j], modes[j], dtypes[j]
            if name not in wanted:
                continue
            if mode == "c":
                got = [f"{name}_c"] * len(lanes)
            elif mode == "v":
                text, got = elements.read4(dtype, f"memory_{name}", group_at(name), f"{name}v", caps)
                lines += text
            else:
                got = []
                for lane in range(1 if mode == "s" else len(lanes)):
                    lines.append(f"let {name}i{lane} = {at(name, lane, tail)};")
                    value = elements.read(dtype, f"memory_{name}", f"{name}i{lane}", caps)
                    lines.append(f"let {name}v{lane} = {value};")
                    got.append(f"{name}v{lane}")
                got = got * 4 if mode == "s" else got
            for lane, value in zip(lanes, got):
                lane.append(convert(value, carrier(dtype, caps), own))
        return lines, [", ".join(lane) for lane in lanes]

    def maps_of(tail: bool, arguments: list[str]) -> list[str]:
        lines = []
        for lane, text in enumerate(arguments):
            index = f"g * 4u + {lane}u" if four else "g"
            lines.append(f"let y{lane} = emit({text}, r{lane if quad else 0}, {index});")
        for j, (name, type_) in enumerate(maps, start=n_in):
            dtype, mode = dtypes[j], modes[j]
            values = [convert(f"y{lane}.{name}", type_, carrier(dtype, caps)) for lane in range(len(arguments))]
            if mode == "v":
                lines += [f"let {name}w{lane} = {value};" for lane, value in enumerate(values)]
                lanes = [f"{name}w{lane}" for lane in range(4)]
                lines += elements.write4(dtype, f"memory_{name}", group_at(name), lanes, caps)
                continue
            for lane, value in enumerate(values):
                lines += [f"let {name}i{lane} = {at(name, lane, False)};", f"let {name}w{lane} = {value};"]
                store = elements.write(dtype, f"memory_{name}", f"{name}i{lane}", f"{name}w{lane}", caps)
                lines.append(f"if (g * 4u + {lane}u < p.k) {{ {store} }}" if tail else store)
        return lines

    if from_state:
        parts = []
        for name, type_ in state:
            parts.append(convert(f"memory_{name}[o * p.k + g]", carrier(_stored(type_), caps), type_))
        load, lanes = [], [f"combine(s0, S({', '.join(parts)}))"]
        load_tail, next_tail = [], []
    else:
        load, arguments = loads(False, stepping)
        lanes = [
            f"step(s{lane}, {text}, p.base + {f'g * 4u + {lane}u' if four else 'g'})" for lane, text in enumerate(arguments)
        ]
        load_tail, arguments_tail = loads(True, stepping) if four else ([], [])
        next_tail = [f"step(total0, {text}, p.base + n * 4u + {lane}u)" for lane, text in enumerate(arguments_tail)]
    again, arguments = loads(False, spec.inputs) if spec.map else ([], [])
    again_tail, arguments_tail = loads(True, spec.inputs) if spec.map and four else ([], [])
    store = []
    for t in range(totals):
        row = f"(o * 4u + {t}u)" if quad else "o"
        if not final:
            slot = f"{row} * p.split + part" if walk.tree else f"{row} * slots + first"
            store.append(f"let slot{t} = {slot};")
            for name, type_ in state:
                value = convert(f"total{t}.{name}", type_, carrier(_stored(type_), caps))
                store.append(f"memory_{name}[slot{t}] = {value};")
        for (name, type_), (dtype, _) in zip(results, stored):
            target = ALL[dtype]
            store.append(f"let {name}i{t} = {name}_b{f' + {t}u * p.{name}_s0' if t else ''};")
            store.append(f"let {name}w{t} = {convert(f'r{t}.{name}', type_, carrier(target, caps))};")
            store.append("{ " + elements.write(target, f"memory_{name}", f"{name}i{t}", f"{name}w{t}", caps) + " }")

    def declared(wanted) -> str:
        return ", ".join(f"{n}: {wgsl_type(own)}" for n in wanted)

    tags = "_".join(f"{d.short}{mode}" for d, mode in zip(dtypes, modes)) or "state"
    shape = f"{'r' if walk.rows else 'q' if quad else 'c'}{walk.across}x{walk.along}"
    name = f"{spec.name}_{tags}_{ALL[compute_name].short}_{shape}_{orank}{rrank}{'' if final else 'p'}"
    text = render(
        "reduce.wgsl",
        caps,
        fields=fields,
        bindings=bindings,
        state=[(n, wgsl_type(t)) for n, t in state],
        results=[(n, wgsl_type(t)) for n, t in results],
        maps=[(n, wgsl_type(t)) for n, t in maps],
        init=init,
        step_arguments=declared(stepping),
        map_arguments=declared(spec.inputs),
        step=step,
        stepped=stepped,
        combine=combine,
        combined=combined,
        finish=finish,
        finished=finished,
        map=emit,
        mapped=mapped,
        from_state=from_state,
        rows=walk.rows,
        tree=walk.tree,
        across=walk.across,
        along=walk.along,
        blocked=caps.kind == "cpu",
        four=four,
        lanes=len(lanes),
        totals=totals,
        tail=four and rrank == 1,
        run=RUN,
        unroll=1 if from_state or spec.map else UNROLL[caps.kind],
        outer=outer,
        load=load,
        next=lanes,
        load_tail=load_tail,
        next_tail=next_tail,
        load_again=again,
        load_again_tail=again_tail,
        store=store,
        results_stored=bool(stored),
        store_map=maps_of(False, arguments) if spec.map else [],
        store_map_tail=maps_of(True, arguments_tail) if spec.map and four else [],
    )
    access = "".join("r" if a == "read" else "w" for _, a, _ in bindings)
    return Program(name, text, access, 4 * len(fields)), tuple(scalar_types[n] for n in spec.scalars)

