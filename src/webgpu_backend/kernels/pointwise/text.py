"""The text of an elementwise kernel: an expression becomes a WGSL program for the dtypes of its operands and the ways
in which they are read and written."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from ...dtypes import REAL, DType, carrier
from ...program import Caps, Program
from ..layout import GROUPS, WORKGROUP
from ..text import elements, library, numbers
from ..text.expression import Emitter, convert, wgsl_type
from ..text.render import Binding, render_program

WIDE = 512  # fills and casts gain a tenth from it on a large GPU
# Side of the square that a GPU's workgroup walks where an input runs along another dimension than the output: lines of
# both are then used whole while they are in the cache. 32 rows of 8 groups are one workgroup.
TILE = 32
HEAVY = 2800  # characters of library code from which an operator is compiled once for its four lanes


@dataclass(frozen=True)
class Spec:
    """An elementwise operator: `inputs` and `scalars` name what `source` uses.

    `types` gives names a carrier of their own ("bool", "i32", "own": the operand's dtype, "real": that of a complex
    number's parts) instead of the compute dtype; `outputs` is one carrier per output: "T" (compute), "complex" (that
    of which compute is a part), or fixed. Numbers among the inputs wrap to the compute
    dtype, or are `checked`: they must fit, as whole scalars must. `bounds` says which of them are a "min" or "max" that
    need not fit whole numbers.
    """

    name: str
    source: str
    inputs: tuple[str, ...] = ("a",)
    scalars: tuple[str, ...] = ()
    types: tuple[tuple[str, str], ...] = ()
    outputs: tuple[str, ...] = ("T",)
    checked: bool = False
    nonzero: tuple[str, ...] = ()  # whole numbers that must not be zero: divisors
    bounds: tuple[tuple[str, str], ...] = ()


Packers = tuple[Callable[[object], bytes], ...]


class Walk(NamedTuple):
    """How a kernel walks its operands, the tensors among the inputs and then the outputs: the dtype of each, and its
    mode of access.

    l: four elements at the linear index; v: four along the inner dimension; s: one value for the four lanes; c: one
    value for all; e: single elements; a: single elements of a packed dtype, written through atomics.
    """

    dtypes: tuple[DType, ...]
    modes: str
    rank: int
    inner4: bool  # four neighbours share all coordinates but the innermost
    tiled: bool

    @property
    def straight(self) -> bool:
        """Every operand is walked as it lies in memory, or is one value."""
        return all(m in "lc" for m in self.modes)

    def reversible(self, caps: Caps) -> bool:
        """Whether a parameter says from which end to walk."""
        return caps.kind == "gpu" and self.straight

    def threads(self, caps: Caps) -> tuple[int, int]:
        """Threads of a workgroup, and groups of four that each has. Where a group is half of the sixteen bytes that a
        GPU likes to move at once, two of them gain up to a tenth."""
        if caps.kind == "gpu" and caps.workgroup_size >= WIDE:
            narrow = any(d.size <= 2 for d in self.dtypes) and self.straight
            return (WIDE // 2, 2) if narrow else (WIDE, 1)
        return WORKGROUP[caps.kind], GROUPS[caps.kind]


class _Operand(NamedTuple):
    name: str
    dtype: DType
    mode: str
    carrier: str  # as which the operator sees it
    buffer: str


@cache
def render(
    spec: Spec, compute: DType, walk: Walk, slots: tuple[int, ...], aliases: tuple[int | None, ...], caps: Caps
) -> tuple[Program, Packers]:
    """The program, and what packs its numbers. `slots` are the inputs that are numbers; `aliases` has, for each input,
    the output that shares its buffer."""
    text = _Text(spec, compute, walk, slots, aliases, caps)
    return text.program(), text.packers()


class _Text:
    """The parts of one program's text."""

    def __init__(self, spec: Spec, compute: DType, walk: Walk, slots: tuple, aliases: tuple, caps: Caps):
        self.spec, self.compute, self.walk, self.caps = spec, compute, walk, caps
        self.own = carrier(compute, caps)
        self.types = dict(spec.types)
        self.numbered = [spec.inputs[i] for i in slots]
        accesses = iter(zip(walk.dtypes, walk.modes))
        self.inputs: list[_Operand] = []
        for i, name in enumerate(spec.inputs):
            if i not in slots:
                dtype, mode = next(accesses)
                buffer = f"b_{name}" if aliases[i] is None else f"b_out{aliases[i]}"
                self.inputs.append(_Operand(name, dtype, mode, self._carrier(name, carrier(dtype, caps)), buffer))
        self.outputs = [
            _Operand(f"out{k}", dtype, mode, self._fixed(type_), f"b_out{k}")
            for k, (type_, (dtype, mode)) in enumerate(zip(spec.outputs, accesses))
        ]
        self.scalars = {name: self._carrier(name, self.own) for name in (*self.numbered, *spec.scalars)}

    def _carrier(self, name: str, own: str) -> str:
        """The carrier of an input or a scalar whose own is given."""
        type_ = self.types.get(name, "T")
        return own if type_ == "own" else self._fixed(type_)

    def _fixed(self, type_: str) -> str:
        if type_ == "complex":
            return "c128" if self.own == "f64" else "c64"
        real = REAL.get(self.own, self.own)
        return {"T": self.own, "real": real, "i64": "n64" if self.caps.i64 else "i64"}.get(type_, type_)

    def program(self) -> Program:
        walk, caps = self.walk, self.caps
        operands = [*self.inputs, *self.outputs]
        body, result = self._body(), self._result()
        tags = "_".join(f"{x.dtype.short}{x.mode}" for x in operands)
        threads, groups = walk.threads(caps)
        return render_program(
            f"{self.spec.name}_{tags}{walk.rank}{'i' if walk.inner4 else ''}{'t' if walk.tiled else ''}",
            "pointwise/elementwise.wgsl",
            self._fields(),
            self._bindings(),
            caps,
            outputs=[(x.name, wgsl_type(x.carrier)) for x in self.outputs],
            arguments=", ".join(f"{x.name}: {wgsl_type(x.carrier)}" for x in self.inputs),
            result=result,
            body=body,
            returned="out0" if result != "R" else f"R({', '.join(x.name for x in self.outputs)})",
            main=self._main(result, heavy=len(library.include("\n".join(body))) > HEAVY),
            workgroup=TILE * TILE // 4 if walk.tiled else threads,
            groups=groups,
            interleaved=caps.kind == "gpu",
            reversible=walk.reversible(caps),
            tile=TILE if walk.tiled else 0,
            rows="p.d1" if walk.rank > 2 else "p.n / p.d0",
        )

    def packers(self) -> Packers:
        found = []
        whole, ends = self.own in ("i32", "u32", "i64", "u64", "n64", "nu64"), dict(self.spec.bounds)
        for name, type_ in self.scalars.items():
            computed = self.types.get(name, "T") == "T"
            checked = computed and (self.spec.checked or (whole and name in self.spec.scalars))
            nonzero, end = name in self.spec.nonzero and whole, ends.get(name, "")
            found.append(numbers.packer(type_, self._room(computed), checked, nonzero, end))
        return tuple(found)

    def _room(self, computed: bool) -> str:
        """The dtype that a number must fit: that of the result, where it is narrower than what is computed in."""
        stored = self.walk.dtypes[-1].name
        if computed and self.spec.checked and stored in ("float16", "bfloat16") and self.compute.name == "float32":
            return stored
        return self.compute.name if computed else ""

    def _fields(self) -> list[str]:
        """Element count, the workgroup to count back from, dimensions, then what each operand's mode needs, then
        scalars."""
        rank = self.walk.rank
        fields = ["n", *(["turn"] if self.walk.reversible(self.caps) else []), *(f"d{i}" for i in range(rank - 1))]
        for x in (*self.inputs, *self.outputs):
            fields.append(f"{x.name}_o")
            if x.mode not in "lc":
                fields += [f"{x.name}_s{i}" for i in range(1 if x.mode == "v" else 0, rank)]
        for name, type_ in self.scalars.items():
            fields += numbers.scalar_fields(name, type_)
        return fields

    def _bindings(self) -> list[Binding]:
        """An input that shares an output's buffer has none of its own."""
        own = [(x, "read") for x in self.inputs if x.buffer == f"b_{x.name}"]
        return [
            (x.buffer, access, elements.array_type(x.dtype, {"l": "v", "v": "v", "a": "a"}.get(x.mode, "e"), self.caps))
            for x, access in (*own, *((x, "read_write") for x in self.outputs))
        ]

    def _result(self) -> str:
        """The type that the operator returns: R, where it has several outputs."""
        return wgsl_type(self.outputs[0].carrier) if len(self.outputs) == 1 else "R"

    def _body(self) -> list[str]:
        """The operator as a function of one lane."""
        texts = {name: numbers.scalar_text(name, type_) for name, type_ in self.scalars.items()}
        for x in self.inputs:
            wider = x.dtype.carrier not in ("f32", "bool") and not _holds(self.compute, x.dtype)
            if wider and self.types.get(x.name, "T") == "T":
                texts[x.name] = _wrapped(x.name, self.compute)  # a wider tensor of no dimensions joins as a number does
        emitter = Emitter({x.name: x.carrier for x in self.inputs} | self.scalars, texts, self.caps.i64)
        return emitter.program(self.spec.source, [(x.name, x.carrier) for x in self.outputs])

    def _main(self, result: str, heavy: bool) -> list[str]:
        """The statements for one group `g` of four consecutive elements (walk order)."""
        lines = self._coordinates()
        lanes = []
        for x in self.inputs:
            text, got = self._load(x)
            lines += text
            own = carrier(x.dtype, self.caps)
            lanes.append([convert(value, own, x.carrier) for value in got])
        text, results = self._applied_once(lanes, result) if heavy else self._applied(lanes)
        lines += text
        for x in self.outputs:
            lines += self._store(x, results if result != "R" else [f"{y}.{x.name}" for y in results])
        return lines

    def _coordinates(self) -> list[str]:
        """Those that the operands' addresses take: of the group, or of each lane."""
        walk = self.walk
        if walk.tiled:
            return _coordinates("", walk.rank, 2)
        if walk.inner4:
            return ["var r = g * 4u;", *_coordinates("", walk.rank)]
        if not any(m in "ea" for m in walk.modes):
            return []
        lines = []
        for lane in range(4):
            lines.append(f"var r{lane} = min(g * 4u + {lane}u, p.n - 1u);")
            lines += _coordinates(str(lane), walk.rank)
        return lines

    def _at(self, name: str, lane: int) -> str:
        """Element index of a lane for modes e, a, s."""
        suffix = "" if self.walk.inner4 else str(lane)
        terms = [f"p.{name}_o"] + [f"c{i}{suffix} * p.{name}_s{i}" for i in range(self.walk.rank)]
        if self.walk.inner4 and lane:
            terms.append(f"{lane}u * p.{name}_s0")
        return " + ".join(terms)

    def _group_at(self, x: _Operand) -> str:
        """Index of the group of four for modes l, v."""
        if x.mode == "l" or self.walk.rank == 1:
            return f"g + p.{x.name}_o"
        terms = [f"c0 / 4u + p.{x.name}_o"] + [f"c{i} * p.{x.name}_s{i}" for i in range(1, self.walk.rank)]
        return " + ".join(terms)

    def _load(self, x: _Operand) -> tuple[list[str], list[str]]:
        """Statements that read an input, and its four lanes."""
        name, caps = x.name, self.caps
        if x.mode in "lv":
            return elements.read4(x.dtype, x.buffer, self._group_at(x), f"{name}v", caps)
        if x.mode in "cs":
            index = f"p.{name}_o" if x.mode == "c" else self._at(name, 0)
            value = elements.read(x.dtype, x.buffer, f"{name}i", caps)
            return [f"let {name}i = {index};", f"let {name}v = {value};"], [f"{name}v"] * 4
        lines = []
        for lane in range(4):
            value = elements.read(x.dtype, x.buffer, f"{name}i{lane}", caps, x.mode)
            lines += [f"let {name}i{lane} = {self._at(name, lane)};", f"let {name}v{lane} = {value};"]
        return lines, [f"{name}v{lane}" for lane in range(4)]

    def _applied(self, lanes: list[list[str]]) -> tuple[list[str], list[str]]:
        """The operator on each lane, and the lanes' results."""
        lines = [f"let y{lane} = op({', '.join(values[lane] for values in lanes)});" for lane in range(4)]
        return lines, [f"y{lane}" for lane in range(4)]

    def _applied_once(self, lanes: list[list[str]], result: str) -> tuple[list[str], list[str]]:
        """As above, with one copy of the code: drivers inline calls, and take seconds over four copies of a special
        function."""
        lines = [
            f"var {x.name}l = array<{wgsl_type(x.carrier)}, 4>({', '.join(values)});"
            for x, values in zip(self.inputs, lanes)
        ]
        arguments = ", ".join(f"{x.name}l[k]" for x in self.inputs)
        lines += [f"var y: array<{result}, 4>;", f"for (var k = 0u; k < 4u; k++) {{ y[k] = op({arguments}); }}"]
        return lines, [f"y[{lane}]" for lane in range(4)]

    def _store(self, x: _Operand, results: list[str]) -> list[str]:
        """Statements that write an output's four lanes."""
        name, caps = x.name, self.caps
        values = [convert(y, x.carrier, carrier(x.dtype, caps)) for y in results]
        if x.mode in "lv":
            lines = [f"let {name}w{lane} = {value};" for lane, value in enumerate(values)]
            lanes = [f"{name}w{lane}" for lane in range(4)]
            return lines + elements.write4(x.dtype, x.buffer, self._group_at(x), lanes, caps)
        lines = []
        for lane, value in enumerate(values):
            store = elements.write(x.dtype, x.buffer, f"{name}i{lane}", f"{name}w{lane}", caps)
            lines.append(f"let {name}i{lane} = {self._at(name, lane)};")
            lines.append(f"let {name}w{lane} = {value};")
            lines.append(f"if (g * 4u + {lane}u < p.n) {{ {store} }}")
        return lines


def _holds(dtype: DType, other: DType) -> bool:
    """Whether a dtype of whole numbers has all those of another."""
    if (dtype.name[0] == "u") == (other.name[0] == "u"):
        return dtype.size >= other.size
    return other.name[0] == "u" and dtype.size > other.size


def _wrapped(text: str, dtype: DType) -> str:
    """An integer as a narrower one has it."""
    if dtype.name not in ("int8", "int16", "uint8", "uint16"):
        return text
    bits = 8 * dtype.size
    return f"({text} & {(1 << bits) - 1})" if dtype.name[0] == "u" else f"extractBits({text}, 0u, {bits}u)"


def _coordinates(suffix: str, rank: int, first: int = 0) -> list[str]:
    """c<first> and up from the linear index r."""
    lines = []
    for i in range(first, rank - 1):
        lines.append(f"let c{i}{suffix} = r{suffix} % p.d{i};")
        lines.append(f"r{suffix} = r{suffix} / p.d{i};")
    if first < rank:
        lines.append(f"let c{rank - 1}{suffix} = r{suffix};")
    return lines
