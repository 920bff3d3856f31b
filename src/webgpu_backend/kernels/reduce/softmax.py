"""Softmax, log_softmax and their gradients over contiguous rows, for GPUs: a row is read once and kept in registers
where it fits, and streamed twice where it does not.

Memory is read and written in groups of four whatever the row's length: a row that starts inside a group shares its
first and last group with its neighbours, whose lanes are masked.
"""

from functools import cache
from typing import NamedTuple

from ...dtypes import DType
from ...program import Caps, Program, Step
from ..layout import View, spread
from ..text import elements
from ..text.numbers import packed
from ..text.render import render_program

OPS = ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward")
THREADS = 128  # of a workgroup, unless a row needs more
UNITS = 4  # groups of four that a thread holds of each input, at best; registers allow twice that for one input
BUSY = 65536  # threads from which the adapter is full


class Walk(NamedTuple):
    """`along` threads to a row, `across` rows to a workgroup; `units` groups held by a thread, 0: streamed."""

    along: int
    across: int
    units: int


def plan(op: str, inputs: list[View], out: DType, caps: Caps) -> Step | None:
    """`op` is softmax or log_softmax, or one with `_backward`, over the last dimension of views with two dimensions;
    the output is fresh and contiguous. None where this kernel is not the one to take."""
    m, k = inputs[0].sizes
    ragged = k % 4 != 0
    if caps.kind != "gpu" or out.carrier != "f32" or k < 2 or m * k >= 1 << 31:
        return None
    for view in inputs:
        if view.dtype.carrier != "f32" or view.offset % 4 or view.strides[1] != 1 or (view.strides[0] - k) % 4:
            return None
        if view.offset + m * view.strides[0] >= 1 << 32:
            return None
    if ragged and out.packed and elements.element_mode(out, caps, written=True) != "e":
        return None
    walk = _walk(m, k, len(inputs), caps)
    if walk is None:
        return None
    program = _program(op, tuple(v.dtype for v in inputs), out, ragged, walk, caps)
    words = [m, k, *(w for v in inputs for w in (v.offset, v.strides[0]))]
    return Step(program, packed(words), spread(-(-m // walk.across), caps))


def _walk(m: int, k: int, count: int, caps: Caps) -> Walk | None:
    groups = k // 4 if k % 4 == 0 else (k + 6) // 4  # of a row that starts anywhere
    most = min(caps.workgroup_size, 1024)
    along = 8
    while along < most and -(-groups // along) > UNITS:
        along *= 2
    while along < most and along < groups and m * along < BUSY:
        along *= 2
    units = 1 << (-(-groups // along) - 1).bit_length()  # powers of two: few programs, whatever the lengths
    if units <= UNITS * (2 if count == 1 else 1):
        return Walk(along, max(1, THREADS // along), units)
    return Walk(most, 1, 0) if m >= 64 else None


@cache
def _program(op: str, dtypes: tuple[DType, ...], out: DType, ragged: bool, walk: Walk, caps: Caps) -> Program:
    names = "ab"[: len(dtypes)]
    bindings = [(f"b_{n}", "read", elements.array_type(d, "v", caps)) for n, d in zip(names, dtypes)]
    bindings.append(("b_out", "read_write", elements.array_type(out, "v", caps)))
    loads = []
    for name, dtype in zip(names, dtypes):
        lines, lanes = elements.read4(dtype, f"b_{name}", "g", "v", caps)
        loads.append((name, [*lines, f"return vec4<f32>({', '.join(lanes)});"]))
    store = elements.write4(out, "b_out", "g", [f"v.{c}" for c in "xyzw"], caps)
    # Of a group that a neighbouring row shares: one component each.
    kind = "f16" if out.name == "float16" else "f32"
    parts = [f"if (keep.{c}) {{ b_out[g].{c} = {kind}(v.{c}); }}" for c in "xyzw"] if ragged else []
    tags = "_".join(d.short for d in (*dtypes, out))
    return render_program(
        f"{op}_{tags}_{walk.across}x{walk.along}u{walk.units}{'r' if ragged else ''}",
        "reduce/softmax.wgsl",
        ["m", "k", *(f"{n}_{part}" for n in names for part in "os")],
        bindings,
        caps,
        op=op,
        names=names,
        loads=loads,
        store=store,
        parts=parts,
        ragged=ragged,
        along=walk.along,
        halves=[walk.along >> s for s in range(1, walk.along.bit_length())],
        across=walk.across,
        units=walk.units,
    )
