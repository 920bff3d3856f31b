"""Elementwise kernels over lists of tensors: several tensors to a dispatch, each a range of its workgroups.

Every tensor is a binding of its own, so a dispatch takes as many as the adapter binds. Tensors are contiguous and start
their buffers; floats only, computed in f32.
"""

from functools import cache
from itertools import accumulate
from typing import NamedTuple

from ...dtypes import DType
from ...program import Caps, Program, Step
from ..layout import GROUPS, WORKGROUP, spread
from ..pointwise.elementwise import Spec
from ..text import elements
from ..text.expression import Emitter
from ..text.numbers import packed
from ..text.render import Binding, render_program

MAX_SLOTS = {"gpu": 16, "cpu": 8}
SMALL = 2048  # elements up to which tensors share on a software adapter: each of its threads walks every slot's branch
MAX_WORDS = 64  # of parameters


class Operand(NamedTuple):
    """An input of the spec: "t" a tensor for each slot, "e" one element for each slot, "c" one element for all, "n" a
    number for each slot, "s" a number for all."""

    kind: str
    dtype: DType | None = None


def slots_of(operands: tuple[Operand, ...], fresh: int, scalars: int, caps: Caps) -> int:
    """How many tensors one dispatch can take; `fresh` outputs share no input's buffer."""
    each = sum(o.kind in "te" for o in operands) + fresh
    numbers = sum(o.kind == "n" for o in operands)
    common = sum(o.kind == "c" for o in operands)
    words = scalars + sum(o.kind == "s" for o in operands)
    return min(MAX_SLOTS[caps.kind], (caps.max_bindings - common) // each, (MAX_WORDS - words) // (2 + numbers))


def share(counts: list[int], limit: int, caps: Caps) -> int:
    """How many of the next tensors, of these element counts, go to one dispatch. On a software adapter few numbers,
    hence few programs: there a dispatch less gains nothing."""
    if caps.kind == "gpu":
        return min(len(counts), limit)
    return limit if len(counts) >= limit and max(counts[:limit]) <= SMALL else 1


Outputs = tuple[tuple[DType, int | None], ...]  # dtype, and the input whose buffer it shares or None


def plan(
    spec: Spec, operands: tuple[Operand, ...], outputs: Outputs, counts: list[int], bindings: tuple, caps: Caps
) -> Step:
    """A dispatch over tensors of these element counts, which it means. Binds, tensor by tensor, its inputs and its
    outputs that share no input's buffer, then what all tensors have in common. Numbers follow the parameters: for each
    input in turn one for all or one for each tensor, then the scalars."""
    per = WORKGROUP[caps.kind] * GROUPS[caps.kind]
    groups = [-(-n // 4) for n in counts]
    stops = ends([-(-n // per) for n in groups])
    program = _program(spec, operands, outputs, len(counts), caps)
    return Step(program, packed(groups + stops), spread(stops[-1], caps), bindings, meaning=len(counts))


def ends(groups: list[int]) -> list[int]:
    """The workgroup after the last of each tensor, of tensors that have so many."""
    return [*accumulate(groups)]


@cache
def _program(spec: Spec, operands: tuple[Operand, ...], outputs: Outputs, slots: int, caps: Caps) -> Program:
    outs = [f"out{k}" for k in range(len(outputs))]
    names = [*spec.inputs, *spec.scalars]
    varying = [n for n, o in zip(spec.inputs, operands) if o.kind in "ten"]
    numbers = [f"p.s_{s}" for s in spec.scalars]
    tags = "_".join(o.dtype.short if o.dtype else o.kind for o in operands)
    return render_program(
        f"{spec.name}_list{slots}_{tags}",
        "lists/elementwise.wgsl",
        _fields(spec, operands, slots),
        _bindings(spec, operands, outputs, slots, caps),
        caps,
        arguments=", ".join(f"{n}: f32" for n in names),
        outs=outs,
        body=Emitter(dict.fromkeys(names, "f32"), {}, caps.i64).program(spec.source, [(o, "f32") for o in outs]),
        common=_common(spec, operands, caps),
        varying=varying,
        lanes=[
            ", ".join([f"in_{n}.{c}" if n in varying else f"in_{n}" for n in spec.inputs] + numbers) for c in "xyzw"
        ],
        loads=[_loads(spec, operands, k, caps) for k in range(slots)],
        stores=[_stores(spec, outputs, k, caps) for k in range(slots)],
    )


def _fields(spec: Spec, operands: tuple[Operand, ...], slots: int) -> list[str]:
    """Each slot's groups of four and the workgroup after its last; then numbers, for all or slot by slot."""
    fields = [f"count{k}" for k in range(slots)] + [f"stop{k}" for k in range(slots)]
    for name, operand in zip(spec.inputs, operands):
        if operand.kind == "s":
            fields.append(f"s_{name}: f32")
        elif operand.kind == "n":
            fields += [f"s_{name}{k}: f32" for k in range(slots)]
    return fields + [f"s_{name}: f32" for name in spec.scalars]


def _bindings(spec: Spec, operands: tuple[Operand, ...], outputs: Outputs, slots: int, caps: Caps) -> list[Binding]:
    """The tensors of each slot in turn, then what all slots read."""
    bindings = []
    shared = {target for _, target in outputs}
    modes = {"t": "v", "e": "e"}
    for k in range(slots):
        for i, (name, operand) in enumerate(zip(spec.inputs, operands)):
            if operand.kind in modes:
                access = "read_write" if operand.kind == "t" and i in shared else "read"
                kind = elements.array_type(operand.dtype, modes[operand.kind], caps)
                bindings.append((f"b{k}_{name}", access, kind))
        for number, (dtype, target) in enumerate(outputs):
            if target is None:
                bindings.append((f"b{k}_out{number}", "read_write", elements.array_type(dtype, "v", caps)))
    for name, operand in zip(spec.inputs, operands):
        if operand.kind == "c":
            bindings.append((f"b_{name}", "read", elements.array_type(operand.dtype, "e", caps)))
    return bindings


def _common(spec: Spec, operands: tuple[Operand, ...], caps: Caps) -> list[tuple[str, str]]:
    """Inputs that are one value for all slots, with their texts."""
    common = []
    for name, operand in zip(spec.inputs, operands):
        if operand.kind == "c":
            common.append((name, elements.read(operand.dtype, f"b_{name}", "0u", caps)))
        elif operand.kind == "s":
            common.append((name, f"p.s_{name}"))
    return common


def _loads(spec: Spec, operands: tuple[Operand, ...], k: int, caps: Caps) -> list[str]:
    """Statements that read the inputs of slot k, four elements of each."""
    lines = []
    for name, operand in zip(spec.inputs, operands):
        var = f"b{k}_{name}"
        if operand.kind == "t":
            text, got = elements.read4(operand.dtype, var, "g", "got", caps)
            lines += ["{", *text, f"    in_{name} = vec4<f32>({', '.join(got)});", "}"]
        elif operand.kind == "e":
            lines.append(f"in_{name} = vec4<f32>({elements.read(operand.dtype, var, '0u', caps)});")
        elif operand.kind == "n":
            lines.append(f"in_{name} = vec4<f32>(p.s_{name}{k});")
    return lines


def _stores(spec: Spec, outputs: Outputs, k: int, caps: Caps) -> list[str]:
    """Statements that write the outputs of slot k."""
    lines = []
    for number, (dtype, target) in enumerate(outputs):
        var = f"b{k}_out{number}" if target is None else f"b{k}_{spec.inputs[target]}"
        lines += elements.write4(dtype, var, "g", [f"y{lane}.out{number}" for lane in range(4)], caps)
    return lines
