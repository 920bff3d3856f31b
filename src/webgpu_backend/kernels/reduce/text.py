"""The text of a reduction: a spec in Python-syntax expressions becomes a WGSL program for a way of walking memory."""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from ...dtypes import ALL, REAL, DType, carrier
from ...program import Caps, Program
from ..text import elements
from ..text.expression import Emitter, convert, literal, names_in, wgsl_type
from ..text.numbers import scalar_fields, scalar_text
from ..text.render import Binding, render_program

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


class Walk(NamedTuple):
    """How threads cover rows (kept elements) and units (reduced elements, or groups of four)."""

    rows: bool  # neighbouring threads are neighbours along the reduction
    four: bool  # a unit is four elements of one row
    quad: bool  # a thread reduces four neighbouring rows at once
    across: int
    along: int
    split: int
    tree: bool


Access = tuple[DType, str]  # of a tensor: its dtype and its mode


class Pass(NamedTuple):
    """What one pass of a reduction reads and writes.

    Modes are v: four elements at once; s: one value for four lanes; c: one value for the row; e: single elements; a:
    single elements of a packed dtype, written through atomics.
    """

    inputs: tuple[Access, ...]
    maps: tuple[Access, ...]
    results: tuple[Access, ...]  # that are stored
    final: bool  # ends with results, else with states
    second: bool  # reads states in place of inputs
    outer: int  # dimensions that are kept
    inner: int  # dimensions that are reduced
    walk: Walk


def state_types(spec: Spec, compute: DType, caps: Caps) -> list[tuple[str, str]]:
    own = carrier(compute, caps)
    return [(n, _typed(t, own, caps)) for n, t in spec.state]


def _typed(name: str, own: str, caps: Caps) -> str:
    """The carrier that a spec's type stands for: "T" the compute dtype's own, "real" that of its absolute value."""
    return {"T": own, "real": REAL.get(own, own), "i64": "n64" if caps.i64 else "i64"}.get(name, name)


def storage_of(carrier_: str) -> DType:
    """The dtype that holds a carrier between passes."""
    names = {
        "f32": "float32", "i32": "int32", "u32": "uint32", "bool": "uint32", "f64": "float64", "c64": "complex64",
        "c128": "complex128", "n64": "int64", "i64": "int64", "nu64": "uint64", "u64": "uint64",
    }  # fmt: skip
    return ALL[names[carrier_]]


def render(spec: Spec, compute: DType, pass_: Pass, caps: Caps) -> tuple[Program, tuple[str, ...]]:
    """The program of a pass, and the carriers of its scalars. How often rows are split is a parameter, so that a new
    shape rarely needs a new text."""
    return _rendered(spec, compute, pass_._replace(walk=pass_.walk._replace(split=0)), caps)


@cache
def _rendered(spec: Spec, compute: DType, pass_: Pass, caps: Caps) -> tuple[Program, tuple[str, ...]]:
    text = _Text(spec, compute, pass_, caps)
    return text.program(), tuple(text.scalars.values())


class _Tensor(NamedTuple):
    name: str
    dtype: DType
    mode: str
    carrier: str  # of the values that the spec gives it, or takes from it

    @property
    def memory(self) -> str:
        return f"memory_{self.name}"


