"""Convolutions with few outputs a group (heads, last layers of decoders, gradients of colour images), forward and
transposed: a tile of a matrix product would be mostly empty, so a thread has all outputs of some positions.

Three numbers per spatial dimension everywhere. A transposed convolution with stride s is one of unit step whose
outputs are the s * s * s phases of the result, each with every s-th tap.
"""

from functools import cache
from typing import NamedTuple

from ...dtypes import FLOAT32, DType
from ...program import Caps, Plan, Program, Step
from ..layout import grid, numel, spread
from ..matmul.product import Matrix, numbered
from ..matmul.tiles import tuning
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program
from .by_tables import MOST_AGAIN, plan_finish
from .epilogue import FINISHED, After, Kind, given, texts

MOST = 8  # outputs of a group
THREADS = 64
CHANNELS = (16, 8, 4)  # whose taps are taken together: many are worth the barriers, of many taps they leave the cache
UNROLL = 4  # channels read together
STAGE = 16  # taps whose weights lie in workgroup memory
GRAD_TAPS = 8  # of a window's row whose gradients a workgroup sums, nine of several rows
GRAD_THREADS = 256
GRAD_HELD = 2  # vectors of sums in workgroup memory at a time
GRAD_GROUPS = 2048  # workgroups that fill the adapter
TRIPS = 8192  # loop iterations of a thread: one software driver stops at 65,535
SPLIT = 64  # a part of the sum is at least this long
_WORD = 0xFFFFFFFF


