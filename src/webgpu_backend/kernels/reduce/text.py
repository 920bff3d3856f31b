"""The text of a reduction: a spec in Python-syntax expressions becomes a WGSL program for a way of walking memory."""

import re
from dataclasses import dataclass, replace
from functools import cache

from ...dtypes import ALL, DType, carrier
from ...program import Caps, Program
from ..pointwise.elementwise import _scalar_fields, _scalar_text
from ..text import elements
from ..text.expression import Emitter, convert, literal, wgsl_type
from ..text.render import render

# Units read before the first is used; units between the places where a thread puts its running state aside.
UNROLL = {"gpu": 4, "cpu": 1}
RUN = 256


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
class Walk:
    """How threads cover rows (kept elements) and units (reduced elements, or groups of four)."""

    rows: bool  # neighbouring threads are neighbours along the reduction
    four: bool  # a unit is four elements of one row
    quad: bool  # a thread reduces four neighbouring rows at once
    across: int
    along: int
    split: int
    tree: bool


def state_types(spec: Spec, compute: DType, caps: Caps) -> list[tuple[str, str]]:
    own = carrier(compute, caps)
    return [(n, _typed(t, own, caps)) for n, t in spec.state]


def _typed(name: str, own: str, caps: Caps) -> str:
    """The carrier that a spec's type stands for: "T" the compute dtype's own, "real" that of its absolute value."""
    real = "f32" if own == "c64" else own
    return {"T": own, "real": real, "i64": "n64" if caps.i64 else "i64"}.get(name, name)


def storage_of(carrier_: str) -> DType:
    """The dtype that holds a carrier between passes."""
    names = {
        "f32": "float32", "i32": "int32", "u32": "uint32", "bool": "uint32", "f64": "float64", "c64": "complex64",
        "n64": "int64", "i64": "int64", "nu64": "uint64", "u64": "uint64",
    }  # fmt: skip
    return ALL[names[carrier_]]


def render_program(spec, compute_name, signature, n_in, stored, final, from_state, orank, rrank, walk, caps):
    """The program of a walk; how often rows are split is a parameter, so that a new shape rarely needs a new text."""
    walk = replace(walk, split=0)
    return _program(spec, compute_name, signature, n_in, stored, final, from_state, orank, rrank, walk, caps)


@cache
def _program(spec, compute_name, signature, n_in, stored, final, from_state, orank, rrank, walk, caps):
    """`stored` is (dtype, mode) per result written; without `final` the state is written instead."""
    own = carrier(ALL[compute_name], caps)
    state = state_types(spec, ALL[compute_name], caps)
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
        bindings += [(f"memory_{n}", access, elements.array_type(storage_of(t), "e", caps)) for n, t in state]
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
            parts.append(convert(f"memory_{name}[o * p.k + g]", carrier(storage_of(type_), caps), type_))
        load, lanes = [], [f"combine(s0, S({', '.join(parts)}))"]
        load_tail, next_tail = [], []
    else:
        load, arguments = loads(False, stepping)
        lanes = [
            f"step(s{lane}, {text}, p.base + {f'g * 4u + {lane}u' if four else 'g'})"
            for lane, text in enumerate(arguments)
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
                value = convert(f"total{t}.{name}", type_, carrier(storage_of(type_), caps))
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
        "reduce/reduction.wgsl",
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