class _Text:
    """The parts of one program's text."""

    def __init__(self, spec: Spec, compute: DType, pass_: Pass, caps: Caps):
        self.spec, self.compute, self.pass_, self.caps = spec, compute, pass_, caps
        self.walk = pass_.walk
        self.own = carrier(compute, caps)
        self.state = dict(state_types(spec, compute, caps))
        self.results = {n: _typed(t, self.own, caps) for n, t in spec.results}
        self.maps = {n: _typed(t, self.own, caps) for n, t in spec.maps}
        self.scalars = {n: REAL.get(self.own, self.own) for n in spec.scalars}
        self.read = [_Tensor(n, *access, self.own) for n, access in zip(spec.inputs, pass_.inputs)]
        self.written = [_Tensor(n, *access, t) for (n, t), access in zip(self.maps.items(), pass_.maps)]
        self.stored = [_Tensor(n, *access, t) for (n, t), access in zip(self.results.items(), pass_.results)]
        self.lanes = 4 if self.walk.four or self.walk.quad else 1
        self.stepping = [n for n in spec.inputs if n in names_in(spec.step)]

    def program(self) -> Program:
        pass_, walk = self.pass_, self.walk
        tags = "_".join(f"{x.dtype.short}{x.mode}" for x in (*self.read, *self.written)) or "state"
        shape = f"{'r' if walk.rows else 'q' if walk.quad else 'c'}{walk.across}x{walk.along}"
        ranks = f"{pass_.outer}{pass_.inner}{'' if pass_.final else 'p'}"
        return render_program(
            f"{self.spec.name}_{tags}_{self.compute.short}_{shape}_{ranks}",
            "reduce/reduction.wgsl",
            self._fields(),
            self._bindings(),
            self.caps,
            rows=walk.rows,
            tree=walk.tree,
            across=walk.across,
            along=walk.along,
            four=walk.four,
            totals=4 if walk.quad else 1,
            blocked=self.caps.kind == "cpu",
            from_state=pass_.second,
            run=RUN,
            unroll=1 if pass_.second or self.spec.map else UNROLL[self.caps.kind],
            outer=self._outer(),
            store=self._store(),
            results_stored=bool(self.stored),
            **self._functions(),
            **self._steps(),
            **self._maps(),
        )

    def _fields(self) -> list[str]:
        """Sizes, dimensions, then each tensor's offset and strides, then scalars."""
        outer, inner = range(self.pass_.outer), range(self.pass_.inner)
        fields = ["m", "k", "split", "base", *(f"d{i}" for i in outer[:-1]), *(f"e{i}" for i in inner[:-1])]
        if self.pass_.second:
            fields.append("count")
        for x in (*self.read, *self.written):
            fields += [f"{x.name}_o", *(f"{x.name}_s{i}" for i in outer)]
            if x.mode != "c":
                fields += [f"{x.name}_r{i}" for i in inner]
        for x in self.stored:
            fields += [f"{x.name}_o", *(f"{x.name}_s{i}" for i in outer)]
        for name, type_ in self.scalars.items():
            fields += scalar_fields(name, type_)
        return fields

    def _bindings(self) -> list[Binding]:
        """Inputs, maps, the fields of states that are read or left, results."""
        bindings = []
        for x, access in (*((x, "read") for x in self.read), *((x, "read_write") for x in self.written)):
            mode = x.mode if x.mode in "va" else "e"
            bindings.append((x.memory, access, elements.array_type(x.dtype, mode, self.caps)))
        if self.pass_.second or not self.pass_.final:
            access = "read" if self.pass_.second else "read_write"
            for name, type_ in self.state.items():
                bindings.append((f"memory_{name}", access, elements.array_type(storage_of(type_), "e", self.caps)))
        for x in self.stored:
            bindings.append((x.memory, "read_write", elements.array_type(x.dtype, x.mode, self.caps)))
        return bindings

    # -- the spec's expressions as functions

    def _functions(self) -> dict:
        """The structs of states, results and maps, and the bodies of what works on them."""
        spec, state, many = self.spec, self.state, len(self.state) > 1
        after = {f"{n}1": t for n, t in state.items()} if many else {"next": next(iter(state.values()))}
        inputs = dict.fromkeys(spec.inputs, self.own)
        of_state, of_other = {n: f"s.{n}" for n in state}, {f"o_{n}": f"o.{n}" for n in state}
        count = {"n": "p.count" if self.pass_.second else "p.k"}
        step = self._body(spec.step, after, state | inputs, of_state)
        others = {f"o_{n}": t for n, t in state.items()}
        combine = self._body(spec.combine, after, state | others, of_state | of_other)
        finish = emit = ([], "")
        if self.pass_.final:
            finish = self._body(spec.finish, self.results, state | {"n": "u32"}, of_state | count)
        if spec.map:
            known = inputs | self.results | {"n": "u32"}
            emit = self._body(spec.map, self.maps, known, {n: f"r.{n}" for n in self.results} | count)
        return dict(
            state=_members(state), results=_members(self.results), maps=_members(self.maps),
            init=", ".join(literal(v, t) for v, t in zip(spec.init, state.values())),
            step_arguments=self._declared(self.stepping), map_arguments=self._declared(spec.inputs),
            step=step[0], stepped=step[1], combine=combine[0], combined=combine[1], finish=finish[0],
            finished=finish[1], map=emit[0], mapped=emit[1],
        )  # fmt: skip

    def _body(self, source: str, outs: dict, known: dict, shown: dict) -> tuple[list[str], str]:
        """Statements of an expression over `known` names, which `shown` spells, and what they leave."""
        texts = shown | {n: scalar_text(n, t) for n, t in self.scalars.items()}
        emitter = Emitter(known | self.scalars | {"i": "u32"} | outs, texts, self.caps.i64)
        return emitter.program(source, [*outs.items()]), ", ".join(outs)

    def _declared(self, wanted) -> str:
        return ", ".join(f"{n}: {wgsl_type(self.own)}" for n in wanted)

    # -- where things are

    def _outer(self) -> list[str]:
        """Row coordinates, each operand's start, and what is constant along the row."""
        rank = self.pass_.outer
        values = [f"rest % p.d{i}" for i in range(rank - 1)] + ["rest" if rank > 1 else "o"]
        lines = ["var rest = o;"] if rank > 1 else []
        for i, value in enumerate(values):
            lines.append(f"let c{i} = ({value}) * 4u;" if self.walk.quad and not i else f"let c{i} = {value};")
            if i < rank - 1:
                lines.append(f"rest = rest / p.d{i};")
        for x in (*self.read, *self.written, *self.stored):
            terms = [f"p.{x.name}_o", *(f"c{i} * p.{x.name}_s{i}" for i in range(rank))]
            lines.append(f"let {x.name}_b = {' + '.join(terms)};")
        for x in self.read:
            if x.mode == "c":
                lines.append(f"let {x.name}_c = {elements.read(x.dtype, x.memory, f'{x.name}_b', self.caps)};")
        return lines

    def _unit(self) -> list[str]:
        """The coordinates k0.. of the unit `g` among the reduced dimensions."""
        rank, four = self.pass_.inner, self.walk.four
        lines = [f"var q = g{' * 4u' if four else ''};"] if rank > 1 else []
        for i in range(rank - 1):
            lines += [f"let k{i} = q % p.e{i};", f"q = q / p.e{i};"]
        lines.append(f"let k{rank - 1} = {'q' if rank > 1 else 'g * 4u' if four else 'g'};")
        return lines

    def _far(self, name: str) -> list[str]:
        """What all reduced dimensions but the innermost add to an index."""
        return [f"k{i} * p.{name}_r{i}" for i in range(1, self.pass_.inner)]

    def _at(self, name: str, lane: int, tail: bool) -> str:
        """Element index of a lane of the unit `g`; `tail`: the row may end before it."""
        low = f"k0 + {lane}u" if lane and self.walk.four else "k0"
        if tail and lane:
            low = f"min({low}, p.k - 1u)"
        row = [f"{lane}u * p.{name}_s0"] if self.walk.quad and lane else []
        return " + ".join([f"{name}_b", *row, f"({low}) * p.{name}_r0", *self._far(name)])

    def _group_at(self, name: str) -> str:
        """The group of four elements that the unit `g` is (or, of four rows, holds)."""
        low = "k0" if self.walk.four else f"k0 * p.{name}_r0"
        return f"({' + '.join([f'{name}_b', low, *self._far(name)])}) / 4u"

    # -- what is done to a unit

    def _steps(self) -> dict:
        """How unit `g` joins the running states: whole units, and what is left of a row after them."""
        if self.pass_.second:
            fields = [
                convert(f"memory_{name}[o * p.k + g]", carrier(storage_of(type_), self.caps), type_)
                for name, type_ in self.state.items()
            ]
            next_ = [f"combine(s0, S({', '.join(fields)}))"]
            return dict(lanes=1, load=[], next=next_, load_tail=[], next_tail=[], tail=False)
        load, arguments = self._loads(False, self.stepping)
        load_tail, of_tail = self._loads(True, self.stepping) if self.walk.four else ([], [])
        return dict(
            lanes=self.lanes,
            load=load,
            next=[f"step(s{i}, {text}, p.base + {self._index(i)})" for i, text in enumerate(arguments)],
            load_tail=load_tail,
            next_tail=[f"step(total0, {text}, p.base + n * 4u + {i}u)" for i, text in enumerate(of_tail)],
            tail=self.walk.four and self.pass_.inner == 1,
        )

    def _index(self, lane: int) -> str:
        """Where a lane of unit `g` stands among the reduced elements."""
        return f"g * 4u + {lane}u" if self.walk.four else "g"

    def _maps(self) -> dict:
        """How unit `g` is read again and rewritten."""
        again = again_tail = store = store_tail = []
        if self.spec.map:
            again, arguments = self._loads(False, self.spec.inputs)
            store = self._store_map(False, arguments)
            if self.walk.four:
                again_tail, arguments = self._loads(True, self.spec.inputs)
                store_tail = self._store_map(True, arguments)
        return dict(load_again=again, load_again_tail=again_tail, store_map=store, store_map_tail=store_tail)

    def _loads(self, tail: bool, wanted) -> tuple[list[str], list[str]]:
        """Statements that read unit `g` of the inputs wanted, and each lane's arguments."""
        lines, lanes = self._unit(), [[] for _ in range(self.lanes)]
        for x in self.read:
            if x.name not in wanted:
                continue
            text, got = self._load(x, tail)
            lines += text
            for lane, value in zip(lanes, got):
                lane.append(convert(value, carrier(x.dtype, self.caps), self.own))
        return lines, [", ".join(lane) for lane in lanes]

    def _load(self, x: _Tensor, tail: bool) -> tuple[list[str], list[str]]:
        """Statements that read unit `g` of one input, and its lanes."""
        name, caps = x.name, self.caps
        if x.mode == "c":
            return [], [f"{name}_c"] * self.lanes
        if x.mode == "v":
            return elements.read4(x.dtype, x.memory, self._group_at(name), f"{name}v", caps)
        lines, got = [], []
        for lane in range(1 if x.mode == "s" else self.lanes):
            lines.append(f"let {name}i{lane} = {self._at(name, lane, tail)};")
            lines.append(f"let {name}v{lane} = {elements.read(x.dtype, x.memory, f'{name}i{lane}', caps)};")
            got.append(f"{name}v{lane}")
        return lines, got * 4 if x.mode == "s" else got

    def _store_map(self, tail: bool, arguments: list[str]) -> list[str]:
        """Statements that compute and write unit `g` of the maps."""
        lines = []
        for lane, text in enumerate(arguments):
            result = f"r{lane if self.walk.quad else 0}"
            lines.append(f"let y{lane} = emit({text}, {result}, {self._index(lane)});")
        for x in self.written:
            name, own = x.name, carrier(x.dtype, self.caps)
            values = [convert(f"y{lane}.{name}", x.carrier, own) for lane in range(len(arguments))]
            if x.mode == "v":
                lines += [f"let {name}w{lane} = {value};" for lane, value in enumerate(values)]
                lanes = [f"{name}w{lane}" for lane in range(4)]
                lines += elements.write4(x.dtype, x.memory, self._group_at(name), lanes, self.caps)
                continue
            for lane, value in enumerate(values):
                lines += [f"let {name}i{lane} = {self._at(name, lane, False)};", f"let {name}w{lane} = {value};"]
                store = elements.write(x.dtype, x.memory, f"{name}i{lane}", f"{name}w{lane}", self.caps)
                lines.append(f"if (g * 4u + {lane}u < p.k) {{ {store} }}" if tail else store)
        return lines

    def _store(self) -> list[str]:
        """Statements that write what a row, or four of them, came to."""
        lines, quad, tree = [], self.walk.quad, self.walk.tree
        for t in range(4 if quad else 1):
            row = f"(o * 4u + {t}u)" if quad else "o"
            if not self.pass_.final:
                lines.append(f"let slot{t} = {row} * {'p.split + part' if tree else 'slots + first'};")
                for name, type_ in self.state.items():
                    value = convert(f"total{t}.{name}", type_, carrier(storage_of(type_), self.caps))
                    lines.append(f"memory_{name}[slot{t}] = {value};")
            for x in self.stored:
                name, value = x.name, convert(f"r{t}.{x.name}", x.carrier, carrier(x.dtype, self.caps))
                lines.append(f"let {name}i{t} = {name}_b{f' + {t}u * p.{name}_s0' if t else ''};")
                lines.append(f"let {name}w{t} = {value};")
                store = elements.write(x.dtype, x.memory, f"{name}i{t}", f"{name}w{t}", self.caps)
                lines.append(f"{{ {store} }}")
        return lines


def _members(types: dict[str, str]) -> list[tuple[str, str]]:
    return [(name, wgsl_type(type_)) for name, type_ in types.items()]