class Few(NamedTuple):
    batch: int
    groups: int
    rows: int  # outputs of a group
    channels: int  # inputs of a group
    sizes: tuple[int, int, int]  # of the image that is read
    strides: tuple[int, ...]  # of its images, channels and dimensions
    offset: int
    out: tuple[int, int, int]  # sizes of the result
    window: tuple[int, int, int]
    step: tuple[int, int, int]
    padding: tuple[int, int, int]
    dilation: tuple[int, int, int]
    moved: bool  # transposed: the window moves over the result

    @property
    def by(self) -> tuple[int, ...]:
        """Phases of each dimension."""
        return self.step if self.moved else (1, 1, 1)

    @property
    def taps(self) -> tuple[int, ...]:
        """Of a phase, at most."""
        return tuple(-(-k // s) for k, s in zip(self.window, self.by))

    @property
    def parts(self) -> int:
        """Phases that a workgroup takes together."""
        phases = numel(self.by)
        return 1 if phases == 1 else 2 if phases == 2 or self.rows > 4 else 4

    @property
    def blocks(self) -> int:
        return -(-numel(self.by) // self.parts)

    @property
    def pitch(self) -> int:
        """Words that the weights of a phase, tap and channel take."""
        return -(-self.rows // 4) * 4

    def positions(self) -> tuple[int, ...]:
        """A phase's positions: where (i + padding) // step is the same, for some i of the result."""
        if not self.moved:
            return self.out
        return tuple((n - 1 + p) // s - p // s + 1 for n, p, s in zip(self.out, self.padding, self.step))


_AXES = ("x", "pos", "step", "first", "taps", "tap", "win", "by", "out", "origin")
_FIELDS = [
    "total", "blocks", "tiles", "splits", "chunk", "channels", "n", "x_o", "xs_n", "xs_c", "xs_d", "xs_h", "xs_w",
    *(f"{name}_{axis}" for name in _AXES for axis in "dhw"), "o_n", "o_s",
]  # fmt: skip


def served(moved: bool, step, dilation) -> bool:
    """Phases have every stride-th tap only where the window is dense."""
    return not moved or max(step) == 1 or max(dilation) == 1


def pixels(q: Few, n: int, caps: Caps) -> int:
    """Positions a thread has: many share the weights they read, as long as there are workgroups for the whole card."""
    most = 8 if q.rows * q.parts <= 4 else 4 if q.rows * q.parts <= 16 else 2
    while most > 1 and q.groups * q.blocks * n < most * THREADS * 4 * tuning().units:
        most //= 2
    return most


def together(taps: int, count: int) -> int:
    """How many of `count` channels are taken together."""
    some = CHANNELS if taps <= 2 else CHANNELS[1:]
    return next((c for c in some if count % c == 0), None) or next((c for c in some if c <= count), CHANNELS[-1])


def plan(q: Few, bias: Matrix | None, dtype: DType, written: DType, caps: Caps, after: After | None = None) -> Plan:
    """The result, contiguous; "a" is what `plan_weight` makes. `after` takes the place of a bias."""
    positions, taps = q.positions(), q.taps
    n = q.batch * numel(positions)
    each = pixels(q, n, caps)
    tiles = -(-n // (THREADS * each))
    groups = q.groups * q.blocks * tiles
    count = q.batch * q.groups * q.rows * numel(q.out)
    splits = max(1, min(2 * tuning().units // groups, q.channels * numel(taps) // SPLIT, q.channels, 64))
    some = together(numel(taps), q.channels)
    chunk = -(-q.channels // (splits * some)) * some
    splits = -(-q.channels // chunk)
    if q.moved:
        step = (1, 1, 1)
        first = [p // s for p, s in zip(q.padding, q.step)]
        tap = [-d for d in q.dilation] if max(q.step) == 1 else [-1] * 3
        origin = [p // s * s - p for p, s in zip(q.padding, q.step)]
    else:
        step, first, tap, origin = q.step, [-p for p in q.padding], q.dilation, (0, 0, 0)
    words = [groups * splits, q.blocks, tiles, splits, chunk, q.channels, n, q.offset, *q.strides, *q.sizes]
    words += [*positions, *step, *first, *taps, *tap, *q.window, *q.by, *q.out, *origin]
    words += [q.groups * q.rows * numel(q.out), count]
    own = bias if splits == 1 else None
    if own is not None:
        words += [own.offset, own.row]
    out = written if splits == 1 else FLOAT32
    kind, read, names = given(after if splits == 1 else None)
    program = _program(q.rows, q.parts, each, dtype, out, own is not None, STAGE, some, UNROLL, THREADS, kind, caps)
    bindings = ("a", "b", *(("c",) if own is not None else ()), *names, "out" if splits == 1 else "part")
    step = Step(program, packed([w & _WORD for w in words + read]), spread(groups * splits, caps), bindings)
    if splits == 1:
        return numbered(Plan((step,), {}), FINISHED)
    last = plan_finish(written, bias, count, splits, numel(q.out), q.groups * q.rows, caps, after)
    return numbered(Plan((step, last), {"part": 4 * splits * count}), FINISHED)


@cache
def _program(
    rows: int, parts: int, each: int, dtype: DType, out: DType, bias: bool, stage: int, channels: int, unroll: int,
    threads: int, after: Kind | None, caps: Caps,
) -> Program:  # fmt: skip
    more, finishers, functions, tag = texts(after, caps)
    fields = _FIELDS + (["c_o", "c_s"] if bias else []) + more
    bindings = [("w_in", "read", "array<vec4<f32>>"), ("x_in", "read", elements.array_type(dtype, "e", caps))]
    if bias:
        bindings.append(("c_in", "read", elements.array_type(dtype, "e", caps)))
    mode = elements.element_mode(out, caps, True)
    bindings += [*finishers, ("out", "read_write", elements.array_type(out, mode, caps))]
    return render_program(
        f"conv_few_{rows}x{parts}x{each}_{dtype.short}_{out.short}{'_bias' if bias else ''}{tag}",
        "conv/few_outputs.wgsl", fields, bindings, caps, declarations=functions, after=after is not None, rows=rows,
        parts=parts, pixels=each, bias=bias, stage=stage, channels=channels,
        unroll=unroll, threads=threads, read=lambda x, at: elements.read(dtype, f"{x}_in", at, caps),
        write=lambda at, value: elements.write(out, "out", at, value, caps),
    )  # fmt: skip


def plan_weight(q: Few, weight: Matrix, caps: Caps) -> tuple[int, Plan]:
    """The weights, contiguous from their offset, as the kernel reads them: how many words, and how to make them."""
    taps, window = q.taps, numel(q.window)
    total = q.groups * q.blocks * numel(taps) * q.channels * q.parts * q.pitch
    across = q.channels * window, window
    if q.moved:
        across = window, q.rows * window
    words = [total, q.pitch, q.parts, q.channels, q.blocks, q.rows, *taps, *q.by, *q.window]
    words += [weight.offset, q.rows * q.channels * window, *across]
    params = packed(words)
    step = Step(_weight_program(weight.dtype, caps), params, grid(total, caps, 64), ("a", "out"))
    return total, numbered(Plan((step,), {}))


@cache
def _weight_program(dtype: DType, caps: Caps) -> Program:
    fields = ["total", "pitch", "parts", "channels", "blocks", "rows"]
    fields += [f"{name}_{axis}" for name in ("taps", "by", "win") for axis in "dhw"] + ["w_o", "w_g", "w_r", "w_c"]
    bindings = [("w_in", "read", elements.array_type(dtype, "e", caps)), ("out", "read_write", "array<f32>")]
    return render_program(
        f"conv_few_weight_{dtype.short}", "conv/few_outputs_weight.wgsl", fields, bindings, caps,
        read=lambda at: elements.read(dtype, "w_in", at, caps),
    )  # fmt: skip


def plan_grad(q: Few, grad: Matrix, dtype: DType, caps: Caps) -> Plan:
    """The weights' gradient of a convolution that is not transposed; `grad` is contiguous within an image, `inner` is
    its images' stride."""
    wide = min(q.window[2], GRAD_TAPS)
    high = max(1, min(q.window[1], (GRAD_TAPS + 1) // wide))
    blocks = q.window[0] * -(-q.window[1] // high) * -(-q.window[2] // wide) * q.channels * q.groups
    along = 1
    while along < min(q.out[2], 32):
        along *= 2
    lines = q.batch * q.out[0] * q.out[1]
    turns = -(-q.out[2] // along)  # of the inner loop
    chunk = max(-(-lines * blocks // GRAD_GROUPS), GRAD_THREADS // along)
    chunk = min(chunk, lines, max(TRIPS // (turns + 1), 1) * (GRAD_THREADS // along))
    splits = -(-lines // chunk)
    count = q.groups * q.rows * q.channels * numel(q.window)
    words = [blocks * splits, lines, chunk, along, q.groups, q.channels, q.offset, *q.strides, *q.sizes, *q.out]
    words += [*q.window, *q.step, *q.padding, *q.dilation, grad.offset, grad.inner]
    direct = splits == 1 and dtype == FLOAT32
    program = _grad_program(q.rows, high, wide, GRAD_HELD, dtype, caps)
    params = packed(words)
    step = Step(program, params, spread(blocks * splits, caps), ("a", "b", "out" if direct else "part"))
    if direct:
        return numbered(Plan((step,), {}))
    return numbered(Plan((step, plan_finish(dtype, None, count, splits, 1, 1, caps)), {"part": 4 * splits * count}))


@cache
def _grad_program(rows: int, high: int, wide: int, held: int, dtype: DType, caps: Caps) -> Program:
    fields = ["total", "rows", "chunk", "along", "groups", "channels", "x_o", "xs_n", "xs_c", "xs_d", "xs_h", "xs_w"]
    fields += [f"{name}_{axis}" for name in ("x", "pos", "win", "step", "pad", "dil") for axis in "dhw"]
    fields += ["y_o", "ys_n"]
    bindings = [(f"{name}_in", "read", elements.array_type(dtype, "e", caps)) for name in "yx"]
    bindings.append(("out", "read_write", "array<f32>"))
    reaches, reach = [], GRAD_THREADS // 4
    while reach:
        reaches.append(reach)
        reach //= 4
    return render_program(
        f"conv_few_grad_{rows}x{high}x{wide}_{dtype.short}", "conv/few_outputs_gradient.wgsl", fields, bindings, caps,
        rows=rows, high=high, wide=wide, threads=GRAD_THREADS, held=held, reaches=reaches,
        most_again=MOST_AGAIN,
        read=lambda x, at: elements.read(dtype, f"{x}_in", at, caps),
    )  # fmt: skip
