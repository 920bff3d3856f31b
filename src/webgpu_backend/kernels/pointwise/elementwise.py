"""Elementwise kernels: one expression over any dtypes, layouts and broadcasts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from struct import pack
from typing import NamedTuple

from ...dtypes import ALL, UINT32, DType, carrier
from ...program import Caps, Program, Step
from ..layout import View, broadcast_strides, collapse, contiguous_strides, grid, numel, order_by, spread
from ..text import elements, library, numbers
from ..text.expression import Emitter, convert, wgsl_type
from ..text.render import render

WORKGROUP = {"gpu": 256, "cpu": 64}
WIDE = 512  # fills and casts gain a tenth from it on a large GPU
# Groups of four elements per thread. A software adapter pays per workgroup, a GPU wants many threads.
GROUPS = {"gpu": 1, "cpu": 4}
# Side of the square that a GPU's workgroup walks where an input runs along another dimension than the output: lines of
# both are then used whole while they are in the cache. 32 rows of 8 groups are one workgroup.
TILE = 32
# Bytes from which every second call that walks memory straight on walks it backwards: what the one before touched last
# is in the cache. An H200 (50 MB of it) gains 7 % with operands of 128 MiB, 3 % with 256.
TURNED = 32 << 20
HEAVY = 2800  # characters of library code from which an operator is compiled once for its four lanes


@dataclass(frozen=True)
class Spec:
    """An elementwise operator: `inputs` and `scalars` name what `source` uses.

    `types` gives names a carrier of their own ("bool", "i32", "own": the operand's dtype) instead of the compute
    dtype; `outputs` is one carrier per output: "T" (compute), or fixed. Numbers among the inputs wrap to the compute
    dtype, or are `checked`: they must fit, as whole scalars must.
    """

    name: str
    source: str
    inputs: tuple[str, ...] = ("a",)
    scalars: tuple[str, ...] = ()
    types: tuple[tuple[str, str], ...] = ()
    outputs: tuple[str, ...] = ("T",)
    checked: bool = False


class Recipe(NamedTuple):
    """What a dispatch computes: enough to plan it again as part of another."""

    spec: Spec
    compute: DType
    inputs: tuple[View | None, ...]
    output: View
    owned: bool
    length: int  # of the parameters before the scalars


Packers = tuple[Callable[[object], bytes], ...]


def plan(
    spec: Spec,
    compute: DType,
    inputs: list[View | None],
    outputs: list[View],
    owned: list[bool],
    aliases: list[int | None],
    caps: Caps,
) -> tuple[Step, Packers]:
    """Plans one call: the step over the tensors among the inputs and then the outputs, and what packs the numbers that
    follow its parameters. An input of None is a number. `owned[k]`: padding after output k may be written.
    `aliases[i]`: the output that shares input i's buffer and layout, bound once.
    """
    if spec.name == "copy" and spec.source == "a":
        inputs, outputs = _as_words(inputs[0], outputs[0], owned[0])
        compute = outputs[0].dtype
    shape = outputs[0].sizes
    walk = order_by(shape, outputs[0].strides)
    sizes = [shape[d] for d in walk]
    views = [v for v in inputs if v is not None] + outputs
    strides = [[broadcast_strides(v, shape)[d] for d in walk] for v in views]
    dims, strides = collapse(sizes, strides)
    n = numel(dims)
    rank = len(dims)
    inner4 = rank > 1 and dims[0] % 4 == 0
    linear = list(contiguous_strides(dims[::-1]))[::-1]

    modes: list[str] = []
    tensor_inputs = [i for i, v in enumerate(inputs) if v is not None]
    n_in = len(tensor_inputs)
    for k, (view, st) in enumerate(zip(views, strides)):
        aligned = view.offset % 4 == 0 and all(s % 4 == 0 for s in st[1:])
        vector = st[0] == 1 and aligned and (inner4 or rank == 1)
        if k >= n_in:
            is_linear = st == linear and view.offset % 4 == 0
            whole = owned[k - n_in] or n % 4 == 0
            if is_linear and whole:
                modes.append("l")  # four elements at the linear index
            elif vector and (inner4 or whole):
                modes.append("v")
            else:
                modes.append(elements.element_mode(view.dtype, caps, written=True))
        elif all(s == 0 for s in st):
            modes.append("c")  # one value for all
        elif st == linear and view.offset % 4 == 0:
            modes.append("l")
        elif vector:
            modes.append("v")
        elif inner4 and st[0] == 0:
            modes.append("s")  # one value for the four lanes
        else:
            modes.append("e")
    for k, i in enumerate(tensor_inputs):
        out = aliases[i]
        if out is not None:
            modes[k] = modes[n_in + out]

    crossed = [st for st, m in zip(strides, modes) if m == "e" and rank > 1 and 0 < st[1] < st[0]]
    tiled = caps.kind == "gpu" and inner4 and bool(crossed)
    signature = tuple((v.dtype.name, m) for v, m in zip(views, modes))
    scalar_slots = tuple(i for i, v in enumerate(inputs) if v is None)
    program, packers = _program(
        spec, compute.name, signature, n_in, scalar_slots, rank, inner4, tiled, tuple(aliases), caps
    )
    reversible = caps.kind == "gpu" and _straight(modes)
    words = [n, 0, *dims[:-1]] if reversible else [n, *dims[:-1]]
    for view, mode, st in zip(views, modes, strides):
        if mode == "l":
            words.append(view.offset // 4)
        elif mode == "c":
            words.append(view.offset)
        elif mode == "v":
            words += [view.offset // 4, *(s // 4 for s in st[1:])]
        else:
            words += [view.offset, *st]
    params = pack(f"<{len(words)}I", *words)
    if tiled:
        groups = spread(-(-dims[0] // TILE) * -(-dims[1] // TILE) * numel(dims[2:]), caps)
    else:
        workgroup, turns = _walk([v.dtype for v in views], modes, caps)
        groups = grid(-(-n // (4 * turns)), workgroup, caps)
    turned = None
    if reversible and n * sum(v.dtype.size for v, m in zip(views, modes) if m == "l") >= TURNED:
        turned = pack(f"<{len(words)}I", n, groups[0] * groups[1] - 1, *words[2:])
    bound = tuple(k for k, i in enumerate(tensor_inputs) if aliases[i] is None) + tuple(range(n_in, len(views)))
    recipe = None
    if len(outputs) == 1 and not any(a is not None for a in aliases):
        recipe = Recipe(spec, compute, tuple(inputs), outputs[0], owned[0], len(params))
    return Step(program, params, groups, bound, turned=turned, meaning=recipe), packers


def _straight(modes) -> bool:
    """Every operand is walked as it lies in memory, or is one value."""
    return all(m in "lc" for m in modes)


def _as_words(source: View, target: View, owned: bool) -> tuple[list[View], list[View]]:
    """A plain copy of packed elements, or of pairs of words, moves words where both views are one run of memory in the
    same order: a thread then has sixteen bytes in place of four elements."""
    item, n = target.dtype.size, numel(target.sizes)
    as_they_are = [source], [target]
    if not (target.dtype.packed or item == 8) or source[:3] != target[:3] or not (n * item % 4 == 0 or owned):
        return as_they_are
    walk = order_by(target.sizes, target.strides)
    dims, strides = collapse([target.sizes[d] for d in walk], [[target.strides[d] for d in walk]])
    if len(dims) > 1 or (n > 1 and strides[0][0] != 1) or source.offset * item % 4 or target.offset * item % 4:
        return as_they_are
    words = (-(-n * item // 4),)
    source, target = (View(UINT32, words, (1,), v.offset * item // 4) for v in (source, target))
    return [source], [target]


def _walk(dtypes: list[DType], modes: list[str], caps: Caps) -> tuple[int, int]:
    """Threads of a workgroup, and groups of four that each has. Where a group is half of the sixteen bytes that a GPU
    likes to move at once, two of them gain up to a tenth."""
    if caps.kind == "gpu" and caps.workgroup_size >= WIDE:
        narrow = any(d.size <= 2 for d in dtypes) and _straight(modes)
        return (WIDE // 2, 2) if narrow else (WIDE, 1)
    return WORKGROUP[caps.kind], GROUPS[caps.kind]


@cache
def _program(spec, compute_name, signature, n_in, scalar_slots, rank, inner4, tiled, aliases, caps):
    compute = carrier(ALL[compute_name], caps)
    types = dict(spec.types)
    scalar_inputs = [spec.inputs[i] for i in scalar_slots]
    tensor_names = [n for i, n in enumerate(spec.inputs) if i not in scalar_slots]
    dtypes = [ALL[name] for name, _ in signature]
    modes = [m for _, m in signature]
    outs = [f"out{k}" for k in range(len(spec.outputs))]
    names = tensor_names + outs

    def carrier_of(name: str, own: str) -> str:
        fixed = types.get(name, "T")
        return compute if fixed == "T" else own if fixed == "own" else _fixed(fixed, caps)

    operand_types = {n: carrier_of(n, carrier(d, caps)) for n, d in zip(tensor_names, dtypes)}
    scalar_names = scalar_inputs + list(spec.scalars)
    scalar_types = {n: carrier_of(n, compute) for n in scalar_names}
    result_types = [compute if o == "T" else _fixed(o, caps) for o in spec.outputs]

    # Parameters: element count, the workgroup to count back from, dimensions, then what each operand's mode needs, then
    # scalars.
    reversible = caps.kind == "gpu" and _straight(modes)
    fields = ["n: u32", *(["turn: u32"] if reversible else [])] + [f"d{i}: u32" for i in range(rank - 1)]
    for name, mode in zip(names, modes):
        fields.append(f"{name}_o: u32")
        if mode not in "lc":
            low = 1 if mode == "v" else 0
            fields += [f"{name}_s{i}: u32" for i in range(low, rank)]
    for name in scalar_names:
        fields += _scalar_fields(name, scalar_types[name])

    # The operator as a function of one lane.
    texts = {n: _scalar_text(n, scalar_types[n]) for n in scalar_names}
    for n, d in zip(tensor_names, dtypes):
        if types.get(n, "T") == "T" and d.carrier not in ("f32", "bool") and d.size > ALL[compute_name].size:
            texts[n] = _wrapped(n, compute_name)  # a wider tensor of no dimensions joins as a number does
    emitter = Emitter(operand_types | scalar_types, texts, caps.i64)
    body = emitter.program(spec.source, list(zip(outs, result_types)))
    arguments = ", ".join(f"{n}: {wgsl_type(t)}" for n, t in operand_types.items())
    if len(outs) == 1:
        result, returned = wgsl_type(result_types[0]), "out0"
    else:
        result, returned = "R", f"R({', '.join(outs)})"

    bindings, var_of = [], {}
    for k, name in enumerate(tensor_names):
        slot = _nth_tensor(k, scalar_slots)
        if aliases[slot] is None:
            var_of[name] = f"b_{name}"
            bindings.append((f"b_{name}", "read", elements.array_type(dtypes[k], _decl(modes[k]), caps)))
        else:
            var_of[name] = f"b_out{aliases[slot]}"
    for k, name in enumerate(outs):
        var_of[name] = f"b_{name}"
        kind = elements.array_type(dtypes[n_in + k], _decl(modes[n_in + k]), caps)
        bindings.append((f"b_{name}", "read_write", kind))

    heavy = result if len(library.include("\n".join(body))) > HEAVY else ""
    main = _main(
        names, dtypes, modes, n_in, rank, inner4, tiled, operand_types, result_types, var_of, outs, caps, heavy
    )
    tags = "_".join(f"{d.short}{m}" for d, m in zip(dtypes, modes))
    name = f"{spec.name}_{tags}{rank}{'i' if inner4 else ''}{'t' if tiled else ''}"
    workgroup, groups = _walk(dtypes, modes, caps)
    source = render(
        "pointwise/elementwise.wgsl",
        caps,
        fields=fields,
        bindings=bindings,
        outputs=list(zip(outs, (wgsl_type(t) for t in result_types))),
        arguments=arguments,
        result=result,
        body=body,
        returned=returned,
        main=main,
        workgroup=TILE * TILE // 4 if tiled else workgroup,
        groups=groups,
        interleaved=caps.kind == "gpu",
        reversible=reversible,
        tile=TILE if tiled else 0,
        rows="p.d1" if rank > 2 else "p.n / p.d0",
    )
    access = "".join("r" if a == "read" else "w" for _, a, _ in bindings)
    whole = compute in ("i32", "u32", "i64", "u64", "n64", "nu64")
    packers = []
    for n in scalar_names:
        computed = types.get(n, "T") == "T"
        checked = computed and (spec.checked or (whole and n in spec.scalars))
        packers.append(numbers.packer(scalar_types[n], compute_name if computed else "", checked))
    return Program(name, source, access, 4 * len(fields)), tuple(packers)


def _nth_tensor(k: int, scalar_slots: tuple[int, ...]) -> int:
    """The input position of the k-th tensor operand."""
    i = -1
    for _ in range(k + 1):
        i += 1
        while i in scalar_slots:
            i += 1
    return i


def _decl(mode: str) -> str:
    return {"l": "v", "v": "v", "a": "a"}.get(mode, "e")


def _fixed(name: str, caps: Caps) -> str:
    return {"i64": "n64" if caps.i64 else "i64"}.get(name, name)


_WORDS = {"i64": 2, "u64": 2, "n64": 2, "nu64": 2, "c64": 2, "f64": 3}


def _scalar_fields(name: str, carrier_: str) -> list[str]:
    kind = {"f32": "f32", "i32": "i32", "c64": "f32", "f64": "f32"}.get(carrier_, "u32")
    if carrier_ in _WORDS:
        return [f"s_{name}_{part}: {kind}" for part in "xyz"[: _WORDS[carrier_]]]
    return [f"s_{name}: {kind}"]


def _scalar_text(name: str, carrier_: str) -> str:
    if carrier_ == "bool":
        return f"(p.s_{name} != 0u)"
    if carrier_ in ("i64", "u64"):
        return f"vec2<u32>(p.s_{name}_x, p.s_{name}_y)"
    if carrier_ == "c64":
        return f"vec2<f32>(p.s_{name}_x, p.s_{name}_y)"
    if carrier_ == "n64":
        return f"n64_load(p.s_{name}_x, p.s_{name}_y)"
    if carrier_ == "nu64":
        return f"u64(n64_load(p.s_{name}_x, p.s_{name}_y))"
    if carrier_ == "f64":
        # Three f32 whose sum is the value: no bitcast from two words to f64 is to be had.
        return f"(f64(p.s_{name}_x) + f64(p.s_{name}_y) + f64(p.s_{name}_z))"
    return f"p.s_{name}"


def _wrapped(text: str, dtype: str) -> str:
    """An integer as a narrower one has it."""
    if dtype not in ("int8", "int16", "uint8", "uint16"):
        return text
    bits = 8 * ALL[dtype].size
    return f"({text} & {(1 << bits) - 1})" if dtype[0] == "u" else f"extractBits({text}, 0u, {bits}u)"


def _main(
    names, dtypes, modes, n_in, rank, inner4, tiled, operand_types, result_types, var_of, outs, caps, heavy
) -> list[str]:
    """The statements for one group `g` of four consecutive elements (walk order)."""
    lines: list[str] = []
    per_lane = any(m in "ea" for m in modes) and not inner4
    if tiled:
        lines += _coordinates("", rank, 2)
    elif inner4:
        lines.append("var r = g * 4u;")
        lines += _coordinates("", rank)
    elif per_lane:
        for lane in range(4):
            lines.append(f"var r{lane} = min(g * 4u + {lane}u, p.n - 1u);")
            lines += _coordinates(str(lane), rank)

    def at(name: str, lane: int) -> str:
        """Element index of a lane for modes e, a, s."""
        suffix = "" if inner4 else str(lane)
        terms = [f"p.{name}_o"] + [f"c{i}{suffix} * p.{name}_s{i}" for i in range(rank)]
        if inner4 and lane:
            terms.append(f"{lane}u * p.{name}_s0")
        return " + ".join(terms)

    def group_at(name: str, mode: str) -> str:
        if mode == "l" or rank == 1:
            return f"g + p.{name}_o"
        terms = [f"c0 / 4u + p.{name}_o"] + [f"c{i} * p.{name}_s{i}" for i in range(1, rank)]
        return " + ".join(terms)

    lanes: dict[str, list[str]] = {}
    for k in range(n_in):
        name, dtype, mode, var = names[k], dtypes[k], modes[k], var_of[names[k]]
        if mode in "lv":
            text, got = elements.read4(dtype, var, group_at(name, mode), f"{name}v", caps)
            lines += text
        elif mode in "cs":
            index = f"p.{name}_o" if mode == "c" else at(name, 0)
            lines.append(f"let {name}i = {index};")
            lines.append(f"let {name}v = {elements.read(dtype, var, f'{name}i', caps)};")
            got = [f"{name}v"] * 4
        else:
            got = []
            for lane in range(4):
                lines.append(f"let {name}i{lane} = {at(name, lane)};")
                value = elements.read(dtype, var, f"{name}i{lane}", caps, mode)
                lines.append(f"let {name}v{lane} = {value};")
                got.append(f"{name}v{lane}")
        own = carrier(dtype, caps)
        lanes[name] = [convert(v, own, operand_types[name]) for v in got]
    if heavy:
        # One copy of the code: drivers inline calls, and take seconds over four copies of a special function.
        for name in names[:n_in]:
            lines.append(f"var {name}l = array<{wgsl_type(operand_types[name])}, 4>({', '.join(lanes[name])});")
        lines.append(f"var y: array<{heavy}, 4>;")
        lines.append(f"for (var k = 0u; k < 4u; k++) {{ y[k] = op({', '.join(f'{n}l[k]' for n in names[:n_in])}); }}")
        results = [f"y[{lane}]" for lane in range(4)]
    else:
        for lane in range(4):
            lines.append(f"let y{lane} = op({', '.join(lanes[n][lane] for n in names[:n_in])});")
        results = [f"y{lane}" for lane in range(4)]
    for k, out in enumerate(outs):
        dtype, mode = dtypes[n_in + k], modes[n_in + k]
        own = carrier(dtype, caps)
        values = [convert(y if len(outs) == 1 else f"{y}.{out}", result_types[k], own) for y in results]
        if mode in "lv":
            for lane, value in enumerate(values):
                lines.append(f"let {out}w{lane} = {value};")
            packed = [f"{out}w{lane}" for lane in range(4)]
            lines += elements.write4(dtype, f"b_{out}", group_at(out, mode), packed, caps)
            continue
        for lane, value in enumerate(values):
            store = elements.write(dtype, f"b_{out}", f"{out}i{lane}", f"{out}w{lane}", caps)
            lines.append(f"let {out}i{lane} = {at(out, lane)};")
            lines.append(f"let {out}w{lane} = {value};")
            lines.append(f"if (g * 4u + {lane}u < p.n) {{ {store} }}")
    return lines


def _coordinates(suffix: str, rank: int, first: int = 0) -> list[str]:
    """c<first> and up from the linear index r."""
    lines = []
    for i in range(first, rank - 1):
        lines.append(f"let c{i}{suffix} = r{suffix} % p.d{i};")
        lines.append(f"r{suffix} = r{suffix} / p.d{i};")
    if first < rank:
        lines.append(f"let c{rank - 1}{suffix} = r{suffix};")
    return lines
