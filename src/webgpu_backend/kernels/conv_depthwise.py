"""Convolutions whose groups have one input channel (depthwise): nothing to share between channels, so no product.

Three numbers per spatial dimension everywhere. `kind` as for gathers: g the window moves over the image, t over the
output (the image's gradient), u is t where it moves by one.
"""

from functools import cache
from struct import pack
from typing import NamedTuple

from ..dtypes import FLOAT32, DType
from ..program import Caps, Program
from . import elements
from .conv import finish
from .layout import grid, numel, spread
from .product import Matrix, Plan, Step
from .render import render

ROWS = 4  # outputs a thread has
THREADS = 256
GROUPS = 2048  # workgroups that fill the adapter
TRIPS = 8192  # loop iterations of a thread: one software driver stops at 65,535


class Depthwise(NamedTuple):
    batch: int
    channels: int  # of the output (of the gradient, for weights)
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


def plan(q: Depthwise, kind: str, weight: Matrix, bias: Matrix | None, dtype: DType, caps: Caps) -> Plan:
    """The output, contiguous; `weight` is contiguous from its offset."""
    rows = ROWS if q.positions[1] >= ROWS else 1
    bands = -(-q.positions[1] // rows)
    total = q.batch * q.channels * q.positions[0] * bands * q.positions[2]
    words = [total, bands, *q.words(), weight.offset]
    if bias is not None:
        words += [bias.offset, bias.row]
    program = _program(kind, rows, dtype, bias is not None, caps)
    bindings = ("a", "b", "c", "out") if bias is not None else ("a", "b", "out")
    return Plan((Step(program, bindings, pack(f"<{len(words)}I", *words), grid(total, 64, caps)),), {})


@cache
def _program(kind: str, rows: int, dtype: DType, bias: bool, caps: Caps) -> Program:
    fields = ["total", "bands", *_FIELDS, "w_o"] + (["c_o", "c_s"] if bias else [])
    bindings = [(f"{name}_in", "read", elements.array_type(dtype, "e", caps)) for name in ("wxc" if bias else "wx")]
    bindings.append(("out", "read_write", elements.array_type(dtype, elements.element_mode(dtype, caps, True), caps)))
    wgsl = render(
        "conv_depthwise.wgsl", caps,
        fields=[f"{f}: u32" for f in fields], bindings=bindings, kind=kind, rows=rows, bias=bias,
        read=lambda x, at: elements.read(dtype, f"{x}_in", at, caps),
        write=lambda at, value: elements.write(dtype, "out", at, value, caps),
    )  # fmt: skip
    access = "r" * (len(bindings) - 1) + "w"
    return Program(f"conv_depthwise_{kind}{rows}_{dtype.short}{'_bias' if bias else ''}", wgsl, access, 4 * len(fields))


def plan_weight(q: Depthwise, grad: Matrix, dtype: DType, caps: Caps) -> Plan:
    """The weights' gradient; `grad` is contiguous within an image, `inner` is its images' stride."""
    count = q.channels * numel(q.window)
    lines = count // q.window[2] * -(-q.window[2] // 4)  # workgroups of four taps
    along = 1
    while along < min(q.positions[2], 32):
        along *= 2
    rows = q.batch * q.positions[0] * q.positions[1]
    turns = -(-q.positions[2] // along)  # of the inner loop
    chunk = max(-(-rows * lines // GROUPS), THREADS // along)
    chunk = min(chunk, rows, max(TRIPS // (turns + 1), 1) * (THREADS // along))
    splits = -(-rows // chunk)
    words = [lines * splits, rows, chunk, along, *q.words(), grad.offset, grad.inner]
    direct = splits == 1 and dtype == FLOAT32
    bindings = ("a", "b", "out" if direct else "part")
    step = Step(_weight_program(dtype, caps), bindings, pack(f"<{len(words)}I", *words), spread(lines * splits, caps))
    if direct:
        return Plan((step,), {})
    return Plan((step, finish(dtype, None, count, splits, 1, 1, caps)), {"part": (splits * count, FLOAT32)})


@cache
def _weight_program(dtype: DType, caps: Caps) -> Program:
    fields = ["total", "rows", "chunk", "along", *_FIELDS, "y_o", "ys_n"]
    bindings = [(f"{name}_in", "read", elements.array_type(dtype, "e", caps)) for name in "yx"]
    bindings.append(("out", "read_write", "array<f32>"))
    wgsl = render(
        "conv_depthwise_weight.wgsl", caps,
        fields=[f"{f}: u32" for f in fields], bindings=bindings, threads=THREADS,
        read=lambda x, at: elements.read(dtype, f"{x}_in", at, caps),
    )  # fmt: skip
    return Program(f"conv_depthwise_weight_{dtype.short}", wgsl, "rrw", 4 * len(fields))
