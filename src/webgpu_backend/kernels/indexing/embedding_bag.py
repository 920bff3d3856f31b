"""Rows summed (or their maximum taken) by bag: a thread per bag and column walks the bag's indices in order."""

from functools import cache
from struct import pack

from ...dtypes import DType, carrier
from ...program import Caps, Program, Step
from ..layout import grid
from ..pointwise.elementwise import WORKGROUP
from ..text import elements
from ..text.render import render

WINDOW = 32768  # indices per dispatch of a software driver, which stops silently after 65,535 loop trips
_FIELDS = (
    "n", "width", "bags", "count", "w_o", "w_s0", "w_s1", "i_o", "i_s", "off_o", "psw_o", "psw_s", "padding", "limit",
    "site", "mean", "begin", "end",
)  # fmt: skip


@cache
def _program(weight: DType, index_size: int, largest: bool, weighted: bool, caps: Caps) -> Program:
    own = carrier(weight, caps)
    accumulate = "f64" if own == "f64" else "f32"
    text = render(
        "indexing/embedding_bag.wgsl",
        caps,
        fields=_FIELDS,
        weight=elements.array_type(weight, "e", caps),
        index="array<vec2<u32>>" if index_size == 8 else "array<u32>",
        wide=index_size == 8,
        read_weight=elements.read(weight, "b_w", "at", caps),
        read_sample=elements.read(weight, "b_psw", "ps", caps),
        type=accumulate,
        largest=largest,
        weighted=weighted,
        workgroup=WORKGROUP[caps.kind],
    )
    name = f"embedding_bag_{'max' if largest else 'sum'}_{weight.short}{'w' if weighted else ''}"
    return Program(name, text, "rrr" + "r" * weighted + "ww" + "w" * largest, 4 * len(_FIELDS), guarded=True)


def whole(count: int, caps: Caps) -> bool:
    """Whether one dispatch takes all indices."""
    return caps.kind == "gpu" or count <= WINDOW


def plans(
    weight: DType, index_size: int, largest: bool, weighted: bool, numbers: dict[str, int], caps: Caps
) -> list[Step]:
    """Binds weight, indices, offsets, per-sample weights (where weighted), output, sizes, maxima (where largest) and
    the faults. `numbers` has every parameter but the window; `mean` only where one dispatch takes all.
    """
    program = _program(weight, index_size, largest, weighted, caps)
    result = []
    window = max(numbers["count"], 1) if whole(numbers["count"], caps) else WINDOW
    for begin in range(0, max(numbers["count"], 1), window):
        values = numbers | {"begin": begin, "end": min(begin + window, numbers["count"])}
        words = pack(f"<{len(_FIELDS)}I", *(values[f] & 0xFFFFFFFF for f in _FIELDS))
        result.append(Step(program, words, grid(numbers["n"], WORKGROUP[caps.kind], caps)))
    return result
