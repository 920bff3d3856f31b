"""Elementwise kernels over lists of tensors: several tensors to a dispatch, each a range of its workgroups.

Every tensor is a binding of its own, so a dispatch takes as many as the adapter binds. Tensors are contiguous and start
their buffers; floats only, computed in f32.
"""

from functools import cache
from struct import pack
from typing import NamedTuple

from ...dtypes import DType
from ...program import Caps, Program
from ..layout import spread
from ..pointwise.elementwise import GROUPS, WORKGROUP, Spec
from ..text import elements
from ..text.expression import Emitter
from ..text.render import render

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


@cache
def program(
    spec: Spec, operands: tuple[Operand, ...], outputs: tuple[tuple[DType, int | None], ...], slots: int, caps: Caps
) -> Program:
    """`outputs` are (dtype, the input whose buffer it shares or None).

    Parameters: each slot's groups of four and the workgroup after its last; then numbers, for all or slot by slot.
    """
    outs = [f"out{k}" for k in range(len(outputs))]
    names = [*spec.inputs, *spec.scalars]
    body = Emitter(dict.fromkeys(names, "f32"), {}, caps.i64).program(spec.source, [(o, "f32") for o in outs])
    fields = [f"count{k}: u32" for k in range(slots)] + [f"stop{k}: u32" for k in range(slots)]
    shared = {target for _, target in outputs}
    bindings: list[tuple[str, str, str]] = []
    loads: list[list[str]] = []
    stores: list[list[str]] = []
    for k in range(slots):
        load, store = [], []
        for i, (name, operand) in enumerate(zip(spec.inputs, operands)):
            var = f"b{k}_{name}"
            if operand.kind == "t":
                text, got = elements.read4(operand.dtype, var, "g", "got", caps)
                load += ["{", *text, f"    in_{name} = vec4<f32>({', '.join(got)});", "}"]
                access = "read_write" if i in shared else "read"
                bindings.append((var, access, elements.array_type(operand.dtype, "v", caps)))
            elif operand.kind == "e":
                load.append(f"in_{name} = vec4<f32>({elements.read(operand.dtype, var, '0u', caps)});")
                bindings.append((var, "read", elements.array_type(operand.dtype, "e", caps)))
            elif operand.kind == "n":
                load.append(f"in_{name} = vec4<f32>(p.s_{name}{k});")
        for out, (dtype, target) in zip(outs, outputs):
            var = f"b{k}_{out if target is None else spec.inputs[target]}"
            store += elements.write4(dtype, var, "g", [f"y{lane}.{out}" for lane in range(4)], caps)
            if target is None:
                bindings.append((var, "read_write", elements.array_type(dtype, "v", caps)))
        loads.append(load)
        stores.append(store)
    common = []
    for name, operand in zip(spec.inputs, operands):
        if operand.kind == "c":
            bindings.append((f"b_{name}", "read", elements.array_type(operand.dtype, "e", caps)))
            common.append((name, elements.read(operand.dtype, f"b_{name}", "0u", caps)))
        elif operand.kind == "s":
            fields.append(f"s_{name}: f32")
            common.append((name, f"p.s_{name}"))
        elif operand.kind == "n":
            fields += [f"s_{name}{k}: f32" for k in range(slots)]
    fields += [f"s_{name}: f32" for name in spec.scalars]
    varying = [n for n, o in zip(spec.inputs, operands) if o.kind in "ten"]
    numbers = [f"p.s_{s}" for s in spec.scalars]
    lanes = [", ".join([f"in_{n}.{c}" if n in varying else f"in_{n}" for n in spec.inputs] + numbers) for c in "xyzw"]
    text = render(
        "lists/elementwise.wgsl",
        caps,
        fields=fields,
        bindings=bindings,
        arguments=", ".join(f"{n}: f32" for n in names),
        outs=outs,
        body=body,
        common=common,
        varying=varying,
        lanes=lanes,
        loads=loads,
        stores=stores,
        workgroup=WORKGROUP[caps.kind],
        groups=GROUPS[caps.kind],
    )
    access = "".join("r" if a == "read" else "w" for _, a, _ in bindings)
    tags = "_".join(o.dtype.short if o.dtype else o.kind for o in operands)
    return Program(f"{spec.name}_list{slots}_{tags}", text, access, 4 * len(fields))


def params(counts: list[int], caps: Caps) -> tuple[bytes, tuple[int, int, int]]:
    """The parameters that lead, and the grid, for tensors of these element counts."""
    per = WORKGROUP[caps.kind] * GROUPS[caps.kind]
    groups = [-(-n // 4) for n in counts]
    ends, end = [], 0
    for n in groups:
        end += -(-n // per)
        ends.append(end)
    return pack(f"<{2 * len(counts)}I", *groups, *ends), spread(end, caps)
