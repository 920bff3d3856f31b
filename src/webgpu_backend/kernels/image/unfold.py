"""Overlapping windows added up: each output element gathers what the windows over it hold (fold, unfold's gradient)."""

from functools import cache

from ...dtypes import DType, Unsupported, carrier
from ...program import Caps, Program, Step
from ..layout import grid
from ..text import elements
from ..text.expression import Emitter, literal, wgsl_type
from ..text.numbers import packed
from ..text.render import render_program

# Output (outer, height, width); a window is `high` x `wide`; windows form `rows` x `columns`. The s_ are strides of the
# source by outer index, by place in the window (s_i, s_j) and by window (s_r, s_c).
FIELDS = (
    "n", "height", "width", "high", "wide", "rows", "columns", "step_y", "step_x", "gap_y", "gap_x", "pad_y", "pad_x",
    "src_o", "s_outer", "s_i", "s_j", "s_r", "s_c",
)  # fmt: skip


def plan(dtype: DType, numbers: dict[str, int], caps: Caps) -> Step:
    if numbers["high"] * numbers["wide"] * 4 > 60_000:
        raise Unsupported("webgpu: a window of more places than a software driver loops over")
    words = [numbers[f] for f in FIELDS]
    return Step(_program(dtype, caps), packed(words), grid(-(-numbers["n"] // 4), caps))


@cache
def _program(dtype: DType, caps: Caps) -> Program:
    own = carrier(dtype, caps)
    emitter = Emitter({"a": own, "b": own}, {}, caps.i64)
    return render_program(
        f"fold_{dtype.short}",
        "image/unfold.wgsl",
        FIELDS,
        [
            ("b_src", "read", elements.array_type(dtype, "e", caps)),
            ("b_out", "read_write", elements.array_type(dtype, "v", caps)),
        ],
        caps,
        type=wgsl_type(own),
        zero=literal(0, own),
        combine=emitter.program("a + b", [("joined", own)]),
        read=elements.read(dtype, "b_src", "at", caps),
        store=elements.write4(dtype, "b_out", "g", ["v0", "v1", "v2", "v3"], caps),
    )
