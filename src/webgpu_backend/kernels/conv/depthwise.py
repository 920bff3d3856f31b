"""Convolutions whose groups have one input channel (depthwise): nothing to share between channels, so no product.

Three numbers per spatial dimension everywhere. `kind` as for gathers: g the window moves over the image, t over the
output (the image's gradient), u is t where it moves by one.
"""

from functools import cache
from typing import NamedTuple

from ...dtypes import DType
from ...program import Caps, Plan, Program, Step
from ..layout import grid
from ..matmul.product import Matrix, numbered
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program
from .epilogue import FINISHED, After, Kind, given, texts

ROWS = 4  # outputs a thread has


class Depthwise(NamedTuple):
    batch: int
    channels: int  # of the output
    multiple: int  # output channels of each input channel
    sizes: tuple[int, int, int]  # of the image that is read
    strides: tuple[int, ...]  # of its images, channels and dimensions
    offset: int
    positions: tuple[int, int, int]
    window: tuple[int, int, int]
    step: tuple[int, int, int]
    padding: tuple[int, int, int]
    dilation: tuple[int, int, int]

    def words(self) -> list[int]:
        return [
            self.channels, self.multiple, self.offset, *self.strides, *self.sizes, *self.positions, *self.window,
            *self.step, *self.padding, *self.dilation,
        ]  # fmt: skip


_FIELDS = ["channels", "multiple", "x_o", "xs_n", "xs_c", "xs_d", "xs_h", "xs_w"] + [
    f"{name}_{axis}" for name in ("x", "pos", "win", "step", "pad", "dil") for axis in "dhw"
]


def plan(
    q: Depthwise, kind: str, weight: Matrix, bias: Matrix | None, dtype: DType, out: DType, caps: Caps,
    after: After | None = None,
) -> Plan:  # fmt: skip
    """The output, contiguous; `weight` is contiguous from its offset. `after` takes the place of a bias."""
    rows = ROWS if q.positions[1] >= ROWS else 1
    bands = -(-q.positions[1] // rows)
    total = q.batch * q.channels * q.positions[0] * bands * q.positions[2]
    words = [total, bands, *q.words(), weight.offset]
    if bias is not None:
        words += [bias.offset, bias.row]
    finish, read, names = given(after)
    program = _program(kind, rows, dtype, out, bias is not None, finish, caps)
    bindings = ("a", "b", *(("c",) if bias is not None else ()), *names, "out")
    step = Step(program, packed(words + read), grid(total, caps, 64), bindings)
    return numbered(Plan((step,), {}), FINISHED)


@cache
def _program(kind: str, rows: int, dtype: DType, out: DType, bias: bool, after: Kind | None, caps: Caps) -> Program:
    more, finishers, functions, tag = texts(after, caps)
    fields = ["total", "bands", *_FIELDS, "w_o"] + (["c_o", "c_s"] if bias else []) + more
    bindings = [(f"{name}_in", "read", elements.array_type(dtype, "e", caps)) for name in ("wxc" if bias else "wx")]
    mode = elements.element_mode(out, caps, True)
    bindings += [*finishers, ("out", "read_write", elements.array_type(out, mode, caps))]
    return render_program(
        f"conv_depthwise_{kind}{rows}_{dtype.short}_{out.short}{'_bias' if bias else ''}{tag}", "conv/depthwise.wgsl",
        fields, bindings, caps, declarations=functions, after=after is not None, kind=kind, rows=rows,
        bias=bias, read=lambda x, at: elements.read(dtype, f"{x}_in", at, caps),
        write=lambda at, value: elements.write(out, "out", at, value, caps),
    )  # fmt: skip
