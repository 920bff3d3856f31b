"""3x3 convolutions of step one by Winograd's tiles: 2x2 outputs from 4x4 inputs with 16 products instead of 36.

Images, weights and gradients are transformed, multiplied as 16 matrices, and transformed back. The same tiles serve
the weights' gradient (3x3 outputs of a 2x2 window). In float32 the result is as good as that of the plain sum. A tile
that comes out with an infinity or NaN is summed plainly, so these stay in their places (but for the weights' gradient).
"""

from functools import cache

from ...dtypes import FLOAT32, DType
from ...program import Caps, Program, Step
from ..layout import grid
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program
from .epilogue import After, Kind, given, texts

_FIELDS = {
    "image": ("tiles", "tiles_h", "tiles_w", "images", "height", "width", "x_o", "s_n", "s_c", "s_h", "s_w",
              "pad_h", "pad_w"),
    "weight": ("rows", "x_o", "s_m", "s_k"),
    "out": ("tiles", "tiles_h", "tiles_w", "images", "height", "width", "channels", "depth", "x_height", "x_width",
            "x_o", "s_n", "s_c", "s_h", "s_w", "pad_h", "pad_w", "w_o", "s_m", "s_k"),
    "back": (),
}  # fmt: skip


def plan(
    kind: str, dtype: DType, written: DType, total: int, words, caps: Caps, flip: bool = False, bias=(),
    after: After | None = None,
) -> Step:  # fmt: skip
    """image and weight transform, grad is the image's for gradients; out and back transform back; one thread each of
    `total` tiles. `bias`: offset and stride; `after` takes its place."""
    finish, read, _ = given(after)
    program = _program(kind, dtype, written, flip, bool(bias), finish, caps)
    return Step(program, packed([total, *words, *bias, *read]), grid(total, caps, 128))


@cache
def _program(
    kind: str, dtype: DType, written: DType, flip: bool, bias: bool, after: Kind | None, caps: Caps
) -> Program:  # fmt: skip
    more, finishers, functions, tag = texts(after, caps)
    fields = ["total", *_FIELDS["image" if kind == "grad" else kind], *(("c_o", "c_s") if bias else ()), *more]
    read = FLOAT32 if kind in ("out", "back") else dtype
    bindings = [("x_in", "read", elements.array_type(read, "e", caps))]
    if kind == "out":
        bindings += [(name, "read", elements.array_type(dtype, "e", caps)) for name in ("source", "weight")]
    if bias:
        bindings.append(("c_in", "read", elements.array_type(dtype, "e", caps)))
    mode = elements.element_mode(written, caps, True)
    bindings += [*finishers, ("out", "read_write", elements.array_type(written, mode, caps))]
    return render_program(
        f"winograd_{kind}_{dtype.short}_{written.short}{'_flip' if flip else ''}{'_bias' if bias else ''}{tag}",
        "conv/winograd.wgsl", fields, bindings, caps, declarations=functions, after=after is not None, kind=kind,
        flip=flip, bias=bias,
        read=lambda var, at: elements.read(dtype, var, at, caps),
        write=lambda at, value: elements.write(written, "out", at, value, caps),
    )  # fmt: skip
