"""Rows summed (or their maximum taken) by bag: a thread per bag and column walks the bag's indices in order."""

from functools import cache

from ...dtypes import DType, carrier
from ...program import Caps, Plan, Program, Step
from ..layout import grid
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program

WINDOW = 32768  # indices per dispatch of a software driver, which stops silently after 65,535 loop trips
_FIELDS = (
    "n", "width", "bags", "count", "w_o", "w_s0", "w_s1", "i_o", "i_s", "off_o", "psw_o", "psw_s", "padding", "limit",
    "site", "mean", "begin", "end",
)  # fmt: skip


def whole(count: int, caps: Caps) -> bool:
    """Whether one dispatch takes all indices."""
    return caps.kind == "gpu" or count <= WINDOW


def plan(weight: DType, index_size: int, largest: bool, weighted: bool, numbers: dict[str, int], caps: Caps) -> Plan:
    """Over weight, indices, offsets, per-sample weights (where weighted), output, sizes and maxima (where largest).
    `numbers` has every parameter but the window; `mean` only where one dispatch takes all."""
    program = _program(weight, index_size, largest, weighted, caps)
    bindings, where = tuple(range(len(program.access))), grid(numbers["n"], caps)
    steps, count = [], numbers["count"]
    window = max(count, 1) if whole(count, caps) else WINDOW
    for begin in range(0, max(count, 1), window):
        values = numbers | {"begin": begin, "end": min(begin + window, count)}
        words = [values[f] & 0xFFFFFFFF for f in _FIELDS]
        steps.append(Step(program, packed(words), where, bindings))
    return Plan(tuple(steps))


@cache
def _program(weight: DType, index_size: int, largest: bool, weighted: bool, caps: Caps) -> Program:
    type_ = "f64" if carrier(weight, caps) == "f64" else "f32"  # of the sums
    kind = elements.array_type(weight, "e", caps)
    index = "array<vec2<u32>>" if index_size == 8 else "array<u32>"
    bindings = [("b_w", "read", kind), ("b_i", "read", index), ("b_off", "read", index)]
    if weighted:
        bindings.append(("b_psw", "read", kind))
    bindings += [("b_out", "read_write", f"array<{type_}>"), ("b_size", "read_write", "array<vec2<u32>>")]
    if largest:
        bindings.append(("b_max", "read_write", "array<vec2<u32>>"))
    return render_program(
        f"embedding_bag_{'max' if largest else 'sum'}_{weight.short}{'w' if weighted else ''}",
        "indexing/embedding_bag.wgsl",
        _FIELDS,
        bindings,
        caps,
        guarded=True,
        wide=index_size == 8,
        read_weight=elements.read(weight, "b_w", "at", caps),
        read_sample=elements.read(weight, "b_psw", "ps", caps),
        type=type_,
        largest=largest,
        weighted=weighted,
    )
